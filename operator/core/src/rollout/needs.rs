//! Takes a world whose metrics were not read yet, gives what must be read for this pass: as little as possible, and
//! nothing from memory. Never reads anything itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::position::{Position, RegionState, Stage, WorkStage};
use crate::names::{Region, WorkloadId};
use crate::plan::Plan;
use crate::world::{MetricsNeed, World};

/// How far back a proof of the allocator is looked for.
const PROOF_WINDOW: SignedDuration = SignedDuration::from_secs(60);

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
    match state.stage {
        Stage::Baseline => {
            let baseline = SignedDuration::from_secs_f64(plan.judge.baseline_seconds);
            // One block more, since blocks are aligned to the clock and the window is not.
            let block = SignedDuration::from_secs_f64(plan.judge.block_seconds);
            Some((
                now.checked_sub(baseline + block)
                    .unwrap_or(Timestamp::UNIX_EPOCH),
                false,
            ))
        }
        Stage::Verifying => Some((
            now.checked_sub(PROOF_WINDOW)
                .unwrap_or(Timestamp::UNIX_EPOCH),
            true,
        )),
        Stage::Baking => state.changed_at.map(|at| (at, false)),
        Stage::Injecting
        | Stage::Passed
        | Stage::Nothing
        | Stage::Undoing
        | Stage::Undone
        | Stage::Unverified
        | Stage::Failed => None,
    }
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
