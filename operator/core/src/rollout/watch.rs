//! Takes the regions that passed, gives each a look now and then until the rollout ends: what starts late is caught here
//! (judge.md §8). Never holds anything up: a region that cannot be seen is looked at later.

use jiff::Timestamp;

use super::bake::{after_blocks, change, fail_reason, summarise};
use super::looks::looks;
use super::needs::controls;
use super::position::{Position, RegionState, Stage};
use super::region::proofs;
use super::step::Step;
use crate::judge::Verdict;
use crate::judge::constants::HOUR;
use crate::names::Region;
use crate::plan::Plan;

/// Regions that are watched at most: the canary and those that passed last. What was frozen of each is kept in the status.
const WATCHED: usize = 8;

/// Looks at the passed regions that are due.
pub(super) fn watch(s: &mut Step<'_>) {
    forget(s);
    let due: Vec<Region> = s
        .next
        .regions
        .iter()
        .filter(|(_, state)| watched(state) && due(s.now(), state))
        .map(|(region, _)| region.clone())
        .collect();
    for region in due {
        look(s, &region);
        if s.next.undo.is_some() || s.next.ending.is_some() {
            return;
        }
    }
}

/// Whether a region has passed and is still looked at.
pub(super) fn watched(state: &RegionState) -> bool {
    state.stage == Stage::Passed && !state.frozen.is_empty()
}

/// Whether a look at it is due.
pub(super) fn due(now: Timestamp, state: &RegionState) -> bool {
    let next = state.look.as_ref().and_then(|look| look.next);
    next.is_none_or(|next| next <= now)
}

/// Drops what was frozen of regions that are watched no longer: their control is being changed itself, or too many passed
/// since.
fn forget(s: &mut Step<'_>) {
    let canary = s.plan.waves.first().map_or(&[][..], |wave| &wave.regions);
    let mut passed: Vec<(Timestamp, Region)> = s
        .next
        .regions
        .iter()
        .filter(|(region, state)| watched(state) && !canary.contains(region))
        .map(|(region, state)| (state.since, region.clone()))
        .collect();
    passed.sort();
    let surplus = (passed.len() + canary.len()).saturating_sub(WATCHED);
    let old: Vec<Region> = passed
        .into_iter()
        .take(surplus)
        .map(|(_, region)| region)
        .collect();
    let lost: Vec<Region> = s
        .next
        .regions
        .iter()
        .filter(|(region, state)| watched(state) && !has_its_control(s.plan, &s.next, region))
        .map(|(region, _)| region.clone())
        .collect();
    for region in old.into_iter().chain(lost) {
        if let Some(state) = s.state(&region) {
            state.frozen.clear();
        }
    }
}

/// Whether every control region that a region was judged against is still unchanged.
fn has_its_control(plan: &Plan, position: &Position, region: &Region) -> bool {
    let now = controls(plan, position, region);
    let all = plan.control.iter().filter(|control| *control != region);
    !now.converted && now.regions.len() == all.count()
}

fn look(s: &mut Step<'_>, region: &Region) {
    let plan = s.plan;
    let (Some(wave), Some(state)) = (plan.wave_of(region), s.next.regions.get(region)) else {
        return;
    };
    let before = state.look.clone();
    let Some(change) = change(state.changed_at, state.bake_started) else {
        return;
    };
    let world = s.world;
    let seen = world
        .regions
        .get(region)
        .map(|view| (&view.cluster, &view.metrics));
    // What cannot be seen was not asked for yet, or is said by the region in turn if it matters there.
    let Some((Ok(cluster), Some(Ok(metrics)))) = seen else {
        return;
    };
    let Some(looks) = looks(s, wave, region, cluster, Some(change)) else {
        return;
    };
    let seen = proofs(s, region, cluster, metrics);
    summarise(s, wave, region, &looks, (seen.proven, seen.pods));
    let due = after_blocks(s, HOUR);
    if let Some(now) = s.state(region).and_then(|state| state.look.as_mut()) {
        // Its verdict stands; only its numbers move.
        if let Some(before) = before.filter(|_| now.verdict != Verdict::Fail.to_string()) {
            now.verdict = before.verdict;
            now.reason = before.reason;
            now.message = before.message;
        }
        now.next = Some(due);
    }
    let failed = looks.iter().find(|(_, look)| look.verdict == Verdict::Fail);
    if let Some((id, look)) = failed {
        let message = format!("{id} in {region}, after it had passed: {}", look.sentence());
        s.regress(region, fail_reason(look.reason.code), message);
    }
}
