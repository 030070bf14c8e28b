//! Takes an undo order and the world, gives the inverse patches and, from what is seen afterwards, the proof.
//! Never undoes by guess, and never says that something is as before without having seen it.

use super::pace::waits_for_owner;
use super::position::{Outcome, Stage, UndoOrder, WorkStage, WorkState};
use super::step::Step;
use super::workload::{journal_of, rolled_out, set};
use crate::decision::{Action, Reason};
use crate::inject::{Restored, release, restored, undo};
use crate::names::{Region, WorkloadId};
use crate::world::{ClusterView, Journal, JournalStage, Workload};

/// One step of the undo in progress.
pub(super) fn advance(s: &mut Step<'_>) {
    let Some(order) = s.next.undo.clone() else {
        return;
    };
    let mut left = Vec::new();
    for region in &order.regions {
        let Some(cluster) = s.cluster(region) else {
            s.hold(
                Some(region),
                Reason::RollbackPending,
                format!("The rollback of region {region} waits until its API server answers."),
            );
            left.push(region.clone());
            continue;
        };
        if !region_done(s, &order, region, cluster) {
            left.push(region.clone());
        }
    }
    s.wake_soon();
    if left.is_empty() {
        finish(s, &order);
    } else if let Some(undo) = &mut s.next.undo {
        undo.regions = left;
    }
}

fn region_done(
    s: &mut Step<'_>,
    order: &UndoOrder,
    region: &Region,
    cluster: &ClusterView,
) -> bool {
    let Some(stage) = s.next.regions.get(region).map(|state| state.stage) else {
        return true;
    };
    if stage != Stage::Undoing {
        s.enter(region, Stage::Undoing);
    }
    let Some(mut all) = s
        .state(region)
        .map(|state| std::mem::take(&mut state.workloads))
    else {
        return true;
    };
    let limit = s.plan.max_concurrent_workloads.of(all.len());
    let mut busy = all
        .iter()
        .filter(|(id, work)| {
            work.stage == WorkStage::Undoing
                && cluster
                    .workloads
                    .get(*id)
                    .is_some_and(|seen| !rolled_out(seen))
        })
        .count();
    for (id, work) in &mut all {
        let before = work.stage.clone();
        if before != WorkStage::Undoing && busy >= limit {
            continue;
        }
        workload(s, order, region, id, work, cluster.workloads.get(id));
        if before != WorkStage::Undoing && work.stage == WorkStage::Undoing {
            busy += 1;
        }
    }
    let done = all.values().all(|work| settled(&work.stage));
    let unproved = all
        .values()
        .any(|work| matches!(work.stage, WorkStage::Unrestored(_)));
    if let Some(state) = s.state(region) {
        state.workloads = all;
    }
    if done {
        s.enter(
            region,
            if unproved {
                Stage::Unverified
            } else {
                Stage::Undone
            },
        );
    } else {
        s.hold(
            Some(region),
            Reason::InProgress,
            format!("Region {region} is being changed back."),
        );
    }
    done
}

fn settled(stage: &WorkStage) -> bool {
    match stage {
        WorkStage::Restored(_)
        | WorkStage::Untouched
        | WorkStage::Unrestored(_)
        | WorkStage::Released(_) => true,
        WorkStage::Waiting | WorkStage::Injecting | WorkStage::Injected | WorkStage::Undoing => {
            false
        }
    }
}

fn workload(
    s: &mut Step<'_>,
    order: &UndoOrder,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    seen: Option<&Workload>,
) {
    if settled(&work.stage) {
        return;
    }
    let now = s.now();
    let Some(seen) = seen.filter(|seen| seen.uid == work.uid) else {
        // Gone, or another object: nothing of ours can be left.
        set(work, WorkStage::Untouched, now);
        return;
    };
    let ours = seen.claim() == Some(s.world.claim.as_str());
    let Some(journal) = journal_of(seen, work) else {
        let stage = if ours {
            WorkStage::Unrestored("its journal is missing".to_owned())
        } else {
            WorkStage::Untouched
        };
        set(work, stage, now);
        return;
    };
    if ours {
        send(s, order, region, id, work, seen, journal);
    } else if order.keep
        || (journal.stage == JournalStage::Intent
            && work.stage != WorkStage::Undoing
            && journal.record.generation == seen.generation)
    {
        s.actions.push(Action::MarkJournal {
            region: region.clone(),
            journal: journal.name.clone(),
            stage: JournalStage::Removed,
        });
        set(work, WorkStage::Untouched, now);
    } else {
        prove(s, region, id, work, seen, journal);
    }
}

fn send(
    s: &mut Step<'_>,
    order: &UndoOrder,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    seen: &Workload,
    journal: &Journal,
) {
    let now = s.now();
    let patch = if order.keep {
        Ok(release(seen, &journal.record))
    } else {
        undo(seen, &journal.record)
    };
    match patch {
        Ok(patch) => {
            if work.stage != WorkStage::Undoing {
                set(work, WorkStage::Undoing, now);
            }
            s.actions.push(Action::Undo {
                region: region.clone(),
                workload: id.clone(),
                patch,
            });
        }
        Err(blocked) => unrestored(s, region, id, work, blocked.because),
    }
}

fn prove(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    seen: &Workload,
    journal: &Journal,
) {
    if work.stage != WorkStage::Undoing {
        set(work, WorkStage::Undoing, s.now());
    }
    if let Some(entry) = seen.managed_entry {
        s.actions.push(Action::Disown {
            region: region.clone(),
            workload: id.clone(),
            entry,
        });
        return;
    }
    // A scaled-down workload has nothing to roll out; what its template says is all that there is to prove.
    if !rolled_out(seen) && seen.replicas > 0 && !seen.paused {
        let now = s.now();
        if let Some(waits) = waits_for_owner(seen) {
            work.progressed_at = now;
            s.hold(
                Some(region),
                Reason::InProgress,
                format!("{id} in {region} was changed back and waits without a clock: {waits}."),
            );
            return;
        }
        if seen.progress > work.best_progress {
            work.best_progress = seen.progress;
            work.progressed_at = now;
        }
        if now.duration_since(work.progressed_at) > s.plan.workload_deadline {
            unrestored(
                s,
                region,
                id,
                work,
                "its old pods did not come back within workloadDeadline".to_owned(),
            );
        }
        return;
    }
    match restored(seen, &journal.record) {
        Ok(kind) => {
            set(work, WorkStage::Restored(kind), s.now());
            s.actions.push(Action::MarkJournal {
                region: region.clone(),
                journal: journal.name.clone(),
                stage: JournalStage::Removed,
            });
            let what = match kind {
                Restored::Exact => "runs the same revision as before",
                Restored::OnNewerTemplate => "runs its owner's newer template without our keys",
            };
            s.event(
                false,
                "WorkloadRestored",
                Some(region),
                format!("{id} in {region} {what}."),
            );
        }
        Err(blocked) => unrestored(s, region, id, work, blocked.because),
    }
}

fn unrestored(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    work: &mut WorkState,
    because: String,
) {
    s.event(
        true,
        "RestoreUnverified",
        Some(region),
        format!("{id} in {region} could not be shown to be as before: {because}."),
    );
    set(work, WorkStage::Unrestored(because), s.now());
}

fn finish(s: &mut Step<'_>, order: &UndoOrder) {
    let works = s
        .next
        .regions
        .values()
        .flat_map(|state| state.workloads.values());
    let mut worst = Reason::ExactRestore;
    for work in works {
        match &work.stage {
            WorkStage::Unrestored(_) => worst = Reason::RestoreUnverified,
            WorkStage::Restored(Restored::OnNewerTemplate) if worst == Reason::ExactRestore => {
                worst = Reason::RestoredOnNewerTemplate;
            }
            WorkStage::Restored(_)
            | WorkStage::Waiting
            | WorkStage::Injecting
            | WorkStage::Injected
            | WorkStage::Released(_)
            | WorkStage::Undoing
            | WorkStage::Untouched => {}
        }
    }
    let (outcome, what) = if worst == Reason::RestoreUnverified {
        (
            Outcome::Unverified,
            "Not every workload could be shown to be as before.",
        )
    } else if order.keep {
        (
            Outcome::RolledBack,
            "The claims were given up; the change stays.",
        )
    } else if worst == Reason::RestoredOnNewerTemplate {
        (
            Outcome::RolledBack,
            "Our keys are gone; some owners had newer templates.",
        )
    } else {
        (
            Outcome::RolledBack,
            "Every workload runs the same revision as before.",
        )
    };
    s.end(outcome, worst, format!("{} {what}", order.message));
}
