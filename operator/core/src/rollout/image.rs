//! Takes a changed workload whose image is not ours any more, gives what is done about it: written again at most twice in a
//! quarter of an hour, then left alone. Never puts an old image over one that its owner shipped.

use jiff::SignedDuration;

use super::position::{Reapplied, WorkState};
use super::step::Step;
use super::workload::release;
use crate::decision::{Action, Reason};
use crate::inject::reapply;
use crate::names::{Region, WorkloadId};
use crate::world::{Journal, Workload};

/// So often an image is written again within [`WITHIN`]; more is a fight that nobody wins.
const TIMES: usize = 2;
/// The time within which it is counted.
const WITHIN: SignedDuration = SignedDuration::from_mins(15);

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
        release(
            s,
            region,
            id,
            work,
            Reason::ReconcileFight,
            "another tool puts the old image back each time; put the image of spec.images into that tool's source",
        );
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
