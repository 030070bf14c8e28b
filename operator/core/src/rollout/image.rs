//! Takes a changed workload whose image is not ours any more, gives what is done about it: written again at most twice in a
//! quarter of an hour, then the rest of the change is taken back and the workload left alone. Never puts an old image over
//! one that its owner shipped.

use jiff::SignedDuration;

use super::position::{Reapplied, WorkState};
use super::step::Step;
use super::workload::release;
use crate::decision::{Action, Reason};
use crate::inject::{reapply, undo};
use crate::names::{Region, WorkloadId};
use crate::world::{Journal, JournalStage, Workload};

/// So often an image is written again within [`WITHIN`]; more is a fight that nobody wins.
const TIMES: usize = 2;
/// The time within which it is counted.
const WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// What people are told of a fight.
const FIGHT: &str = "another tool puts the old image back each time; put the image of spec.images into that tool's source";

/// The old image is back: another tool applied its source once more.
pub(super) fn back(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: &Workload,
    journal: &Journal,
) {
    let now = s.now();
    work.reapplied
        .retain(|earlier| now.duration_since(earlier.at) <= WITHIN);
    if journal.stage == JournalStage::Intent {
        // The change was in place, or its image would not have come back.
        s.actions.push(Action::MarkJournal {
            region: region.clone(),
            journal: journal.name.clone(),
            stage: JournalStage::Applied,
        });
    }
    let Some(patch) = reapply(workload, &journal.record) else {
        return;
    };
    let again = Action::Reapply {
        region: region.clone(),
        workload: id.clone(),
        patch,
    };
    let generation = workload.generation;
    if work
        .reapplied
        .last()
        .is_some_and(|last| last.generation == generation)
    {
        // The patch that was decided on has not arrived; nobody fights.
        s.actions.push(again);
        s.wake_soon();
        return;
    }
    if work.reapplied.len() >= TIMES {
        give_up(s, region, id, work, workload, journal);
        return;
    }
    work.reapplied.push(Reapplied {
        at: now,
        generation,
    });
    s.event(
        true,
        "ImageReapplied",
        Some(region),
        format!(
            "{id} in {region} had its old image back, as if another tool had applied its source; it is replaced again."
        ),
    );
    s.actions.push(again);
    s.wake_soon();
}

/// Takes back what is left of the change; that it is gone is seen in the next pass, see [`gone`].
fn give_up(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: &Workload,
    journal: &Journal,
) {
    let Ok(patch) = undo(workload, &journal.record) else {
        release(s, region, id, work, Reason::ReconcileFight, FIGHT);
        return;
    };
    s.hold(
        Some(region),
        Reason::ReconcileFight,
        format!("{id} in {region}: {FIGHT}."),
    );
    s.actions.push(Action::Undo {
        region: region.clone(),
        workload: id.clone(),
        patch,
    });
    s.wake_soon();
}

/// Why a workload from which our keys are gone is left alone: we gave up a fight, or its owner vetoed.
pub(super) fn gone(s: &Step<'_>, work: &WorkState) -> (Reason, &'static str) {
    let now = s.now();
    let recent = |earlier: &&Reapplied| now.duration_since(earlier.at) <= WITHIN;
    if work.reapplied.iter().filter(recent).count() >= TIMES {
        (Reason::ReconcileFight, FIGHT)
    } else {
        (Reason::UserReverted, "its owner put the old template back")
    }
}

/// The owner shipped an image that the map does not name: the rest of the change stays and proves itself or does not.
pub(super) fn replaced(s: &mut Step<'_>, region: &Region, id: &WorkloadId, shipped: &str) {
    s.hold(
        Some(region),
        Reason::ImageNotMapped,
        format!(
            "{id} in {region} runs {shipped} now, which is no image of ours; add it to spec.images as a from, with its variants."
        ),
    );
}
