//! Takes the name of a policy that is gone, lets those of its attempts go that are being deleted. A policy that was taken
//! out by force leaves them behind, and nobody else would ever look at them. Never touches what is not being deleted.

use heapfleet_crds::{AllocatorPolicy, AllocatorRollout, GROUP, VERSION};
use kube::ResourceExt as _;

use super::control::Shared;
use crate::act::{self, ActError};
use crate::clusters::ResourcePath;
use crate::report::PolicyKey;

/// Lets the attempts go; what fails is tried again when the next of them is seen.
pub(super) async fn release(shared: &Shared, key: &PolicyKey) {
    if let Err(error) = try_release(shared, key).await {
        tracing::debug!(namespace = key.0, policy = key.1, %error, "attempts not let go yet");
    }
}

async fn try_release(shared: &Shared, key: &PolicyKey) -> Result<(), ActError> {
    let (namespace, name) = key;
    let kinds =
        |plural| ResourcePath::collection(&format!("{GROUP}/{VERSION}"), Some(namespace), plural);
    let hub = shared.clusters.hub_reader();
    let policy = kinds("allocatorpolicies")?.named(name)?;
    if hub.get::<AllocatorPolicy>(&policy).await?.is_some() {
        return Ok(());
    }
    let selector = format!("{}={name}", act::POLICY_LABEL);
    let rollouts: Vec<AllocatorRollout> = hub
        .list(&kinds("allocatorrollouts")?, Some(&selector))
        .await?;
    let writer = shared.clusters.hub_writer();
    for rollout in rollouts
        .iter()
        .filter(|one| one.metadata.deletion_timestamp.is_some())
    {
        act::release(&writer, rollout).await?;
        tracing::info!(
            namespace,
            attempt = rollout.name_any(),
            "let go: its policy is gone"
        );
    }
    Ok(())
}
