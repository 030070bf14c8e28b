//! Takes a policy's name, gives what the hub holds of it: the policy, what it asks for, its attempts, all regions. Never
//! looks into a region.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join4;
use heapfleet_core::names::{Claim, Region};
use heapfleet_core::world::{Attempt, Refusal};
use heapfleet_crds::{
    AllocatorClass, AllocatorPolicy, AllocatorRegion, AllocatorRollout, GROUP, VERSION,
};
use kube::ResourceExt as _;

use super::ObserveError;
use crate::clusters::{Clusters, Refused, ResourcePath};
use crate::translate::{self, Intent, Older};

/// Label of an attempt: the name of its policy.
const POLICY_LABEL: &str = "heapfleet.dev/policy";

/// What the hub holds of one policy.
pub(super) struct Hub {
    pub(super) policy: AllocatorPolicy,
    pub(super) intent: Result<Intent, Refusal>,
    /// Oldest first, in both forms, in the same order.
    pub(super) rollouts: Vec<AllocatorRollout>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) regions: BTreeMap<Region, AllocatorRegion>,
    pub(super) claim: Claim,
    /// Policies of the namespace that are older.
    pub(super) older: Vec<Older>,
}

fn collection(namespace: Option<&str>, plural: &str) -> Result<ResourcePath, Refused> {
    ResourcePath::collection(&format!("{GROUP}/{VERSION}"), namespace, plural)
}

/// `None`: the policy is gone.
pub(super) async fn read(
    clusters: &Clusters,
    namespace: &str,
    name: &str,
) -> Result<Option<Hub>, ObserveError> {
    let hub = clusters.hub_reader();
    let path = collection(Some(namespace), "allocatorpolicies")?.named(name)?;
    let Some(policy) = hub.get::<AllocatorPolicy>(&path).await? else {
        return Ok(None);
    };
    let class =
        collection(None, "allocatorclasses")?.named(policy.spec.allocator.class.as_str())?;
    let regions = collection(None, "allocatorregions")?;
    let rollouts = collection(Some(namespace), "allocatorrollouts")?;
    let of_policy = format!("{POLICY_LABEL}={name}");
    let policies = collection(Some(namespace), "allocatorpolicies")?;
    let (class, regions, rollouts, policies) = try_join4(
        hub.get::<AllocatorClass>(&class),
        hub.list::<AllocatorRegion>(&regions, None),
        hub.list::<AllocatorRollout>(&rollouts, Some(&of_policy)),
        hub.list::<AllocatorPolicy>(&policies, None),
    )
    .await?;
    let hub_uid = clusters.hub_uid().await?;
    let regions: BTreeMap<Region, AllocatorRegion> = regions
        .into_iter()
        .map(|region| (Region::new(region.name_any()), region))
        .collect();
    let names: BTreeSet<String> = regions.keys().map(ToString::to_string).collect();
    let rollouts = own(&policy, rollouts);
    let attempts = rollouts
        .iter()
        .map(translate::attempt)
        .collect::<Result<_, _>>()?;
    Ok(Some(Hub {
        intent: translate::intent(&policy, class.as_ref(), &names),
        claim: Claim::new(format!("{hub_uid}/{namespace}/{name}")),
        older: translate::older(&policy, &policies),
        policy,
        rollouts,
        attempts,
        regions,
    }))
}

/// The attempts of this very policy, oldest first. One that somebody deletes still counts while our finalizer holds it: it
/// alone knows what was changed.
fn own(policy: &AllocatorPolicy, mut rollouts: Vec<AllocatorRollout>) -> Vec<AllocatorRollout> {
    let uid = policy.uid().unwrap_or_default();
    rollouts.retain(|rollout| {
        let held = rollout
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == translate::FINALIZER);
        let there = rollout.metadata.deletion_timestamp.is_none() || held;
        rollout.spec.plan.policy_uid == uid && there
    });
    rollouts.sort_by_key(|rollout| {
        let made = rollout
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (
            made,
            rollout.spec.plan.policy_generation,
            rollout.spec.plan.attempt,
            rollout.name_any(),
        )
    });
    rollouts
}
