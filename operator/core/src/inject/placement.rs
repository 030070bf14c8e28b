//! Takes a pod template and nodes, gives the nodes on which its pods may land. Never looks at room, ports, volumes or
//! other pods: those change by the minute, and a node too many only costs a refusal, where one too few costs a crash.
//!
//! What is decided is what kube-scheduler's filters `NodeName`, `NodeUnschedulable`, `NodeAffinity` and `TaintToleration`
//! decide, and for a DaemonSet its controller with the same rules.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::names::Kind;
use crate::world::{Node, Taint};

/// The only field of a node that `matchFields` may name.
const NAME_FIELD: &str = "metadata.name";
/// The taint that stands for a cordon.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Taints that the control plane sets for a node's condition and takes away by itself.
const PASSING: [&str; 9] = [
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    UNSCHEDULABLE,
];

/// What every pod of a DaemonSet tolerates: its controller adds it, the template does not show it.
const DAEMON: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE, NO_SCHEDULE),
];
/// What it tolerates besides if it uses the host's network.
const DAEMON_ON_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

/// As of when pods may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// In this minute: exactly what the scheduler would decide.
    Now,
    /// In the life of the template: a node that is cordoned, not ready or under pressure will be as the others again, so
    /// cordons and the control plane's own condition taints do not keep it out.
    Later,
}

/// The nodes on which pods of `template` may land, by name.
///
/// A template with `nodeName` passes the scheduler by: its node counts unless the kubelet there would turn the pod away.
pub fn landing<'a>(
    kind: Kind,
    template: &Value,
    nodes: &'a BTreeMap<String, Node>,
    moment: Moment,
) -> BTreeMap<&'a str, &'a Node> {
    let empty = Value::Null;
    let spec = template.get("spec").unwrap_or(&empty);
    let pinned = text(spec, "nodeName").filter(|name| !name.is_empty());
    nodes
        .iter()
        .map(|(name, node)| (name.as_str(), node))
        .filter(|(name, _)| pinned.is_none_or(|pinned| pinned == *name))
        .filter(|(name, node)| selected(spec, node) && affine(spec, name, node))
        .filter(|(_, node)| untainted(kind, spec, node, moment, pinned.is_some()))
        .collect()
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// `nodeSelector`: every label with exactly this value.
fn selected(spec: &Value, node: &Node) -> bool {
    let wanted = spec.get("nodeSelector").and_then(Value::as_object);
    wanted.into_iter().flatten().all(|(key, value)| {
        node.labels.get(key).map(String::as_str) == Some(value.as_str().unwrap_or_default())
    })
}

/// The required node affinity: one of its terms must hold; preferred terms keep nobody out.
fn affine(spec: &Value, name: &str, node: &Node) -> bool {
    let required =
        spec.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    match required {
        None | Some(Value::Null) => true,
        Some(required) => list(required, "nodeSelectorTerms")
            .iter()
            .any(|term| holds(term, name, node)),
    }
}

/// A term holds where all of its requirements do; one without requirements holds nowhere.
fn holds(term: &Value, name: &str, node: &Node) -> bool {
    let expressions = list(term, "matchExpressions");
    let fields = list(term, "matchFields");
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|requirement| {
        let key = text(requirement, "key").unwrap_or_default();
        meets(requirement, node.labels.get(key).map(String::as_str))
    }) && fields
        .iter()
        .all(|requirement| meets_field(requirement, name))
}

/// A requirement of a label. One that the scheduler calls erroneous (a set operator without values, a number that is none)
/// holds nowhere; an operator that is not known here never keeps a node out, because a newer scheduler may know it.
fn meets(requirement: &Value, label: Option<&str>) -> bool {
    let values: Vec<&str> = list(requirement, "values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let listed = |label: &str| values.contains(&label);
    match text(requirement, "operator").unwrap_or_default() {
        "In" => label.is_some_and(listed),
        "NotIn" => !values.is_empty() && !label.is_some_and(listed),
        "Exists" => values.is_empty() && label.is_some(),
        "DoesNotExist" => values.is_empty() && label.is_none(),
        "Gt" => number(label, &values).is_some_and(|(label, bound)| label > bound),
        "Lt" => number(label, &values).is_some_and(|(label, bound)| label < bound),
        _ => true,
    }
}

/// The label and the only value as whole numbers.
fn number(label: Option<&str>, values: &[&str]) -> Option<(i64, i64)> {
    match values {
        [bound] => Some((label?.parse().ok()?, bound.parse().ok()?)),
        [] | [_, ..] => None,
    }
}

/// A requirement of the node's name: `In` or `NotIn` with exactly one value.
fn meets_field(requirement: &Value, name: &str) -> bool {
    let values = list(requirement, "values");
    let [value] = values else {
        return false;
    };
    let same = value.as_str() == Some(name);
    match (
        text(requirement, "key").unwrap_or_default(),
        text(requirement, "operator").unwrap_or_default(),
    ) {
        (NAME_FIELD, "In") => same,
        (NAME_FIELD, "NotIn") => !same,
        _ => false,
    }
}

/// Whether every taint that counts is tolerated, and a cordon too. A pod that is pinned to its node by name meets the
/// kubelet alone, which asks about `NoExecute` only.
fn untainted(kind: Kind, spec: &Value, node: &Node, moment: Moment, pinned: bool) -> bool {
    let cordon = Taint {
        key: UNSCHEDULABLE.to_owned(),
        value: String::new(),
        effect: NO_SCHEDULE.to_owned(),
    };
    let cordon = node.unschedulable.then_some(&cordon);
    node.taints
        .iter()
        .chain(cordon)
        .filter(|taint| match taint.effect.as_str() {
            NO_SCHEDULE => !pinned,
            NO_EXECUTE => true,
            _ => false,
        })
        .filter(|taint| moment == Moment::Now || !PASSING.contains(&taint.key.as_str()))
        .all(|taint| {
            list(spec, "tolerations")
                .iter()
                .any(|toleration| tolerates(toleration, taint))
                || tolerated_by_daemons(kind, spec, taint)
        })
}

/// No effect means every effect, no key (with `Exists`) every key; no operator means `Equal`.
fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let is = |field: &str, other: &str| {
        text(toleration, field)
            .filter(|word| !word.is_empty())
            .is_none_or(|word| word == other)
    };
    if !is("effect", &taint.effect) || !is("key", &taint.key) {
        return false;
    }
    let value = text(toleration, "value").unwrap_or_default();
    let numbers = || number(Some(&taint.value), &[value]);
    match text(toleration, "operator").unwrap_or_default() {
        "" | "Equal" => value == taint.value,
        // Of clusters from 1.35 on, behind a feature gate.
        "Gt" => numbers().is_some_and(|(taint, bound)| taint > bound),
        "Lt" => numbers().is_some_and(|(taint, bound)| taint < bound),
        // `Exists`; or an operator that is not known here: it may tolerate the taint, so the node stays.
        _ => true,
    }
}

fn tolerated_by_daemons(kind: Kind, spec: &Value, taint: &Taint) -> bool {
    let on_host = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    kind == Kind::DaemonSet
        && DAEMON
            .iter()
            .chain(on_host.then_some(&DAEMON_ON_HOST_NETWORK))
            .any(|(key, effect)| *key == taint.key && *effect == taint.effect)
}
