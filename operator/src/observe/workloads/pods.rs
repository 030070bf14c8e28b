//! Takes a pod as the API has it, gives what of it matters. Never decides whether a crash is the allocator's fault.

use std::collections::BTreeMap;

use heapfleet_core::names::Kind;
use heapfleet_core::world;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::observe::quantity;

/// Reasons for which a container waits that mean it cannot run.
const BACK_OFF: [&str; 3] = [
    "CrashLoopBackOff",
    "CreateContainerError",
    "RunContainerError",
];

/// A pod of a workload of this kind.
pub(super) fn pod(kind: Kind, raw: &Pod) -> world::Pod {
    let status = raw.status.as_ref();
    let containers = status
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default();
    let init = status
        .and_then(|status| status.init_container_statuses.as_deref())
        .unwrap_or_default();
    world::Pod {
        name: raw.metadata.name.clone().unwrap_or_default(),
        uid: raw.metadata.uid.clone().unwrap_or_default(),
        created: raw
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        revision_hash: revision_hash(kind, raw),
        ready_since: ready_since(raw),
        terminating: raw.metadata.deletion_timestamp.is_some(),
        restarts: containers
            .iter()
            .map(|status| u32::try_from(status.restart_count).unwrap_or_default())
            .fold(0, u32::saturating_add),
        crash_loop: containers.iter().chain(init).find_map(back_off),
        oom_killed: containers.iter().any(oom_killed),
        images: images(containers),
        memory_limits: memory_limits(raw),
    }
}

/// Whether its containers may still run: a pod that has failed or succeeded stays in the API without being one of the
/// workload's replicas.
pub(super) fn alive(raw: &Pod) -> bool {
    let phase = raw
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Failed" | "Succeeded"))
}

/// The uid of the object that controls it.
pub(super) fn controller(raw: &Pod) -> Option<&str> {
    let owners = raw.metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
}

fn revision_hash(kind: Kind, raw: &Pod) -> String {
    let label = match kind {
        Kind::Deployment => "pod-template-hash",
        Kind::StatefulSet | Kind::DaemonSet => "controller-revision-hash",
    };
    raw.metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(label))
        .cloned()
        .unwrap_or_default()
}

fn ready_since(raw: &Pod) -> Option<Timestamp> {
    let conditions = raw.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    if ready.status != "True" {
        return None;
    }
    let since = ready.last_transition_time.as_ref().map(|time| time.0);
    since.or_else(|| raw.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

fn back_off(status: &ContainerStatus) -> Option<String> {
    let reason = status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
    BACK_OFF.contains(&reason).then(|| reason.to_owned())
}

fn oom_killed(status: &ContainerStatus) -> bool {
    [&status.state, &status.last_state]
        .into_iter()
        .filter_map(|state| state.as_ref()?.terminated.as_ref()?.reason.as_deref())
        .any(|reason| reason == "OOMKilled")
}

fn images(containers: &[ContainerStatus]) -> BTreeMap<String, String> {
    containers
        .iter()
        .filter(|status| !status.image_id.is_empty())
        .map(|status| (status.name.clone(), status.image_id.clone()))
        .collect()
}

fn memory_limits(raw: &Pod) -> BTreeMap<String, u64> {
    let containers = raw
        .spec
        .as_ref()
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default();
    containers
        .iter()
        .filter_map(|container| {
            let limit = container
                .resources
                .as_ref()?
                .limits
                .as_ref()?
                .get("memory")?;
            Some((container.name.clone(), quantity::bytes(&limit.0)?))
        })
        .collect()
}
