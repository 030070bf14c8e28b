//! Takes a decision and the objects that it was decided on, writes: first the status by compare-and-swap, then the acts,
//! each guarded by tests of what was observed. Gives receipts. Never decides, never reads the world, never retries: the
//! effect of an act is seen in the next pass.

mod bodies;
mod commit;
mod error;
mod hub;
mod member;
mod region;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use bodies::POLICY_LABEL;
use futures::future::join_all;
use heapfleet_core::decision::Action;
pub(crate) use heapfleet_core::inject::MANAGER;
use heapfleet_core::names::Region;
use heapfleet_crds::{AllocatorPolicy, AllocatorRollout, GROUP, Plan, VERSION};
use kube::ResourceExt as _;
use serde_json::Value;

pub use commit::{Committed, commit};
pub use error::ActError;
pub use hub::release;
pub use region::region;

use crate::clusters::{Refused, ResourcePath, Writer};
use crate::receipt::{Outcome, Receipt};

/// Everything that may be written to in one pass, as it was observed.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// The hub.
    pub hub: Writer,
    /// The policy.
    pub policy: &'a AllocatorPolicy,
    /// Its attempts.
    pub rollouts: &'a [AllocatorRollout],
    /// What the policy asks for, in the form that is frozen into an attempt.
    pub frozen: Option<&'a Plan>,
    /// The clusters that were reached in this pass.
    pub regions: BTreeMap<Region, Writer>,
}

impl Scene<'_> {
    fn namespace(&self) -> String {
        self.policy.namespace().unwrap_or_default()
    }

    fn region(&self, region: &Region) -> Result<&Writer, ActError> {
        self.regions
            .get(region)
            .ok_or_else(|| ActError::Unreached(region.clone()))
    }
}

/// Carries out the acts: in the decided order within the hub and within each region, side by side across them, so that a
/// region that fails holds up nobody else. After a failure the rest of that region waits for the next pass.
pub async fn carry_out(
    scene: &Scene<'_>,
    committed: &Committed,
    actions: &[Action],
) -> Vec<Receipt> {
    let_go(scene).await;
    let mut groups: BTreeMap<Option<&Region>, Vec<&Action>> = BTreeMap::new();
    for action in actions {
        groups.entry(place(action)).or_default().push(action);
    }
    let groups = groups
        .into_values()
        .map(|group| in_order(scene, committed, group));
    join_all(groups).await.into_iter().flatten().collect()
}

/// Attempts that somebody deletes go as soon as a later one has taken over; the newest stays for as long as its policy
/// does, because it alone knows what was changed.
async fn let_go(scene: &Scene<'_>) {
    let Some((_newest, earlier)) = scene.rollouts.split_last() else {
        return;
    };
    let deleted = |rollout: &&AllocatorRollout| rollout.metadata.deletion_timestamp.is_some();
    for rollout in earlier.iter().filter(deleted) {
        if let Err(error) = release(&scene.hub, rollout).await {
            tracing::debug!(attempt = rollout.name_any(), %error, "not let go yet");
        }
    }
}

async fn in_order(scene: &Scene<'_>, committed: &Committed, actions: Vec<&Action>) -> Vec<Receipt> {
    let mut receipts = Vec::with_capacity(actions.len());
    for action in actions {
        let receipt = one(scene, committed, action).await;
        let failed = matches!(receipt.outcome, Outcome::Failed { .. });
        receipts.push(receipt);
        if failed {
            break;
        }
    }
    receipts
}

async fn one(scene: &Scene<'_>, committed: &Committed, action: &Action) -> Receipt {
    let done = match action {
        Action::AddFinalizer => hub::add_finalizer(scene, &committed.policy_version).await,
        Action::RemoveFinalizer => hub::remove_finalizer(scene, &committed.policy_version).await,
        Action::CreateAttempt { name, plan } => hub::create_attempt(scene, name, plan).await,
        Action::DeleteAttempt { name } => hub::delete_attempt(scene, name).await,
        Action::Inject { region, injection } => member::inject(scene, region, injection).await,
        Action::Undo {
            region,
            workload,
            patch,
        }
        | Action::Reapply {
            region,
            workload,
            patch,
        } => member::patch(scene, region, workload, patch).await,
        Action::Disown {
            region,
            workload,
            entry,
        } => member::disown(scene, region, workload, *entry).await,
        Action::MarkJournal {
            region,
            journal,
            stage,
        } => member::mark_journal(scene, region, journal, *stage).await,
        Action::DropJournal { region, journal } => {
            member::drop_journal(scene, region, journal).await
        }
        Action::Evict { region, pod, uid } => member::evict(scene, region, pod, uid).await,
    };
    let (kind, object) = label(action, scene.policy);
    Receipt {
        action: kind,
        region: place(action).cloned(),
        object,
        outcome: done.unwrap_or_else(|error| error.outcome()),
    }
}

/// Where an act takes place; `None`: in the hub.
fn place(action: &Action) -> Option<&Region> {
    match action {
        Action::AddFinalizer
        | Action::RemoveFinalizer
        | Action::CreateAttempt { .. }
        | Action::DeleteAttempt { .. } => None,
        Action::Inject { region, .. }
        | Action::Undo { region, .. }
        | Action::Reapply { region, .. }
        | Action::Disown { region, .. }
        | Action::MarkJournal { region, .. }
        | Action::DropJournal { region, .. }
        | Action::Evict { region, .. } => Some(region),
    }
}

/// The kind of an act, for metrics and the log, and the object that it is about.
fn label(action: &Action, policy: &AllocatorPolicy) -> (&'static str, String) {
    match action {
        Action::AddFinalizer => ("AddFinalizer", policy.name_any()),
        Action::RemoveFinalizer => ("RemoveFinalizer", policy.name_any()),
        Action::CreateAttempt { name, .. } => ("CreateAttempt", name.clone()),
        Action::DeleteAttempt { name } => ("DeleteAttempt", name.clone()),
        Action::Inject { injection, .. } => ("Inject", injection.record.workload.to_string()),
        Action::Undo { workload, .. } => ("Undo", workload.to_string()),
        Action::Reapply { workload, .. } => ("Reapply", workload.to_string()),
        Action::Disown { workload, .. } => ("Disown", workload.to_string()),
        Action::MarkJournal { journal, .. } => ("MarkJournal", journal.clone()),
        Action::DropJournal { journal, .. } => ("DropJournal", journal.clone()),
        Action::Evict { pod, .. } => ("Evict", pod.clone()),
    }
}

/// The path of an object of ours in the hub.
fn hub_path<K: kube::Resource>(object: &K, plural: &str) -> Result<ResourcePath, Refused> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    let name = object.meta().name.clone().unwrap_or_default();
    kinds(&namespace, plural)?.named(&name)
}

/// The collection of one of our kinds in a namespace of the hub.
fn kinds(namespace: &str, plural: &str) -> Result<ResourcePath, Refused> {
    ResourcePath::collection(&format!("{GROUP}/{VERSION}"), Some(namespace), plural)
}

fn version_of(object: &Value) -> String {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
