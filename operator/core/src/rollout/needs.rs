//! Takes a world whose metrics were not read yet, gives what must be read for this pass: as little as possible. What the last
//! pass remembers spares samples and nothing else. Never reads anything itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::position::{Position, RegionState, Stage, WorkStage};
use super::watch;
use crate::names::{Region, WorkloadId};
use crate::plan::Plan;
use crate::world::{MetricsNeed, Running, World};

/// How far back a proof of the allocator is looked for, seconds.
const PROOF_WINDOW: f64 = 60.0;

/// What must be asked of each region's Prometheus.
pub fn needs(world: &World) -> BTreeMap<Region, MetricsNeed> {
    let mut out = BTreeMap::new();
    let Some(attempt) = world.attempts.last() else {
        return out;
    };
    let Some(position) = &attempt.position else {
        return out;
    };
    if position.ending.is_some() || position.undo.is_some() || position.held.is_some() {
        return out;
    }
    for (region, state) in &position.regions {
        let Some((from, proof_only)) = window(world.now, &attempt.plan, state) else {
            continue;
        };
        let from = running_since(&world.running, region, state).unwrap_or(from);
        let workloads: Vec<WorkloadId> = state
            .workloads
            .iter()
            .filter(|(_, work)| !matches!(work.stage, WorkStage::Released(_)))
            .map(|(id, _)| id.clone())
            .collect();
        add(&mut out, region, from, proof_only, &workloads);
        if !proof_only {
            for control in controls(&attempt.plan, position, region).regions {
                add(&mut out, &control, from, false, &workloads);
            }
        }
    }
    out
}

fn window(now: Timestamp, plan: &Plan, state: &RegionState) -> Option<(Timestamp, bool)> {
    let due = || watch::due(now, state);
    match state.stage {
        Stage::Baseline if due() => {
            // One block more, since blocks are aligned to the clock and the window is not.
            let window = plan.judge.baseline_seconds + plan.judge.block_seconds + plan.judge.lead();
            Some((before(now, window), false))
        }
        Stage::Verifying => Some((before(now, PROOF_WINDOW), true)),
        Stage::Baking if due() => Some((since_change(plan, state)?, false)),
        Stage::Passed if watch::watched(state) && due() => {
            Some((since_change(plan, state)?, false))
        }
        Stage::Baseline
        | Stage::Baking
        | Stage::Injecting
        | Stage::Passed
        | Stage::Nothing
        | Stage::Undoing
        | Stage::Undone
        | Stage::Unverified
        | Stage::Failed => None,
    }
}

/// From when on samples are needed where the settled blocks of every workload in judgement are remembered; `None`: they are
/// not, or it is no look at a bake.
pub(super) fn running_since(
    running: &Running,
    region: &Region,
    state: &RegionState,
) -> Option<Timestamp> {
    if state.stage != Stage::Baking {
        return None;
    }
    let mut from = Timestamp::MAX;
    for id in judged(state) {
        let known = running.get(&(region.clone(), id.clone()))?;
        state.frozen.get(id)?;
        let since = SignedDuration::try_from_secs_f64(known.since()).ok()?;
        from = from.min(Timestamp::UNIX_EPOCH.checked_add(since).ok()?);
    }
    (from != Timestamp::MAX).then_some(from)
}

/// The workloads of a region that are judged.
pub(super) fn judged(state: &RegionState) -> impl Iterator<Item = &WorkloadId> {
    let works = state.workloads.iter();
    let kept = works.filter(|(_, work)| {
        matches!(
            work.stage,
            WorkStage::Waiting | WorkStage::Injecting | WorkStage::Injected
        )
    });
    kept.map(|(id, _)| id)
}

/// From when on a look after the change needs samples: with the baseline where what was frozen is lost, so that it can be
/// had again.
fn since_change(plan: &Plan, state: &RegionState) -> Option<Timestamp> {
    let lost =
        state.stage == Stage::Baking && judged(state).any(|id| !state.frozen.contains_key(id));
    let baseline = if lost {
        plan.judge.baseline_seconds + plan.judge.block_seconds
    } else {
        0.0
    };
    Some(before(state.changed_at?, plan.judge.lead() + baseline))
}

/// So many seconds before an instant; what a person asks for in seconds and is out of range is all of the past.
fn before(at: Timestamp, seconds: f64) -> Timestamp {
    SignedDuration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|span| at.checked_sub(span).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn add(
    out: &mut BTreeMap<Region, MetricsNeed>,
    region: &Region,
    from: Timestamp,
    proof_only: bool,
    workloads: &[WorkloadId],
) {
    let need = out.entry(region.clone()).or_insert_with(|| MetricsNeed {
        from,
        proof_only,
        workloads: Vec::new(),
    });
    need.from = need.from.min(from);
    need.proof_only = need.proof_only && proof_only;
    for id in workloads {
        if !need.workloads.contains(id) {
            need.workloads.push(id.clone());
        }
    }
}

/// The control arm of a region, and what it runs.
pub(super) struct Controls {
    /// Its regions, in the order of the plan.
    pub(super) regions: Vec<Region>,
    /// Whether they are converted already: no region of the source is left.
    pub(super) converted: bool,
}

/// The plan's control regions that are still unchanged; when none is left (the last wave), the regions that passed.
pub(super) fn controls(plan: &Plan, position: &Position, region: &Region) -> Controls {
    let unchanged: Vec<Region> = plan
        .control
        .iter()
        .filter(|control| {
            *control != region
                && position
                    .regions
                    .get(*control)
                    .is_none_or(|state| !touched(state))
        })
        .cloned()
        .collect();
    if !unchanged.is_empty() {
        return Controls {
            regions: unchanged,
            converted: false,
        };
    }
    let passed = plan
        .waves
        .iter()
        .flat_map(|wave| &wave.regions)
        .filter(|other| {
            *other != region
                && position
                    .regions
                    .get(*other)
                    .is_some_and(|state| state.stage == Stage::Passed)
        });
    Controls {
        regions: passed.cloned().collect(),
        converted: true,
    }
}

/// A region that has begun to be changed is no control any more, whether or not the change is complete.
fn touched(state: &RegionState) -> bool {
    match state.stage {
        Stage::Baseline | Stage::Nothing => false,
        Stage::Injecting
        | Stage::Verifying
        | Stage::Baking
        | Stage::Passed
        | Stage::Undoing
        | Stage::Undone
        | Stage::Unverified
        | Stage::Failed => true,
    }
}
