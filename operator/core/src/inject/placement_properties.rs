//! Where pods may land: what must hold for any template and any nodes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::placement::{Moment, landing};
use super::placement_tests::required;
use crate::names::Kind;
use crate::world::{Node, Taint};

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "c", "1", "2", "3"]).prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b",
        "c",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
    ])
    .prop_map(str::to_owned)
}

fn effect() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["NoSchedule", "NoExecute", "PreferNoSchedule"])
        .prop_map(str::to_owned)
}

prop_compose! {
    fn any_node()(
        labels in prop::collection::btree_map(key(), word(), 0..4),
        taints in prop::collection::vec((key(), word(), effect()), 0..3),
        unschedulable in any::<bool>(),
    ) -> Node {
        Node {
            arch: "amd64".to_owned(),
            page_size_label: None,
            kernel: String::new(),
            runtime: String::new(),
            kubelet: String::new(),
            labels,
            taints: taints.into_iter().map(|(key, value, effect)| Taint { key, value, effect }).collect(),
            unschedulable,
        }
    }
}

fn any_requirement() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(vec![
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "Gt",
        "Lt",
        "?",
    ]);
    (key(), operator, prop::collection::vec(word(), 0..3)).prop_map(
        |(key, operator, values)| json!({"key": key, "operator": operator, "values": values}),
    )
}

fn any_toleration() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(vec!["", "Exists", "Equal", "Gt", "Lt", "?"]);
    let effect = prop::option::of(effect());
    (prop::option::of(key()), operator, word(), effect).prop_map(
        |(key, operator, value, effect)| {
            let mut toleration = json!({"operator": operator, "value": value});
            if let Some(key) = key {
                toleration["key"] = json!(key);
            }
            if let Some(effect) = effect {
                toleration["effect"] = json!(effect);
            }
            toleration
        },
    )
}

prop_compose! {
    fn any_spec()(
        selector in prop::collection::btree_map(key(), word(), 0..2),
        terms in prop::option::of(prop::collection::vec(prop::collection::vec(any_requirement(), 0..3), 0..3)),
        tolerations in prop::collection::vec(any_toleration(), 0..3),
        pinned in prop::option::weighted(0.2, prop::sample::select(vec!["n0", "n1", "elsewhere"])),
    ) -> Value {
        let mut spec = json!({"nodeSelector": selector, "tolerations": tolerations});
        if let Some(terms) = terms {
            let terms: Vec<Value> = terms.into_iter().map(|all| json!({"matchExpressions": all})).collect();
            spec["affinity"] = required(&json!(terms))["affinity"].clone();
        }
        if let Some(name) = pinned {
            spec["nodeName"] = json!(name);
        }
        spec
    }
}

fn any_nodes() -> impl Strategy<Value = BTreeMap<String, Node>> {
    prop::collection::vec(any_node(), 0..5).prop_map(|nodes| {
        let named = nodes.into_iter().enumerate();
        named.map(|(i, node)| (format!("n{i}"), node)).collect()
    })
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.to_vec())
}

fn names(kind: Kind, spec: &Value, nodes: &BTreeMap<String, Node>, moment: Moment) -> Vec<String> {
    let template = json!({"spec": spec});
    let landing = landing(kind, &template, nodes, moment);
    landing.into_keys().map(str::to_owned).collect()
}

fn within(inner: &[String], outer: &[String]) -> bool {
    inner.iter().all(|name| outer.contains(name))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn another_toleration_never_removes_a_node(kind in any_kind(), spec in any_spec(), more in any_toleration(), nodes in any_nodes()) {
        for moment in [Moment::Now, Moment::Later] {
            let before = names(kind, &spec, &nodes, moment);
            let mut wider = spec.clone();
            wider["tolerations"].as_array_mut().unwrap().push(more.clone());
            prop_assert!(within(&before, &names(kind, &wider, &nodes, moment)));
        }
    }

    #[test]
    fn another_requirement_never_adds_a_node(kind in any_kind(), spec in any_spec(), more in any_requirement(), nodes in any_nodes()) {
        let before = names(kind, &spec, &nodes, Moment::Now);
        let mut narrower = spec;
        let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        match narrower.pointer_mut(path).and_then(Value::as_array_mut) {
            // A term without requirements holds nowhere, so that one in it would be its first and make it hold somewhere.
            Some(terms) => for term in terms.iter_mut().filter(|term| !term["matchExpressions"].as_array().unwrap().is_empty()) {
                term["matchExpressions"].as_array_mut().unwrap().push(more.clone());
            },
            None => narrower["affinity"] = required(&json!([{"matchExpressions": [more]}]))["affinity"].clone(),
        }
        prop_assert!(within(&names(kind, &narrower, &nodes, Moment::Now), &before));
    }

    #[test]
    fn another_term_never_removes_a_node(spec in any_spec(), more in any_requirement(), nodes in any_nodes()) {
        let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let before = names(Kind::Deployment, &spec, &nodes, Moment::Now);
        let mut wider = spec;
        if let Some(terms) = wider.pointer_mut(path).and_then(Value::as_array_mut) {
            terms.push(json!({"matchExpressions": [more]}));
        }
        prop_assert!(within(&before, &names(Kind::Deployment, &wider, &nodes, Moment::Now)));
    }

    #[test]
    fn another_label_to_select_never_adds_a_node(spec in any_spec(), key in key(), value in word(), nodes in any_nodes()) {
        let before = names(Kind::StatefulSet, &spec, &nodes, Moment::Now);
        prop_assume!(spec["nodeSelector"].get(&key).is_none());
        let mut narrower = spec;
        narrower["nodeSelector"][&key] = json!(value);
        prop_assert!(within(&names(Kind::StatefulSet, &narrower, &nodes, Moment::Now), &before));
    }

    #[test]
    fn what_may_land_now_may_land_later(kind in any_kind(), spec in any_spec(), nodes in any_nodes()) {
        let now = names(kind, &spec, &nodes, Moment::Now);
        prop_assert!(within(&now, &names(kind, &spec, &nodes, Moment::Later)));
    }

    #[test]
    fn each_node_is_decided_by_itself(kind in any_kind(), spec in any_spec(), nodes in any_nodes()) {
        let all = names(kind, &spec, &nodes, Moment::Now);
        for (name, node) in &nodes {
            let alone = BTreeMap::from([(name.clone(), node.clone())]);
            prop_assert_eq!(!names(kind, &spec, &alone, Moment::Now).is_empty(), all.contains(name));
        }
    }
}
