//! Takes the looks at a region whose baseline or bake is looked at and follows their verdict: waits, goes on, fails or holds.
//! Never judges itself; see [`crate::judge`].

use jiff::{SignedDuration, Timestamp};

use super::looks::looks;
use super::position::{Learned, LookSummary, Stage};
use super::region::{f64_seconds, proofs};
use super::step::Step;
use crate::decision::Reason;
use crate::judge::{self, Change, Code, Verdict};
use crate::names::{Region, WorkloadId};
use crate::plan::Wave;
use crate::world::ClusterView;

/// Blocks between two looks at a baseline that does not suffice: each reads all of it.
const BASELINE_BLOCKS: usize = 6;

/// Reads the time before the change; when that suffices, freezes it and begins the change.
pub(super) fn baseline(s: &mut Step<'_>, wave: &Wave, region: &Region, cluster: &ClusterView) {
    if let Some((due, message)) = not_due(s, region) {
        s.hold(Some(region), Reason::Baseline, message);
        s.wake_in(due.duration_since(s.now()));
        return;
    }
    let Some(looks) = looks(s, wave, region, cluster, None) else {
        return;
    };
    summarise(s, wave, region, &looks, (0, 0));
    let open = looks.iter().find(|(_, look)| look.frozen.is_none());
    if let Some((id, look)) = open {
        let message = format!(
            "The baseline of {id} in {region} does not suffice yet: {}",
            look.sentence()
        );
        let due = after_blocks(s, BASELINE_BLOCKS);
        if let Some(summary) = s.state(region).and_then(|state| state.look.as_mut()) {
            summary.message.clone_from(&message);
            summary.next = Some(due);
        }
        s.wake_in(due.duration_since(s.now()));
        s.hold(Some(region), Reason::Baseline, message);
        return;
    }
    let now = s.now();
    if let Some(state) = s.state(region) {
        for (id, look) in looks {
            if let Some(frozen) = look.frozen {
                state.frozen.insert(id, frozen);
            }
        }
        state.changed_at = Some(now);
    }
    s.event(
        false,
        "BaselineReady",
        Some(region),
        format!("The baseline of {region} was read and frozen."),
    );
    s.enter(region, Stage::Injecting);
}

/// One look at a bake.
pub(super) fn look(s: &mut Step<'_>, wave: &Wave, region: &Region, cluster: &ClusterView) {
    let Some(state) = s.next.regions.get(region) else {
        return;
    };
    let Some(change) = change(state.changed_at, state.bake_started) else {
        return;
    };
    if let Some((due, _)) = not_due(s, region) {
        s.wake_in(due.duration_since(s.now()));
        s.wake_soon();
        return;
    }
    let Some(looks) = looks(s, wave, region, cluster, Some(change)) else {
        return;
    };
    let proven = s.metrics(region).map_or((0, 0), |metrics| {
        let seen = proofs(s, region, cluster, metrics);
        (seen.proven, seen.pods)
    });
    summarise(s, wave, region, &looks, proven);
    keep(s, region, &looks);
    let verdict = Verdict::join_all(looks.iter().map(|(_, look)| look.verdict));
    let Some((id, worst)) = looks.iter().find(|(_, look)| look.verdict == verdict) else {
        return;
    };
    let sentence = format!("{id} in {region}: {}", worst.sentence());
    match verdict {
        Verdict::Pass => {
            s.event(false, "CanaryPassed", Some(region), sentence);
            passed(s, region, &looks);
        }
        Verdict::Fail => s.regress(region, fail_reason(worst.reason.code), sentence),
        Verdict::Inconclusive | Verdict::InsufficientData => {
            let reason = if verdict == Verdict::Inconclusive {
                Reason::Inconclusive
            } else {
                Reason::InsufficientData
            };
            if looks
                .iter()
                .any(|(_, look)| look.is_final && look.verdict == verdict)
            {
                s.hold_for_person(region, reason, sentence);
            } else {
                s.hold(Some(region), reason, sentence);
            }
        }
    }
    let next = looks
        .iter()
        .map(|(_, look)| look.next_look)
        .fold(f64::INFINITY, f64::min);
    let due = SignedDuration::try_from_secs_f64(next).ok();
    let due = due.and_then(|since| Timestamp::UNIX_EPOCH.checked_add(since).ok());
    if let Some(due) = due {
        s.wake_in(due.duration_since(s.now()));
        if let Some(summary) = s.state(region).and_then(|state| state.look.as_mut()) {
            summary.next = Some(due);
        }
    }
}

/// When the next look at a region is due, and what the last one said, if it is not due yet.
fn not_due(s: &Step<'_>, region: &Region) -> Option<(Timestamp, String)> {
    let look = s.next.regions.get(region)?.look.as_ref()?;
    let due = look.next.filter(|due| s.now() < *due)?;
    Some((due, look.message.clone()))
}

/// The instant so many blocks from now.
pub(super) fn after_blocks(s: &Step<'_>, blocks: usize) -> Timestamp {
    let block = SignedDuration::try_from_secs_f64(s.plan.judge.block_seconds).unwrap_or_default();
    s.now() + block.saturating_mul(i32::try_from(blocks).unwrap_or(i32::MAX))
}

/// The change of a region as the judge is told of it.
pub(super) fn change(began: Option<Timestamp>, ended: Option<Timestamp>) -> Option<Change> {
    Some(Change {
        began: f64_seconds(began?),
        ended: f64_seconds(ended?),
    })
}

/// Keeps what was frozen and the evidence of a look. Evidence that contradicts the stored one does not replace it: the
/// final verdict will not be confirmed then.
fn keep(s: &mut Step<'_>, region: &Region, looks: &[(WorkloadId, judge::Look)]) {
    let young = s.plan.judge.young();
    let Some(state) = s.state(region) else { return };
    for (id, look) in looks {
        if let Some(frozen) = &look.frozen {
            state.frozen.insert(id.clone(), frozen.clone());
        }
        let stored = state.evidence.get(id).map_or(&[][..], Vec::as_slice);
        if judge::agrees(stored, &look.evidence, young).is_ok() {
            state.evidence.insert(id.clone(), look.evidence.clone());
        }
    }
}

/// A region passed: what its restarts taught goes to the regions that follow.
fn passed(s: &mut Step<'_>, region: &Region, looks: &[(WorkloadId, judge::Look)]) {
    let first = s.plan.judge.restart_noise_weight;
    for (id, look) in looks {
        let Some((sigma, freedom)) = look.learned else {
            continue;
        };
        let known = s.next.learned.get(id).map_or(first, |known| known.weight);
        let weight = (known + freedom).min(judge::constants::NU0_MOST);
        s.next.learned.insert(id.clone(), Learned { sigma, weight });
    }
    s.enter(region, Stage::Passed);
}

/// The reason of a rollout for a reason of the judge.
pub(super) fn fail_reason(code: Code) -> Reason {
    if code == Code::AllocatorNotActive {
        Reason::AllocatorNotActive
    } else if code == Code::HardLimit {
        Reason::HardLimit
    } else {
        Reason::Regression
    }
}

/// What people see of the looks at a region: the worst one.
pub(super) fn summarise(
    s: &mut Step<'_>,
    wave: &Wave,
    region: &Region,
    looks: &[(WorkloadId, judge::Look)],
    proven: (u32, u32),
) {
    let verdict = Verdict::join_all(looks.iter().map(|(_, look)| look.verdict));
    let Some((id, look)) = looks.iter().find(|(_, look)| look.verdict == verdict) else {
        return;
    };
    let ratio = look
        .numbers
        .iter()
        .find(|numbers| numbers.metric == "ratio");
    let asked = judge::Settings {
        min_bake_blocks: wave.bake_blocks,
        ..s.plan.judge.clone()
    };
    let summary = LookSummary {
        verdict: look.verdict.to_string(),
        reason: look.reason.to_string(),
        message: format!("{id} in {region}: {}", look.sentence()),
        blocks: u32::try_from(look.accepted).unwrap_or(u32::MAX),
        blocks_needed: asked.min_bake(),
        ratio: look.ratio_canary,
        control_ratio: look.ratio_control,
        change: ratio
            .filter(|numbers| numbers.blocks > 0)
            .map(|numbers| (numbers.theta, numbers.lower, numbers.upper)),
        proven,
        assumptions: look
            .assumptions
            .iter()
            .map(|assumption| format!("{assumption:?}"))
            .collect(),
        diagnosis: look
            .diagnosis
            .iter()
            .map(|finding| format!("{finding:?}"))
            .collect(),
        next: None,
    };
    if let Some(state) = s.state(region) {
        state.look = Some(summary);
    }
}
