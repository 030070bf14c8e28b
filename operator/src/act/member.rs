//! Takes acts on workloads, journals and pods of one region, sends them. Never server-side apply, never a whole object: a
//! JSON patch whose first operations test what was observed, then the removal of our own entry in `managedFields`.

use heapfleet_core::inject::Injection;
use heapfleet_core::names::{Region, WorkloadId};
use heapfleet_core::world::JournalStage;
use serde_json::Value;

use super::{ActError, MANAGER, Scene, bodies};
use crate::clusters::{ClusterError, Deleted, Evicted, ResourcePath, Writer};
use crate::receipt::Outcome;

/// Writes the journal if it is not there, then the change, then disowns it.
pub(super) async fn inject(
    scene: &Scene<'_>,
    region: &Region,
    injection: &Injection,
) -> Result<Outcome, ActError> {
    let writer = scene.region(region)?;
    let namespace = scene.namespace();
    if !journal(writer, &namespace, injection).await? {
        return Ok(Outcome::LookAgain);
    }
    let record = &injection.record;
    change(writer, &namespace, &record.workload, &record.patch).await
}

/// Whether the journal stands with exactly this record. A journal of that name with another record was written on another
/// look at the workload: the change must not go in under it.
async fn journal(
    writer: &Writer,
    namespace: &str,
    injection: &Injection,
) -> Result<bool, ActError> {
    let record = serde_json::to_value(&injection.record).map_err(|error| ActError::Json {
        what: "the journal",
        error,
    })?;
    let all = ResourcePath::revisions(namespace)?;
    let body = bodies::journal(namespace, injection, &record);
    match writer.create(&all, &body, MANAGER).await {
        Ok(_) => return Ok(true),
        Err(ClusterError::Exists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Tests alone change nothing, and are answered from the stored object.
    let path = all.named(&injection.journal)?;
    match writer
        .json_patch(&path, &bodies::same_journal(&record), MANAGER)
        .await
    {
        Ok(_) => Ok(true),
        Err(ClusterError::Moved { .. } | ClusterError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sends an undo, a release or a recorded image once more, then disowns it.
pub(super) async fn patch(
    scene: &Scene<'_>,
    region: &Region,
    workload: &WorkloadId,
    operations: &[Value],
) -> Result<Outcome, ActError> {
    let writer = scene.region(region)?;
    change(writer, &scene.namespace(), workload, operations).await
}

/// Sends a patch whose tests are its guard, then removes our entry from `managedFields`. That the second fails is no
/// failure of the first: the entry is seen in the next pass and removed then.
async fn change(
    writer: &Writer,
    namespace: &str,
    workload: &WorkloadId,
    operations: &[Value],
) -> Result<Outcome, ActError> {
    let path = ResourcePath::workload(namespace, workload)?;
    let after = writer.json_patch(&path, operations, MANAGER).await?;
    if let Some(entry) = bodies::own_entry(&after)
        && let Err(error) = writer
            .json_patch(&path, &bodies::disown(entry), MANAGER)
            .await
    {
        tracing::debug!(workload = %workload, %error, "not disowned yet");
    }
    Ok(Outcome::Applied)
}

/// Removes our entry from `managedFields`.
pub(super) async fn disown(
    scene: &Scene<'_>,
    region: &Region,
    workload: &WorkloadId,
    entry: usize,
) -> Result<Outcome, ActError> {
    let writer = scene.region(region)?;
    let path = ResourcePath::workload(&scene.namespace(), workload)?;
    writer
        .json_patch(&path, &bodies::disown(entry), MANAGER)
        .await?;
    Ok(Outcome::Applied)
}

/// Says in the journal how far the change got.
pub(super) async fn mark_journal(
    scene: &Scene<'_>,
    region: &Region,
    journal: &str,
    stage: JournalStage,
) -> Result<Outcome, ActError> {
    let writer = scene.region(region)?;
    let path = ResourcePath::revisions(&scene.namespace())?.named(journal)?;
    writer
        .json_patch(&path, &bodies::mark(stage), MANAGER)
        .await?;
    Ok(Outcome::Applied)
}

/// Deletes a journal whose change never happened.
pub(super) async fn drop_journal(
    scene: &Scene<'_>,
    region: &Region,
    journal: &str,
) -> Result<Outcome, ActError> {
    let writer = scene.region(region)?;
    let path = ResourcePath::revisions(&scene.namespace())?.named(journal)?;
    match writer.delete(&path, None).await? {
        Deleted::Accepted => Ok(Outcome::Applied),
        Deleted::Gone => Ok(Outcome::AlreadyDone),
    }
}

/// Evicts one pod; a disruption budget that does not allow it now is a reason to look again, not an error.
pub(super) async fn evict(
    scene: &Scene<'_>,
    region: &Region,
    pod: &str,
    uid: &str,
) -> Result<Outcome, ActError> {
    let writer = scene.region(region)?;
    match writer.evict(&scene.namespace(), pod, uid).await? {
        Evicted::Accepted => Ok(Outcome::Applied),
        Evicted::Gone => Ok(Outcome::AlreadyDone),
        Evicted::Blocked => Ok(Outcome::LookAgain),
    }
}
