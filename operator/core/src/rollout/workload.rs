//! Takes one workload of a region in change, gives its next state and acts: the change, its loss, its end. Never judges.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::image;
use super::pace::waits_for_owner;
use super::position::{WorkStage, WorkState};
use super::step::Step;
use crate::decision::{Action, Reason};
use crate::inject::{Ineligible, Injection, Presence, image_for, inject, presence};
use crate::names::{Region, WorkloadId};
use crate::world::{Journal, JournalStage, Pod, Workload};

/// What became of a workload in this step.
pub(super) enum Turn {
    /// Nothing that the region must know.
    Fine,
    /// It broke: undo.
    Broke(Reason, String),
}

/// Pods that belong to the revision that the controller works towards and are not on their way out.
pub(super) fn current_pods(workload: &Workload) -> Vec<&Pod> {
    let hash = workload
        .revision
        .as_ref()
        .map(|revision| revision.hash.as_str());
    workload
        .pods
        .iter()
        .filter(|pod| !pod.terminating && Some(pod.revision_hash.as_str()) == hash)
        .collect()
}

/// Whether every pod of the workload runs its current revision and is ready.
pub(super) fn rolled_out(workload: &Workload) -> bool {
    let current = current_pods(workload);
    workload.settled
        && current.len() == workload.pods.len()
        && current.iter().all(|pod| pod.ready_since.is_some())
}

/// The journal that a workload's state names.
pub(super) fn journal_of<'a>(workload: &'a Workload, work: &WorkState) -> Option<&'a Journal> {
    workload
        .journals
        .iter()
        .find(|journal| journal.name == work.journal)
}

/// Advances a workload that is to be changed, is in change or carries the change.
pub(super) fn advance(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: Option<&Workload>,
    may_start: bool,
) -> Turn {
    match work.stage {
        WorkStage::Waiting | WorkStage::Injecting | WorkStage::Injected => {}
        WorkStage::Released(_)
        | WorkStage::Undoing
        | WorkStage::Restored(_)
        | WorkStage::Untouched
        | WorkStage::Unrestored(_) => return Turn::Fine,
    }
    let now = s.now();
    let Some(workload) = workload else {
        release(s, region, id, work, Reason::WorkloadDeleting, "it is gone");
        return Turn::Fine;
    };
    if workload.uid != work.uid {
        release(
            s,
            region,
            id,
            work,
            Reason::WorkloadRecreated,
            "it was recreated by its owner",
        );
        return Turn::Fine;
    }
    if workload.paused || workload.replicas == 0 || workload.deleting {
        work.progressed_at = now;
        s.hold(Some(region), Reason::WorkloadsPending, format!("{id} in {region} is paused, scaled to zero or being deleted; waiting without a clock."));
        return Turn::Fine;
    }
    if work.stage == WorkStage::Waiting {
        if may_start {
            begin(s, region, id, work, workload);
        }
        return Turn::Fine;
    }
    if let Some(journal) = journal_of(workload, work) {
        look(s, region, id, work, workload, journal)
    } else {
        unjournalled(s, region, id, work, workload);
        Turn::Fine
    }
}

fn begin(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: &Workload,
) {
    let injection = match journal_of(workload, work) {
        Some(journal) => Ok(journalled(journal)),
        None => fresh(s, region, id, work, workload),
    };
    match injection {
        Ok(injection) => {
            set(work, WorkStage::Injecting, s.now());
            send(s, region, injection);
        }
        Err(refused) => leave(s, region, id, work, &refused),
    }
}

fn send(s: &mut Step<'_>, region: &Region, injection: Injection) {
    s.actions.push(Action::Inject {
        region: region.clone(),
        injection: Box::new(injection),
    });
}

/// The change that a journal holds.
fn journalled(journal: &Journal) -> Injection {
    Injection {
        journal: journal.name.clone(),
        record: journal.record.clone(),
    }
}

/// A change of the workload as it stands now, or why it is left alone: image and nodes may be others than when it was
/// chosen.
fn fresh(
    s: &Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &WorkState,
    workload: &Workload,
) -> Result<Injection, Ineligible> {
    let none = BTreeMap::new();
    let view = s.world.regions.get(region);
    let cluster = view.and_then(|view| view.cluster.as_ref().ok());
    let nodes = cluster.map_or(&none, |cluster| &cluster.nodes);
    let image = image_for(id, workload, &work.container, nodes, &s.plan.allocator)?;
    inject(
        id,
        workload,
        &work.container,
        &s.plan.allocator,
        image.as_deref(),
        &s.world.claim,
        &s.plan.hash,
        s.plan.attempt,
    )
}

/// No journal is there although the change was decided: the act did not happen, or somebody deleted the journal.
fn unjournalled(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: &Workload,
) {
    if workload.claim().is_some() {
        release(
            s,
            region,
            id,
            work,
            Reason::JournalMissing,
            "it carries a claim without a journal, which is never undone by guess; compare its template with your source, then remove the annotation heapfleet.dev/claim",
        );
    } else if work.stage == WorkStage::Injected {
        release(
            s,
            region,
            id,
            work,
            Reason::UserReverted,
            "its owner put the old template back",
        );
    } else {
        match fresh(s, region, id, work, workload) {
            Ok(injection) => send(s, region, injection),
            Err(refused) => leave(s, region, id, work, &refused),
        }
    }
}

fn look(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: &Workload,
    journal: &Journal,
) -> Turn {
    match presence(workload, &journal.record) {
        Presence::Present => present(s, region, id, work, workload, journal),
        Presence::Absent
            if work.stage == WorkStage::Injecting && journal.stage == JournalStage::Intent =>
        {
            if journal.record.generation == workload.generation {
                send(s, region, journalled(journal));
            } else {
                // The owner changed the template between journal and patch: the record is of another time.
                s.actions.push(Action::DropJournal {
                    region: region.clone(),
                    journal: journal.name.clone(),
                });
            }
            s.wake_soon();
            Turn::Fine
        }
        Presence::Absent | Presence::Reverted => {
            let (reason, because) = image::gone(s, work);
            release(s, region, id, work, reason, because);
            Turn::Fine
        }
        Presence::ImageBack => {
            image::back(s, region, id, work, workload, journal);
            Turn::Fine
        }
        Presence::ImageReplaced(shipped) => {
            image::replaced(s, region, id, &shipped);
            present(s, region, id, work, workload, journal)
        }
        Presence::Taken(key) => {
            release(
                s,
                region,
                id,
                work,
                Reason::ReleasedToUser,
                &format!("its owner took over {key}"),
            );
            Turn::Fine
        }
        Presence::Foreign(claim) => {
            release(
                s,
                region,
                id,
                work,
                Reason::InjectionConflict,
                &format!("another policy or hub claimed it ({claim})"),
            );
            Turn::Fine
        }
    }
}

fn present(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    workload: &Workload,
    journal: &Journal,
) -> Turn {
    let now = s.now();
    if let Some(entry) = workload.managed_entry {
        s.actions.push(Action::Disown {
            region: region.clone(),
            workload: id.clone(),
            entry,
        });
    }
    if journal.stage == JournalStage::Intent {
        s.actions.push(Action::MarkJournal {
            region: region.clone(),
            journal: journal.name.clone(),
            stage: JournalStage::Applied,
        });
    }
    let in_window = now.duration_since(work.since) <= s.plan.stability_window
        || work.stage == WorkStage::Injecting;
    let crash = current_pods(workload)
        .iter()
        .find_map(|pod| pod.crash_loop.clone());
    if let Some(crash) = crash
        && in_window
    {
        return Turn::Broke(
            Reason::CrashLoop,
            format!("Pods of {id} in {region} do not stay up with the allocator ({crash})."),
        );
    }
    if work.stage == WorkStage::Injecting {
        if rolled_out(workload) {
            set(work, WorkStage::Injected, now);
            s.event(
                false,
                "WorkloadInjected",
                Some(region),
                format!(
                    "{id} in {region} runs with {} in {} pods.",
                    s.plan.allocator.class, workload.replicas
                ),
            );
        } else {
            if workload.progress > work.best_progress {
                work.best_progress = workload.progress;
                work.progressed_at = now;
            }
            if let Some(waits) = waits_for_owner(workload) {
                work.progressed_at = now;
                s.hold(
                    Some(region),
                    Reason::WorkloadsPending,
                    format!("{id} in {region} was changed and waits without a clock: {waits}."),
                );
                s.wake_soon();
                return Turn::Fine;
            }
            if now.duration_since(work.progressed_at) > s.plan.workload_deadline {
                return Turn::Broke(
                    Reason::DeadlineExceeded,
                    format!(
                        "{id} in {region} made no progress within workloadDeadline after the change."
                    ),
                );
            }
            s.hold(
                Some(region),
                Reason::WorkloadsPending,
                format!("{id} in {region} is replacing its pods."),
            );
            s.wake_soon();
        }
    }
    Turn::Fine
}

pub(super) fn set(work: &mut WorkState, stage: WorkStage, now: Timestamp) {
    work.stage = stage;
    work.since = now;
    work.progressed_at = now;
    work.best_progress = 0;
}

/// Its owner changed it since it was chosen, so that the change does not fit any more.
fn leave(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    refused: &Ineligible,
) {
    let because = refused.message.trim_end_matches('.');
    release(s, region, id, work, refused.reason, because);
}

pub(super) fn release(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    reason: Reason,
    because: &str,
) {
    set(work, WorkStage::Released(reason), s.now());
    s.event(
        true,
        reason.as_str(),
        Some(region),
        format!("{id} in {region} is left alone from now on: {because}."),
    );
}
