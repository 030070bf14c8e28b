//! Takes names, versions and records, gives the exact JSON that goes over the wire. Pure; every patch begins with tests of
//! what was observed.

use heapfleet_core::inject::{Injection, MANAGER};
use heapfleet_core::world::JournalStage;
use heapfleet_crds::AllocatorPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use crate::translate::FINALIZER;

/// Label of an attempt: the name of its policy.
pub const POLICY_LABEL: &str = "heapfleet.dev/policy";
/// Label of a journal.
const JOURNAL_LABEL: &str = "heapfleet.dev/journal";
/// Annotation of a journal: how far the change got.
const STAGE: &str = "heapfleet.dev/stage";

/// A key as a part of a JSON pointer (RFC 6901).
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn test(path: impl Into<String>, value: impl Into<Value>) -> Value {
    json!({"op": "test", "path": path.into(), "value": value.into()})
}

/// Adds our finalizer to the policy of this version.
pub(super) fn add_finalizer(version: &str, first: bool) -> Vec<Value> {
    let add = if first {
        json!({"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]})
    } else {
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER})
    };
    vec![test("/metadata/resourceVersion", version), add]
}

/// Removes our finalizer, which is the one at `index`, from the policy of this version.
pub(super) fn remove_finalizer(version: &str, index: usize) -> Vec<Value> {
    let path = format!("/metadata/finalizers/{index}");
    vec![
        test("/metadata/resourceVersion", version),
        test(path.as_str(), FINALIZER),
        json!({"op": "remove", "path": path}),
    ]
}

/// Removes our finalizer, which is the one at `index`, from an attempt.
pub(super) fn release(index: usize) -> Vec<Value> {
    let path = format!("/metadata/finalizers/{index}");
    vec![
        test(path.as_str(), FINALIZER),
        json!({"op": "remove", "path": path}),
    ]
}

/// An attempt goes with its policy. It does not block the policy's deletion: our finalizer does, for as long as needed.
pub(super) fn policy_owner(policy: &AllocatorPolicy) -> OwnerReference {
    OwnerReference {
        api_version: AllocatorPolicy::api_version(&()).into_owned(),
        kind: AllocatorPolicy::kind(&()).into_owned(),
        name: policy.name_any(),
        uid: policy.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

/// Tests that an attempt is of the policy with this uid; changes nothing.
pub(super) fn owned_by(uid: &str) -> Vec<Value> {
    vec![test("/metadata/ownerReferences/0/uid", uid)]
}

/// The journal of a change: a ControllerRevision, whose `data` the API server keeps immutable. It carries no label that a
/// StatefulSet or DaemonSet could select, and goes with its workload.
pub(super) fn journal(namespace: &str, injection: &Injection, record: &Value) -> Value {
    let workload = &injection.record.workload;
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": injection.journal,
            "namespace": namespace,
            "labels": {JOURNAL_LABEL: "true"},
            "annotations": {STAGE: JournalStage::Intent.as_str()},
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": workload.kind.to_string(),
                "name": workload.name,
                "uid": injection.record.uid,
                "controller": false,
                "blockOwnerDeletion": false,
            }],
        },
        "revision": 1,
        "data": record,
    })
}

/// Tests that a journal is ours and holds this record; changes nothing.
pub(super) fn same_journal(record: &Value) -> Vec<Value> {
    vec![
        test(
            format!("/metadata/labels/{}", pointer(JOURNAL_LABEL)),
            "true",
        ),
        test("/data", record.clone()),
    ]
}

/// Writes the stage into a journal of ours.
pub(super) fn mark(stage: JournalStage) -> Vec<Value> {
    vec![
        test(
            format!("/metadata/labels/{}", pointer(JOURNAL_LABEL)),
            "true",
        ),
        json!({
            "op": "add",
            "path": format!("/metadata/annotations/{}", pointer(STAGE)),
            "value": stage.as_str(),
        }),
    ]
}

/// Index of our own entry in `managedFields` of an object.
pub(super) fn own_entry(object: &Value) -> Option<usize> {
    object
        .pointer("/metadata/managedFields")?
        .as_array()?
        .iter()
        .position(|entry| {
            let is = |key: &str, value: &str| entry.get(key).and_then(Value::as_str) == Some(value);
            is("manager", MANAGER)
                && is("operation", "Update")
                && entry.get("subresource").is_none()
        })
}

/// Removes our entry, which is the one at `entry`, from `managedFields`.
pub(super) fn disown(entry: usize) -> Vec<Value> {
    let path = format!("/metadata/managedFields/{entry}");
    vec![
        test(format!("{path}/manager"), MANAGER),
        test(format!("{path}/operation"), "Update"),
        json!({"op": "remove", "path": path}),
    ]
}
