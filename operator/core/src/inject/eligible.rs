//! Takes a workload as seen, gives the container to change or one reason why it is left alone. Never writes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::images::image_for;
use super::standing::check_standing;
use super::{owner, parts, patch};
use crate::decision::Reason;
use crate::names::{Claim, WorkloadId};
use crate::plan::{Allocator, Delivery, Target};
use crate::world::{ClusterView, Workload};

/// Why a workload is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ineligible {
    /// One reason of the closed set.
    pub reason: Reason,
    /// One sentence: what, why, what to do.
    pub message: String,
}

pub(super) fn refuse(reason: Reason, message: String) -> Ineligible {
    Ineligible { reason, message }
}

/// The name of the container to change, or the first reason against it, in the order of `injection.md`.
pub fn eligible(
    id: &WorkloadId,
    workload: &Workload,
    cluster: &ClusterView,
    target: &Target,
    allocator: &Allocator,
    claim: &Claim,
) -> Result<String, Ineligible> {
    if workload.deleting {
        return Err(refuse(
            Reason::WorkloadDeleting,
            format!("{id} is being deleted."),
        ));
    }
    check_claim(id, workload, claim)?;
    check_standing(id, workload)?;
    let container = pick_container(id, workload, target)?;
    if let Delivery::Unsupported { name } = &allocator.delivery {
        return Err(refuse(
            Reason::DeliveryUnsupported,
            format!(
                "class {}: delivery {name} is not carried out by this version; use delivery Preload with source InImage.",
                allocator.class
            ),
        ));
    }
    check_template(id, &container, &workload.template, allocator)?;
    image_for(id, workload, &container, &cluster.nodes, allocator)?;
    parts::check_nodes(id, cluster, allocator)?;
    if workload.pods.iter().any(|pod| pod.crash_loop.is_some()) {
        return Err(refuse(
            Reason::PodsInBackOff,
            format!(
                "{id} has pods in back-off already; repair it first, its restarts would be counted against the allocator."
            ),
        ));
    }
    Ok(container)
}

/// Refuses a container in whose template something of its owner is in the way.
pub(super) fn check_template(
    id: &WorkloadId,
    container: &str,
    template: &Value,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    owner::check_env(id, container, template, allocator)?;
    parts::check_parts(id, container, template, allocator)
}

fn check_claim(id: &WorkloadId, workload: &Workload, claim: &Claim) -> Result<(), Ineligible> {
    match workload.claim() {
        Some(other) if other != claim.as_str() => Err(refuse(
            Reason::InjectionConflict,
            format!(
                "{id} is claimed by another policy or hub ({other}); let that one release it first."
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

fn pick_container(
    id: &WorkloadId,
    workload: &Workload,
    target: &Target,
) -> Result<String, Ineligible> {
    let names = patch::container_names(&workload.template);
    let chosen: Vec<&String> = if target.containers.is_empty() {
        match names.as_slice() {
            [only] => vec![only],
            _ => names.iter().filter(|name| **name == id.name).collect(),
        }
    } else {
        names
            .iter()
            .filter(|name| target.containers.contains(name))
            .collect()
    };
    match chosen.as_slice() {
        [one] => Ok((*one).clone()),
        [] if !target.containers.is_empty() => Err(refuse(
            Reason::ContainerNotFound,
            format!(
                "{id} has the containers {}, and spec.target.containers names only {}; name one that it has, or leave the workload out (spec.target.exclude).",
                names.join(", "),
                target.containers.join(", ")
            ),
        )),
        [] | [_, ..] => Err(refuse(
            Reason::AmbiguousContainer,
            format!(
                "{id} has the containers {}; name exactly one of them in spec.target.containers.",
                names.join(", ")
            ),
        )),
    }
}
