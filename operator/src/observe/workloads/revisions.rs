//! Takes the revisions that belong to a workload, gives the one that its controller works towards. Never computes a hash
//! of its own: names and hashes are those that the controllers gave.

use heapfleet_core::names::Kind;
use heapfleet_core::world::Revision;
use serde_json::Value;

use super::raw::{owned_by, text};

/// The number that the Deployment controller puts on its `ReplicaSets` and on the Deployment.
const NUMBER: &str = "deployment.kubernetes.io/revision";

/// The current revision of a workload. `observed`: its controller has seen its newest generation.
///
/// A revision is current when its template equals the workload's; of several, the newest. A Deployment's controller
/// compares quantities by value (`1Gi` and `1024Mi` are one template to it), which this does not; where no template is
/// equal to the letter, the controller's own numbering decides, once it has seen the newest generation.
pub(super) fn current(
    kind: Kind,
    workload: &Value,
    revisions: &[Value],
    observed: bool,
) -> Option<Revision> {
    let uid = text(workload, "/metadata/uid")?;
    let template = plain(workload.pointer("/spec/template")?);
    let owned: Vec<&Value> = revisions
        .iter()
        .filter(|revision| owned_by(revision, uid))
        .collect();
    let equal = owned
        .iter()
        .filter(|revision| {
            template_of(kind, revision).is_some_and(|other| plain(other) == template)
        })
        .max_by_key(|revision| number(kind, revision));
    let found = match (equal, kind) {
        (Some(revision), _) => Some(*revision),
        (None, Kind::Deployment) if observed => {
            let wanted = number(kind, workload)?;
            owned
                .into_iter()
                .find(|revision| number(kind, revision) == Some(wanted))
        }
        (None, Kind::StatefulSet) if observed => {
            let wanted = text(workload, "/status/updateRevision")?;
            owned
                .into_iter()
                .find(|revision| text(revision, "/metadata/name") == Some(wanted))
        }
        (None, Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet) => None,
    }?;
    let name = text(found, "/metadata/name")?.to_owned();
    let hash = match kind {
        Kind::Deployment => label(found, "pod-template-hash")?.to_owned(),
        Kind::DaemonSet => label(found, "controller-revision-hash")?.to_owned(),
        // The pods of a StatefulSet carry the revision's whole name as their hash.
        Kind::StatefulSet => name.clone(),
    };
    Some(Revision { name, hash })
}

fn label<'a>(raw: &'a Value, key: &str) -> Option<&'a str> {
    raw.pointer("/metadata/labels")?.get(key)?.as_str()
}

fn number(kind: Kind, raw: &Value) -> Option<i64> {
    match kind {
        Kind::Deployment => raw
            .pointer("/metadata/annotations")?
            .get(NUMBER)?
            .as_str()?
            .parse()
            .ok(),
        Kind::StatefulSet | Kind::DaemonSet => raw.get("revision")?.as_i64(),
    }
}

fn template_of(kind: Kind, revision: &Value) -> Option<&Value> {
    match kind {
        Kind::Deployment => revision.pointer("/spec/template"),
        Kind::StatefulSet | Kind::DaemonSet => revision.pointer("/data/spec/template"),
    }
}

/// A template without what controllers add when they keep a copy: the hash label, the strategic-merge mark, and nulls
/// (`creationTimestamp: null`).
fn plain(template: &Value) -> Value {
    let mut plain = without_nulls(template);
    if let Some(object) = plain.as_object_mut() {
        object.remove("$patch");
    }
    if let Some(labels) = plain
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove("pod-template-hash");
    }
    plain
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, inner)| !inner.is_null())
                .map(|(key, inner)| (key.clone(), without_nulls(inner)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
