//! Takes acts on the hub's own objects (finalizer, attempts), sends them. Never touches a workload.

use heapfleet_core::plan;
use heapfleet_crds::{AllocatorRollout, AllocatorRolloutSpec, Plan};
use kube::ResourceExt as _;

use super::{ActError, MANAGER, Scene, bodies, hub_path, kinds};
use crate::clusters::{Class, ClusterError, Deleted, Writer};
use crate::receipt::Outcome;
use crate::translate::{self, FINALIZER};

/// Puts our finalizer on the policy as it was observed or just written.
pub(super) async fn add_finalizer(scene: &Scene<'_>, version: &str) -> Result<Outcome, ActError> {
    let finalizers = scene.policy.finalizers();
    if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(Outcome::AlreadyDone);
    }
    let operations = bodies::add_finalizer(version, finalizers.is_empty());
    let path = hub_path(scene.policy, "allocatorpolicies")?;
    scene.hub.json_patch(&path, &operations, MANAGER).await?;
    Ok(Outcome::Applied)
}

/// Lets the policy go, and its attempts with it.
pub(super) async fn remove_finalizer(
    scene: &Scene<'_>,
    version: &str,
) -> Result<Outcome, ActError> {
    let ours = scene
        .policy
        .finalizers()
        .iter()
        .position(|finalizer| finalizer == FINALIZER);
    let Some(index) = ours else {
        return Ok(Outcome::AlreadyDone);
    };
    for rollout in scene.rollouts {
        release(&scene.hub, rollout).await?;
    }
    let operations = bodies::remove_finalizer(version, index);
    let path = hub_path(scene.policy, "allocatorpolicies")?;
    match scene.hub.json_patch(&path, &operations, MANAGER).await {
        Ok(_) => Ok(Outcome::Applied),
        Err(ClusterError::NotFound { .. }) => Ok(Outcome::AlreadyDone),
        Err(error) => Err(error.into()),
    }
}

/// Makes an attempt from the plan that was frozen in this pass.
pub(super) async fn create_attempt(
    scene: &Scene<'_>,
    name: &str,
    plan: &plan::Plan,
) -> Result<Outcome, ActError> {
    let frozen = scene
        .frozen
        .and_then(|frozen| translate::as_attempt(frozen, plan));
    // The decision was made on another plan than the one at hand: nothing is made from a mixture.
    let Some(frozen) = frozen else {
        return Ok(Outcome::LookAgain);
    };
    let body = attempt(scene, name, frozen);
    let path = kinds(&scene.namespace(), "allocatorrollouts")?;
    match scene.hub.create(&path, &body, MANAGER).await {
        Ok(_) => Ok(Outcome::Applied),
        Err(ClusterError::Exists { .. }) => ours(scene, name).await,
        Err(error) => Err(error.into()),
    }
}

/// Whether the attempt that stands under this name is of this policy, or of an earlier one of the same name that was taken
/// out by force.
async fn ours(scene: &Scene<'_>, name: &str) -> Result<Outcome, ActError> {
    let path = kinds(&scene.namespace(), "allocatorrollouts")?.named(name)?;
    let owner = bodies::owned_by(&scene.policy.uid().unwrap_or_default());
    match scene.hub.json_patch(&path, &owner, MANAGER).await {
        Ok(_) => Ok(Outcome::AlreadyDone),
        Err(ClusterError::Moved { .. }) => Ok(Outcome::Refused {
            class: Class::Invalid,
            message: "an attempt of an earlier policy of this name is in the way; restore what it changed, then delete it and remove its finalizer".to_owned(),
        }),
        Err(error) => Err(error.into()),
    }
}

fn attempt(scene: &Scene<'_>, name: &str, plan: Plan) -> AllocatorRollout {
    let spec = AllocatorRolloutSpec {
        plan,
        state: heapfleet_crds::RolloutState::Run,
        approvals: Vec::new(),
    };
    let mut rollout = AllocatorRollout::new(name, spec);
    rollout.metadata.namespace = scene.policy.namespace();
    rollout.metadata.labels =
        Some([(bodies::POLICY_LABEL.to_owned(), scene.policy.name_any())].into());
    rollout.metadata.owner_references = Some(vec![bodies::policy_owner(scene.policy)]);
    // The state of what was changed must outlive a hasty deletion: it is the way back.
    rollout.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    rollout
}

/// Deletes an ended attempt, and only the one that was seen.
pub(super) async fn delete_attempt(scene: &Scene<'_>, name: &str) -> Result<Outcome, ActError> {
    let Some(rollout) = scene
        .rollouts
        .iter()
        .find(|rollout| rollout.name_any() == name)
    else {
        return Ok(Outcome::AlreadyDone);
    };
    let path = hub_path(rollout, "allocatorrollouts")?;
    match scene.hub.delete(&path, rollout.uid().as_deref()).await? {
        Deleted::Accepted => {
            release(&scene.hub, rollout).await?;
            Ok(Outcome::Applied)
        }
        Deleted::Gone => Ok(Outcome::AlreadyDone),
    }
}

/// Takes our finalizer off an attempt.
pub async fn release(hub: &Writer, rollout: &AllocatorRollout) -> Result<(), ActError> {
    let ours = rollout
        .finalizers()
        .iter()
        .position(|finalizer| finalizer == FINALIZER);
    let Some(index) = ours else { return Ok(()) };
    let path = hub_path(rollout, "allocatorrollouts")?;
    match hub
        .json_patch(&path, &bodies::release(index), MANAGER)
        .await
    {
        Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
