//! CRD ⇄ domain, both ways: the only place that knows the kinds of `heapfleet.dev` and the types of the core. Takes values,
//! gives values; never reads a clock, a cluster or the environment.

mod attempt;
mod choice;
#[cfg(test)]
mod delivery_tests;
mod evidence;
mod freeze;
#[cfg(test)]
mod images_tests;
mod overlap;
mod region;
mod status;
#[cfg(test)]
mod tests;
mod thaw;
mod values;

use std::collections::BTreeSet;

use heapfleet_core::decision::Reason;
use heapfleet_core::plan::Plan;
use heapfleet_core::world::{Policy, Refusal};
use heapfleet_crds as crds;
use kube::ResourceExt as _;

pub use attempt::attempt;
pub use freeze::freeze;
pub use overlap::{Older, older};
pub use region::{ClusterLook, RegionLook, Trouble, region_status};
pub use status::{policy_status, rollout_status};
pub use thaw::thaw;
pub use values::selector_text;

/// The finalizer that keeps a policy until its changes are undone or given up.
pub const FINALIZER: &str = "heapfleet.dev/finalizer";

/// Why a stored object cannot be read, or a state cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum TranslateError {
    /// The frozen plan says something that this version cannot read.
    #[error("AllocatorRollout {attempt}: spec.plan cannot be read: {because}")]
    Plan {
        /// The attempt's name.
        attempt: String,
        /// Why.
        because: String,
    },
    /// The schedule state cannot be read.
    #[error(
        "AllocatorRollout {attempt}: status.position cannot be read: {because}; nothing is done until it can"
    )]
    Position {
        /// The attempt's name.
        attempt: String,
        /// Why.
        because: String,
    },
    /// What the judge froze cannot be read.
    #[error(
        "AllocatorRollout {attempt}: status.evidence of {region} cannot be read: {because}; nothing is done until it can"
    )]
    Evidence {
        /// The attempt's name.
        attempt: String,
        /// The region.
        region: String,
        /// Why.
        because: String,
    },
    /// The state cannot be written down.
    #[error("{what} cannot be stored: {because}")]
    Store {
        /// Which part.
        what: String,
        /// Why.
        because: String,
    },
}

/// What a policy asks for, in both forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// As it is frozen into an attempt.
    pub frozen: crds::Plan,
    /// As the core decides by it.
    pub plan: Plan,
}

/// What a policy asks for, or the first reason why that cannot be done. `class` is the class that it names, if there is
/// one; `regions` are the names of all regions.
pub fn intent(
    policy: &crds::AllocatorPolicy,
    class: Option<&crds::AllocatorClass>,
    regions: &BTreeSet<String>,
) -> Result<Intent, Refusal> {
    let Some(class) = class else {
        return Err(Refusal {
            reason: Reason::ClassNotFound,
            message: format!(
                "spec.allocator.class: there is no AllocatorClass {}; create it, or name one that exists.",
                policy.spec.allocator.class
            ),
        });
    };
    let frozen = freeze(policy, &class.spec, regions)?;
    let plan = thaw(&frozen)?;
    Ok(Intent { frozen, plan })
}

/// The frozen plan as the attempt that was decided on, or `None` if that is another plan.
pub fn as_attempt(frozen: &crds::Plan, decided: &Plan) -> Option<crds::Plan> {
    let same = thaw::hash_from_stored(&frozen.hash) == decided.hash;
    same.then(|| crds::Plan {
        attempt: values::stored(decided.attempt),
        ..frozen.clone()
    })
}

/// The policy as far as decisions need it.
pub fn policy(policy: &crds::AllocatorPolicy) -> Policy {
    let accepted = policy.status.as_ref().and_then(|status| {
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Accepted")
    });
    Policy {
        namespace: policy.namespace().unwrap_or_default(),
        name: policy.name_any(),
        uid: policy.uid().unwrap_or_default(),
        generation: policy.metadata.generation.unwrap_or_default(),
        deleting: policy.metadata.deletion_timestamp.is_some(),
        finalizer: policy
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == FINALIZER),
        suspend: policy.spec.suspend,
        restore_on_delete: policy.spec.on_delete == crds::OnDelete::Restore,
        history_limit: values::count(policy.spec.history_limit),
        accepted: accepted.map(|condition| condition.reason.clone()),
    }
}
