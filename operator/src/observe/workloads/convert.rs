//! Takes a workload as the API has it with its revisions, pods and journals, gives the core's view of it. Pure; never
//! reads the template through a type that could drop a field.

use heapfleet_core::inject::{JournalRecord, MANAGER};
use heapfleet_core::names::Kind;
use heapfleet_core::world::{Journal, JournalStage, Pod, Revision, Update, Workload};
use k8s_openapi::api::core::v1;
use serde::Deserialize as _;
use serde_json::Value;

use super::raw::{count, owned_by, strings, text};
use super::{pods, revisions};

/// The annotation of a journal that says how far the change got.
const STAGE: &str = "heapfleet.dev/stage";

/// What was listed besides the workloads.
#[derive(Clone, Debug, Default)]
pub(super) struct Related {
    /// `ReplicaSets` of the namespace, or those of the workloads looked at.
    pub(super) replica_sets: Vec<Value>,
    /// `ControllerRevisions` of the namespace.
    pub(super) revisions: Vec<Value>,
    /// Pods of the namespace, or those of the workloads looked at.
    pub(super) pods: Vec<v1::Pod>,
    /// Journals of ours.
    pub(super) journals: Vec<Journal>,
}

/// The journal that a `ControllerRevision` is; `None` if it is none, or one that cannot be read (then the claim on the
/// workload stands without a journal, which the core does not undo by guess).
pub(super) fn journal(raw: &Value) -> Option<Journal> {
    if text(raw, "/metadata/labels/heapfleet.dev~1journal") != Some("true") {
        return None;
    }
    let name = text(raw, "/metadata/name")?.to_owned();
    let read = stage(raw).and_then(|stage| {
        let data = raw.get("data").unwrap_or(&Value::Null);
        let record = JournalRecord::deserialize(data).map_err(|error| error.to_string())?;
        Ok(Journal {
            name: name.clone(),
            stage,
            record,
        })
    });
    read.inspect_err(|error| tracing::warn!(journal = name, error, "journal that cannot be read"))
        .ok()
}

/// A journal without a stage is as it was first written.
fn stage(raw: &Value) -> Result<JournalStage, String> {
    let annotations = raw.pointer("/metadata/annotations");
    let stage = annotations
        .and_then(|all| all.get(STAGE))
        .and_then(Value::as_str);
    match stage.unwrap_or(JournalStage::Intent.as_str()) {
        "intent" => Ok(JournalStage::Intent),
        "applied" => Ok(JournalStage::Applied),
        "removed" => Ok(JournalStage::Removed),
        other => Err(format!("its stage {other:?} is not known")),
    }
}

/// The core's view of a workload; `None` for an object without name, uid or template.
pub(super) fn workload(kind: Kind, raw: &Value, related: &Related) -> Option<Workload> {
    let uid = text(raw, "/metadata/uid")?.to_owned();
    let generation = raw
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)?;
    let template = raw.pointer("/spec/template")?.clone();
    let observed = raw
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .is_some_and(|observed| observed >= generation);
    let revision = match kind {
        Kind::Deployment => revisions::current(kind, raw, &related.replica_sets, observed),
        Kind::StatefulSet | Kind::DaemonSet => {
            revisions::current(kind, raw, &related.revisions, observed)
        }
    };
    let pods = pods_of(kind, &uid, related);
    let replicas = replicas(kind, raw);
    let view = Workload {
        generation,
        annotations: strings(raw, "/metadata/annotations"),
        managed_entry: managed_entry(raw),
        template,
        replicas,
        paused: raw
            .pointer("/spec/paused")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        deleting: raw
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(|at| !at.is_null()),
        settled: observed
            && counts_agree(kind, raw, replicas)
            && only_current(&pods, revision.as_ref(), replicas),
        progress: progress(&pods, revision.as_ref()),
        max_unavailable: max_unavailable(kind, raw, replicas),
        update: update(kind, raw),
        controller: controller(raw),
        older_policy: None,
        journals: related
            .journals
            .iter()
            .filter(|journal| journal.record.uid == uid)
            .cloned()
            .collect(),
        uid,
        revision,
        pods,
    };
    Some(view)
}

/// A strategy of a Deployment always replaces every pod.
fn update(kind: Kind, raw: &Value) -> Update {
    let strategy = raw.pointer("/spec/updateStrategy");
    let of = |pointer: &str| strategy.and_then(|strategy| strategy.pointer(pointer));
    match kind {
        Kind::StatefulSet | Kind::DaemonSet
            if of("/type").and_then(Value::as_str) == Some("OnDelete") =>
        {
            Update::OnDelete
        }
        Kind::StatefulSet => of("/rollingUpdate/partition")
            .and_then(Value::as_u64)
            .and_then(|partition| u32::try_from(partition).ok())
            .filter(|partition| *partition > 0)
            .map_or(Update::Rolling, Update::Partition),
        Kind::Deployment | Kind::DaemonSet => Update::Rolling,
    }
}

/// The object that made the workload and keeps its template, such as the custom resource of another operator.
fn controller(raw: &Value) -> Option<String> {
    let owners = raw.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{}/{}", text("kind"), text("name")))
}

fn replicas(kind: Kind, raw: &Value) -> u32 {
    match kind {
        Kind::DaemonSet => count(raw, "/status/desiredNumberScheduled"),
        // The API fills in 1 where the owner says nothing.
        Kind::Deployment | Kind::StatefulSet => raw
            .pointer("/spec/replicas")
            .map_or(1, |_| count(raw, "/spec/replicas")),
    }
}

fn counts_agree(kind: Kind, raw: &Value, replicas: u32) -> bool {
    let fields = match kind {
        Kind::Deployment | Kind::StatefulSet => [
            "/status/replicas",
            "/status/updatedReplicas",
            "/status/availableReplicas",
        ],
        Kind::DaemonSet => [
            "/status/currentNumberScheduled",
            "/status/updatedNumberScheduled",
            "/status/numberAvailable",
        ],
    };
    fields.iter().all(|field| count(raw, field) == replicas)
}

/// Every pod is of the current revision, none is on its way out, and there are as many as there should be.
fn only_current(pods: &[Pod], revision: Option<&Revision>, replicas: u32) -> bool {
    let Some(revision) = revision else {
        return false;
    };
    u32::try_from(pods.len()) == Ok(replicas)
        && pods
            .iter()
            .all(|pod| pod.revision_hash == revision.hash && !pod.terminating)
}

fn progress(pods: &[Pod], revision: Option<&Revision>) -> u32 {
    let updated = revision.map_or(0, |revision| {
        pods.iter()
            .filter(|pod| pod.revision_hash == revision.hash)
            .filter(|pod| pod.ready_since.is_some() && !pod.terminating)
            .count()
    });
    u32::try_from(updated).unwrap_or(u32::MAX)
}

fn pods_of(kind: Kind, uid: &str, related: &Related) -> Vec<Pod> {
    let owners: Vec<&str> = match kind {
        Kind::Deployment => related
            .replica_sets
            .iter()
            .filter(|set| owned_by(set, uid))
            .filter_map(|set| text(set, "/metadata/uid"))
            .collect(),
        Kind::StatefulSet | Kind::DaemonSet => vec![uid],
    };
    let mut pods: Vec<Pod> = related
        .pods
        .iter()
        .filter(|pod| pods::controller(pod).is_some_and(|owner| owners.contains(&owner)))
        .filter(|pod| pods::alive(pod))
        .map(|raw| pods::pod(kind, raw))
        .collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    pods
}

fn managed_entry(raw: &Value) -> Option<usize> {
    let entries = raw.pointer("/metadata/managedFields")?.as_array()?;
    entries.iter().position(|entry| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        text("manager") == MANAGER
            && text("operation") == "Update"
            && text("subresource").is_empty()
    })
}

/// How many pods may be missing during a rollout, as the controllers resolve it: a percentage is rounded down (a
/// `DaemonSet`'s up), a Deployment that allows neither surge nor absence gets 1.
fn max_unavailable(kind: Kind, raw: &Value, replicas: u32) -> u32 {
    let (pointer, default) = match kind {
        Kind::Deployment => {
            if text(raw, "/spec/strategy/type") == Some("Recreate") {
                return replicas;
            }
            ("/spec/strategy/rollingUpdate", "25%")
        }
        Kind::StatefulSet | Kind::DaemonSet => ("/spec/updateStrategy/rollingUpdate", "1"),
    };
    let setting = |field: &str| {
        raw.pointer(pointer)
            .and_then(|strategy| strategy.get(field))
    };
    let up = kind == Kind::DaemonSet;
    let allowed = resolve(setting("maxUnavailable"), default, replicas, up);
    let stuck = kind == Kind::Deployment
        && allowed == 0
        && resolve(setting("maxSurge"), "25%", replicas, true) == 0;
    if stuck {
        1.min(replicas)
    } else {
        allowed.min(replicas)
    }
}

fn resolve(setting: Option<&Value>, default: &str, total: u32, up: bool) -> u32 {
    let written = match setting {
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
            default.to_owned()
        }
    };
    let Some(percent) = written.strip_suffix('%') else {
        return written.parse().unwrap_or_default();
    };
    let percent: u64 = percent.parse().unwrap_or_default();
    let hundredfold = percent.saturating_mul(u64::from(total));
    let resolved = if up {
        hundredfold.div_ceil(100)
    } else {
        hundredfold / 100
    };
    u32::try_from(resolved).unwrap_or(u32::MAX)
}
