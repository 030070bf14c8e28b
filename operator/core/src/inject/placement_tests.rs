//! Where pods may land: a table over every operator and every edge.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::placement::{Moment, landing};
use crate::names::Kind;
use crate::world::{Node, Taint};

fn node(labels: &[(&str, &str)], taints: &[(&str, &str, &str)], cordoned: bool) -> Node {
    Node {
        arch: "amd64".to_owned(),
        page_size_label: None,
        kernel: "6.1".to_owned(),
        runtime: String::new(),
        kubelet: String::new(),
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        taints: taints
            .iter()
            .map(|(key, value, effect)| Taint {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
                effect: (*effect).to_owned(),
            })
            .collect(),
        unschedulable: cordoned,
    }
}

fn lands(kind: Kind, spec: &Value, node: Node, moment: Moment) -> bool {
    let nodes = BTreeMap::from([("n1".to_owned(), node)]);
    let template = json!({"spec": spec});
    !landing(kind, &template, &nodes, moment).is_empty()
}

fn deployed(spec: &Value, node: Node) -> bool {
    lands(Kind::Deployment, spec, node, Moment::Now)
}

pub(super) fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn a_node_selector_wants_every_label_with_its_value() {
    let seen = || node(&[("disk", "ssd"), ("zone", "a"), ("empty", "")], &[], false);
    for (selector, expected) in [
        (json!({}), true),
        (json!(null), true),
        (json!({"disk": "ssd"}), true),
        (json!({"disk": "hdd"}), false),
        (json!({"missing": "x"}), false),
        (json!({"missing": ""}), false),
        (json!({"empty": ""}), true),
        (json!({"disk": "ssd", "zone": "a"}), true),
        (json!({"disk": "ssd", "zone": "b"}), false),
    ] {
        let spec = json!({"nodeSelector": selector});
        assert_eq!(deployed(&spec, seen()), expected, "{selector}");
    }
    assert!(deployed(&Value::Null, seen()), "a template without a spec");
}

#[test]
fn every_operator_of_a_requirement() {
    let cases: &[(&str, &str, &[&str], bool)] = &[
        ("zone", "In", &["a", "b"], true),
        ("zone", "In", &["b"], false),
        ("zone", "In", &[], false),
        ("missing", "In", &["a"], false),
        ("missing", "In", &[""], false),
        ("zone", "NotIn", &["b"], true),
        ("zone", "NotIn", &["a", "b"], false),
        ("zone", "NotIn", &[], false),
        ("missing", "NotIn", &["a"], true),
        ("zone", "Exists", &[], true),
        ("zone", "Exists", &["a"], false),
        ("missing", "Exists", &[], false),
        ("missing", "DoesNotExist", &[], true),
        ("missing", "DoesNotExist", &["a"], false),
        ("zone", "DoesNotExist", &[], false),
        ("cores", "Gt", &["7"], true),
        ("cores", "Gt", &["8"], false),
        ("cores", "Gt", &["-9"], true),
        ("cores", "Lt", &["9"], true),
        ("cores", "Lt", &["8"], false),
        ("cores", "Gt", &["1", "2"], false),
        ("cores", "Gt", &[], false),
        ("cores", "Gt", &["7.5"], false),
        ("cores", "Lt", &["many"], false),
        ("zone", "Gt", &["0"], false),
        ("missing", "Gt", &["0"], false),
        ("missing", "Lt", &["0"], false),
        ("missing", "Near", &["0"], true),
    ];
    for (key, operator, values, expected) in cases {
        let seen = node(&[("zone", "a"), ("cores", "8")], &[], false);
        let spec = required(&json!([{"matchExpressions": [expression(key, operator, values)]}]));
        assert_eq!(
            deployed(&spec, seen),
            *expected,
            "{key} {operator} {values:?}"
        );
    }
}

#[test]
fn fields_name_exactly_one_node() {
    let cases: &[(&str, &str, &[&str], bool)] = &[
        ("metadata.name", "In", &["n1"], true),
        ("metadata.name", "In", &["n2"], false),
        ("metadata.name", "In", &["n1", "n2"], false),
        ("metadata.name", "In", &[], false),
        ("metadata.name", "NotIn", &["n1"], false),
        ("metadata.name", "NotIn", &["n2"], true),
        ("metadata.name", "Exists", &[], false),
        ("metadata.uid", "In", &["n1"], false),
    ];
    for (key, operator, values, expected) in cases {
        let spec = required(&json!([{"matchFields": [expression(key, operator, values)]}]));
        assert_eq!(
            deployed(&spec, node(&[], &[], false)),
            *expected,
            "{key} {operator} {values:?}"
        );
    }
}

#[test]
fn terms_are_alternatives_and_their_requirements_are_not() {
    let a = || expression("zone", "In", &["a"]);
    let b = || expression("zone", "In", &["b"]);
    let ssd = || expression("disk", "Exists", &[]);
    let n1 = || expression("metadata.name", "In", &["n1"]);
    let n2 = || expression("metadata.name", "In", &["n2"]);
    for (terms, expected) in [
        (json!([]), false),
        (json!([{}]), false),
        (json!([{"matchExpressions": [], "matchFields": []}]), false),
        (json!([{}, {"matchExpressions": [a()]}]), true),
        (json!([{"matchExpressions": [a()]}]), true),
        (json!([{"matchExpressions": [b()]}]), false),
        (
            json!([{"matchExpressions": [b()]}, {"matchExpressions": [a()]}]),
            true,
        ),
        (json!([{"matchExpressions": [a(), ssd()]}]), true),
        (json!([{"matchExpressions": [a(), b()]}]), false),
        (
            json!([{"matchExpressions": [a()], "matchFields": [n1()]}]),
            true,
        ),
        (
            json!([{"matchExpressions": [a()], "matchFields": [n2()]}]),
            false,
        ),
        (
            json!([{"matchExpressions": [b()], "matchFields": [n1()]}]),
            false,
        ),
        (
            json!([{"matchFields": [n2()]}, {"matchFields": [n1()]}]),
            true,
        ),
    ] {
        let seen = node(&[("zone", "a"), ("disk", "ssd")], &[], false);
        assert_eq!(deployed(&required(&terms), seen), expected, "{terms}");
    }
    // Both the selector and the affinity must hold; what is only preferred keeps nobody out.
    let mut both = required(&json!([{"matchExpressions": [a()]}]));
    both["nodeSelector"] = json!({"disk": "hdd"});
    let seen = || node(&[("zone", "a"), ("disk", "ssd")], &[], false);
    assert!(!deployed(&both, seen()));
    let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [b()]}}
    ]}}});
    assert!(deployed(&preferred, seen()));
    let none = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": null}}});
    assert!(deployed(&none, seen()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_form_of_a_toleration() {
    let dedicated = ("dedicated", "cache", "NoSchedule");
    let execute = ("dedicated", "cache", "NoExecute");
    let sla = ("sla", "950", "NoSchedule");
    for (taint, toleration, expected) in [
        (dedicated, json!({}), false),
        (dedicated, json!({"operator": "Exists"}), true),
        (
            dedicated,
            json!({"operator": "Exists", "effect": "NoSchedule"}),
            true,
        ),
        (
            dedicated,
            json!({"operator": "Exists", "effect": "NoExecute"}),
            false,
        ),
        (
            dedicated,
            json!({"key": "dedicated", "operator": "Exists"}),
            true,
        ),
        (
            dedicated,
            json!({"key": "other", "operator": "Exists"}),
            false,
        ),
        (
            dedicated,
            json!({"key": "dedicated", "value": "cache"}),
            true,
        ),
        (
            dedicated,
            json!({"key": "dedicated", "operator": "Equal", "value": "cache"}),
            true,
        ),
        (
            dedicated,
            json!({"key": "dedicated", "operator": "Equal", "value": "web"}),
            false,
        ),
        (
            dedicated,
            json!({"key": "dedicated", "operator": "Equal"}),
            false,
        ),
        (
            dedicated,
            json!({"key": "dedicated", "operator": "Equal", "value": "cache", "effect": "NoExecute"}),
            false,
        ),
        (
            execute,
            json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}),
            true,
        ),
        (
            execute,
            json!({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}),
            false,
        ),
        (
            sla,
            json!({"key": "sla", "operator": "Gt", "value": "900"}),
            true,
        ),
        (
            sla,
            json!({"key": "sla", "operator": "Gt", "value": "950"}),
            false,
        ),
        (
            sla,
            json!({"key": "sla", "operator": "Lt", "value": "951"}),
            true,
        ),
        (
            sla,
            json!({"key": "sla", "operator": "Lt", "value": "x"}),
            false,
        ),
        (
            sla,
            json!({"key": "sla", "operator": "Like", "value": "9"}),
            true,
        ),
    ] {
        let spec = json!({"tolerations": [toleration]});
        assert_eq!(
            deployed(&spec, node(&[], &[taint], false)),
            expected,
            "{taint:?} {toleration}"
        );
    }
    // Each taint needs a toleration; one that is only preferred needs none.
    let both = || node(&[], &[dedicated, sla], false);
    let one = json!({"tolerations": [{"key": "sla", "operator": "Exists"}]});
    assert!(!deployed(&one, both()));
    let all = json!({"tolerations": [{"key": "sla", "operator": "Exists"}, {"key": "dedicated", "operator": "Exists"}]});
    assert!(deployed(&all, both()));
    let soft = node(&[], &[("x", "", "PreferNoSchedule")], false);
    assert!(deployed(&json!({}), soft));
}

#[test]
fn a_cordon_is_a_taint_of_its_own() {
    let cordoned = || node(&[], &[], true);
    for (toleration, expected) in [
        (
            json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
            true,
        ),
        (json!({"key": "node.kubernetes.io/unschedulable"}), true),
        (
            json!({"key": "node.kubernetes.io/unschedulable", "value": "x"}),
            false,
        ),
        (
            json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}),
            false,
        ),
        (json!({"key": "other", "operator": "Exists"}), false),
    ] {
        let spec = json!({"tolerations": [toleration]});
        assert_eq!(deployed(&spec, cordoned()), expected, "{toleration}");
    }
    assert!(!deployed(&json!({}), cordoned()));
    // It will be lifted again, and pods may land there then.
    assert!(lands(
        Kind::Deployment,
        &json!({}),
        cordoned(),
        Moment::Later
    ));
}

#[test]
fn conditions_pass_and_other_taints_stay() {
    for (key, effect, passes) in [
        ("node.kubernetes.io/not-ready", "NoSchedule", true),
        ("node.kubernetes.io/not-ready", "NoExecute", true),
        ("node.kubernetes.io/unreachable", "NoExecute", true),
        ("node.kubernetes.io/memory-pressure", "NoSchedule", true),
        ("node.kubernetes.io/disk-pressure", "NoSchedule", true),
        ("node.kubernetes.io/pid-pressure", "NoSchedule", true),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", true),
        ("node.kubernetes.io/unschedulable", "NoSchedule", true),
        (
            "node.cloudprovider.kubernetes.io/uninitialized",
            "NoSchedule",
            true,
        ),
        (
            "node.cloudprovider.kubernetes.io/shutdown",
            "NoSchedule",
            true,
        ),
        ("node.kubernetes.io/out-of-service", "NoExecute", false),
        ("node-role.kubernetes.io/control-plane", "NoSchedule", false),
        ("kubernetes.io/arch", "NoSchedule", false),
    ] {
        let seen = || node(&[], &[(key, "", effect)], false);
        assert!(!deployed(&json!({}), seen()), "{key}");
        assert_eq!(
            lands(Kind::Deployment, &json!({}), seen(), Moment::Later),
            passes,
            "{key}"
        );
    }
}

#[test]
fn pods_of_a_daemonset_tolerate_what_its_controller_adds() {
    for (key, effect, on_host, expected) in [
        ("node.kubernetes.io/not-ready", "NoExecute", false, true),
        ("node.kubernetes.io/not-ready", "NoSchedule", false, false),
        ("node.kubernetes.io/unreachable", "NoExecute", false, true),
        (
            "node.kubernetes.io/disk-pressure",
            "NoSchedule",
            false,
            true,
        ),
        (
            "node.kubernetes.io/memory-pressure",
            "NoSchedule",
            false,
            true,
        ),
        ("node.kubernetes.io/pid-pressure", "NoSchedule", false, true),
        (
            "node.kubernetes.io/unschedulable",
            "NoSchedule",
            false,
            true,
        ),
        (
            "node.kubernetes.io/network-unavailable",
            "NoSchedule",
            false,
            false,
        ),
        (
            "node.kubernetes.io/network-unavailable",
            "NoSchedule",
            true,
            true,
        ),
        (
            "node-role.kubernetes.io/control-plane",
            "NoSchedule",
            false,
            false,
        ),
    ] {
        let spec = json!({"hostNetwork": on_host});
        let seen = || node(&[], &[(key, "", effect)], false);
        let daemon = lands(Kind::DaemonSet, &spec, seen(), Moment::Now);
        assert_eq!(daemon, expected, "{key} {effect} {on_host}");
        for kind in [Kind::Deployment, Kind::StatefulSet] {
            assert!(!lands(kind, &spec, seen(), Moment::Now), "{kind} {key}");
        }
    }
    let cordoned = node(&[], &[], true);
    assert!(lands(Kind::DaemonSet, &json!({}), cordoned, Moment::Now));
}

#[test]
fn a_pod_that_names_its_node_passes_the_scheduler_by() {
    let pinned = json!({"nodeName": "n1"});
    let tainted = |effect| node(&[], &[("x", "", effect)], true);
    assert!(deployed(&pinned, tainted("NoSchedule")));
    assert!(!deployed(&pinned, tainted("NoExecute")));
    assert!(!deployed(&json!({"nodeName": "n2"}), node(&[], &[], false)));
    assert!(deployed(&json!({"nodeName": ""}), node(&[], &[], false)));
    // The kubelet still turns away what its labels do not admit.
    let elsewhere = json!({"nodeName": "n1", "nodeSelector": {"zone": "a"}});
    assert!(!deployed(&elsewhere, node(&[("zone", "b")], &[], false)));
}
