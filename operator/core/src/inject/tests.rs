//! Tables over injection, undo, presence and refusals.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    CLAIM, Injection, Presence, Restored, eligible, inject, presence, restored, template_hash,
    undo, wanted_env,
};
use crate::decision::Reason;
use crate::names::{Claim, ClusterUid, Kind, PlanHash, WorkloadId};
use crate::plan::{Allocator, Delivery, OnExisting, Platform, Target};
use crate::world::{ClusterView, Node, Revision, Update, Workload};

pub(super) fn id() -> WorkloadId {
    WorkloadId {
        kind: Kind::Deployment,
        name: "server".to_owned(),
    }
}

pub(super) fn allocator() -> Allocator {
    Allocator {
        class: "jemalloc".to_owned(),
        name: "jemalloc".to_owned(),
        delivery: Delivery::PreloadInImage {
            path: "libjemalloc.so.2".to_owned(),
        },
        on_existing: OnExisting::Prepend,
        options: BTreeMap::from([
            ("background_thread".to_owned(), "true".to_owned()),
            ("dirty_decay_ms".to_owned(), "5000".to_owned()),
        ]),
        env: vec![("DYN_JEMALLOC".to_owned(), "1".to_owned())],
        platforms: vec![Platform {
            arch: "amd64".to_owned(),
            max_page_size: 4096,
        }],
        symbol_prefix: String::new(),
        images: Vec::new(),
    }
}

pub(super) fn workload(containers: &Value, annotations: Option<&[(&str, &str)]>) -> Workload {
    Workload {
        uid: "uid".to_owned(),
        generation: 3,
        annotations: annotations.map(|all| {
            all.iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        }),
        managed_entry: None,
        template: json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}),
        replicas: 2,
        paused: false,
        deleting: false,
        settled: true,
        progress: 2,
        max_unavailable: 0,
        update: Update::Rolling,
        controller: None,
        older_policy: None,
        revision: Some(Revision {
            name: "server-1".to_owned(),
            hash: "1".to_owned(),
        }),
        journals: Vec::new(),
        pods: Vec::new(),
    }
}

pub(super) fn object(workload: &Workload) -> Value {
    let mut object = json!({
        "metadata": {"uid": workload.uid, "generation": workload.generation},
        "spec": {"template": workload.template},
    });
    if let Some(annotations) = &workload.annotations {
        object["metadata"]["annotations"] = json!(annotations);
    }
    object
}

pub(super) fn apply(workload: &Workload, ops: &[Value]) -> Option<Workload> {
    let after = super::apply(&object(workload), ops)?;
    Some(Workload {
        generation: workload.generation + 1,
        template: after["spec"]["template"].clone(),
        annotations: after["metadata"]
            .get("annotations")
            .map(|all| serde_json::from_value(all.clone()).unwrap()),
        ..workload.clone()
    })
}

pub(super) fn change(workload: &Workload) -> Injection {
    let (claim, plan) = (Claim::new("hub/policy"), PlanHash::new("v1-1"));
    let allocator = allocator();
    inject(
        &id(),
        workload,
        "server",
        &allocator,
        None,
        &claim,
        &plan,
        1,
    )
    .unwrap()
}

#[test]
fn every_shape_of_a_template_comes_back_to_the_byte() {
    let shapes = [
        (json!([{"name": "server", "image": "a"}]), None),
        (
            json!([{"name": "server", "image": "a"}]),
            Some(&[("x", "y")][..]),
        ),
        (json!([{"name": "server", "env": []}]), Some(&[][..])),
        (
            json!([{"name": "side"}, {"name": "server", "env": [{"name": "A", "value": "1"}]}]),
            None,
        ),
        (
            json!([{"name": "server", "env": [{"name": "A"}, {"name": "LD_PRELOAD", "value": "libnss_wrapper.so other.so"}, {"name": "B", "value": "2"}]}]),
            Some(&[("x", "y")][..]),
        ),
        (
            json!([{"name": "server", "env": [{"name": "LD_PRELOAD", "value": "a.so:b.so"}]}]),
            Some(&[("x", "y")][..]),
        ),
    ];
    for (containers, annotations) in shapes {
        let before = workload(&containers, annotations);
        let injection = change(&before);
        let after = apply(&before, &injection.record.patch).expect("the patch applies");
        assert_eq!(
            presence(&after, &injection.record),
            Presence::Present,
            "{containers}"
        );
        assert_ne!(
            template_hash(&after.template),
            injection.record.template_hash
        );
        assert!(
            apply(&after, &injection.record.patch).is_none(),
            "a repeat changes nothing"
        );
        let newer = Workload {
            generation: before.generation + 1,
            ..before.clone()
        };
        assert!(
            apply(&newer, &injection.record.patch).is_none(),
            "nor does a patch for another generation"
        );
        let back =
            apply(&after, &undo(&after, &injection.record).unwrap()).expect("the undo applies");
        assert_eq!(
            object(&back)["spec"],
            object(&before)["spec"],
            "{containers}"
        );
        assert_eq!(back.annotations, before.annotations, "{containers}");
        assert_eq!(presence(&back, &injection.record), Presence::Absent);
        assert_eq!(restored(&back, &injection.record), Ok(Restored::Exact));
        // The inverse that was journalled is the one that is sent, but for the tests of generation and claim.
        let sent = undo(&after, &injection.record).unwrap();
        assert_eq!(
            &sent[3..sent.len() - 1],
            injection.record.inverse.as_slice()
        );
    }
}

#[test]
fn values_are_those_of_the_build() {
    let before = workload(&json!([{"name": "server"}]), None);
    let after = apply(&before, &change(&before).record.patch).unwrap();
    let env = &after.template["spec"]["containers"][0]["env"];
    assert_eq!(
        *env,
        json!([
            {"name": "DYN_JEMALLOC", "value": "1"},
            {"name": "LD_PRELOAD", "value": "libjemalloc.so.2"},
            {"name": "MALLOC_CONF", "value": "background_thread:true,dirty_decay_ms:5000"},
        ])
    );
    let mut prefixed = allocator();
    prefixed.symbol_prefix = "_rjem_".to_owned();
    assert!(wanted_env(&prefixed).contains_key("_RJEM_MALLOC_CONF"));
    prefixed.name = "mimalloc".to_owned();
    assert!(wanted_env(&prefixed).contains_key("MIMALLOC_DIRTY_DECAY_MS"));
}

#[test]
fn an_existing_preload_keeps_its_order_and_separator() {
    for (prior, wanted) in [
        ("a.so b.so", "libjemalloc.so.2 a.so b.so"),
        ("a.so", "libjemalloc.so.2:a.so"),
        ("", "libjemalloc.so.2"),
    ] {
        let before = workload(
            &json!([{"name": "server", "env": [{"name": "LD_PRELOAD", "value": prior}]}]),
            None,
        );
        let write = change(&before)
            .record
            .env
            .into_iter()
            .find(|write| write.name == "LD_PRELOAD")
            .unwrap();
        assert_eq!(write.value, wanted);
        assert_eq!(write.prior.as_deref(), Some(prior));
    }
}

#[test]
fn what_the_owner_did_meanwhile_is_told_apart() {
    let before = workload(
        &json!([{"name": "server", "env": [{"name": "A", "value": "1"}]}]),
        Some(&[("x", "y")]),
    );
    let record = change(&before).record;
    let after = apply(&before, &record.patch).unwrap();
    let edit = |edit: &dyn Fn(&mut Workload)| {
        let mut edited = after.clone();
        edit(&mut edited);
        presence(&edited, &record)
    };
    assert_eq!(
        edit(&|w| w.template = before.template.clone()),
        Presence::Reverted
    );
    assert_eq!(
        edit(&|w| {
            w.template = before.template.clone();
            w.annotations = before.annotations.clone();
        }),
        Presence::Absent
    );
    assert_eq!(
        edit(&|w| w.template["spec"]["containers"][0]["env"][2]["value"] = json!("mine")),
        Presence::Taken("LD_PRELOAD".to_owned())
    );
    assert_eq!(
        edit(&|w| {
            w.annotations = Some(BTreeMap::from([(CLAIM.to_owned(), "other".to_owned())]));
        }),
        Presence::Foreign("other".to_owned())
    );
    assert_eq!(
        edit(&|w| w.template["spec"]["containers"][0]["image"] = json!("new")),
        Presence::Present
    );
}

#[test]
fn an_undo_leaves_what_the_owner_changed() {
    let before = workload(&json!([{"name": "server"}]), Some(&[("x", "y")]));
    let record = change(&before).record;
    let mut after = apply(&before, &record.patch).unwrap();
    after.template["spec"]["containers"][0]["image"] = json!("new");
    after.template["spec"]["containers"][0]["env"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "NEW", "value": "1"}));
    let back = apply(&after, &undo(&after, &record).unwrap()).unwrap();
    assert_eq!(
        back.template["spec"]["containers"][0],
        json!({"name": "server", "image": "new", "env": [{"name": "NEW", "value": "1"}]})
    );
    assert_eq!(restored(&back, &record), Ok(Restored::OnNewerTemplate));
    let mut renamed = after.clone();
    renamed.template["spec"]["containers"][0]["name"] = json!("renamed");
    assert!(
        apply(&renamed, &undo(&renamed, &record).unwrap()).is_some(),
        "a container that went is no obstacle"
    );
    let mut recreated = after;
    recreated.uid = "another".to_owned();
    assert!(undo(&recreated, &record).is_err());
}

#[test]
fn another_revision_with_the_old_template_is_no_proof() {
    let before = workload(&json!([{"name": "server"}]), Some(&[("x", "y")]));
    let record = change(&before).record;
    let mut back = before.clone();
    back.revision = Some(Revision {
        name: "server-2".to_owned(),
        hash: "2".to_owned(),
    });
    assert!(restored(&back, &record).is_err());
    assert_eq!(restored(&before, &record), Ok(Restored::Exact));
}

#[test]
#[expect(
    clippy::too_many_lines,
    clippy::cognitive_complexity,
    reason = "one table"
)]
fn refusals_have_one_reason() {
    let node = |arch: &str, kernel: &str, label: Option<u64>| Node {
        arch: arch.to_owned(),
        kernel: kernel.to_owned(),
        runtime: String::new(),
        kubelet: String::new(),
        page_size_label: label,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
    };
    let target = |containers: &[&str]| Target {
        kinds: vec![Kind::Deployment],
        selector: "app=x".to_owned(),
        containers: containers.iter().map(|name| (*name).to_owned()).collect(),
        exclude: Vec::new(),
    };
    let check = |containers: Value,
                 nodes: Vec<Node>,
                 target: &Target,
                 allocator: &Allocator,
                 claimed: Option<&str>| {
        let annotations: Vec<(&str, &str)> =
            claimed.map(|claim| (CLAIM, claim)).into_iter().collect();
        let cluster = ClusterView {
            uid: ClusterUid::new("c"),
            namespace_opted_in: true,
            nodes: nodes
                .into_iter()
                .enumerate()
                .map(|(i, node)| (i.to_string(), node))
                .collect(),
            workloads: BTreeMap::new(),
        };
        let seen = workload(&containers, Some(&annotations));
        eligible(
            &id(),
            &seen,
            &cluster,
            target,
            allocator,
            &Claim::new("hub/policy"),
        )
        .map_err(|refused| refused.reason)
    };
    let good = || vec![node("amd64", "6.1", None)];
    let one = || json!([{"name": "server"}]);
    let plain = allocator();
    assert_eq!(
        check(one(), good(), &target(&[]), &plain, None),
        Ok("server".to_owned())
    );
    assert_eq!(
        check(
            json!([{"name": "a"}, {"name": "server"}]),
            good(),
            &target(&[]),
            &plain,
            None
        ),
        Ok("server".to_owned())
    );
    assert_eq!(
        check(
            json!([{"name": "a"}, {"name": "b"}]),
            good(),
            &target(&[]),
            &plain,
            None
        ),
        Err(Reason::AmbiguousContainer)
    );
    assert_eq!(
        check(
            json!([{"name": "a"}, {"name": "b"}]),
            good(),
            &target(&["b"]),
            &plain,
            None
        ),
        Ok("b".to_owned())
    );
    assert_eq!(
        check(one(), good(), &target(&["c"]), &plain, None),
        Err(Reason::ContainerNotFound)
    );
    assert_eq!(
        check(one(), good(), &target(&[]), &plain, Some("other")),
        Err(Reason::InjectionConflict)
    );
    assert_eq!(
        check(one(), vec![], &target(&[]), &plain, None),
        Err(Reason::PageSizeUnknown)
    );
    assert_eq!(
        check(
            one(),
            vec![node("arm64", "6.1", None)],
            &target(&[]),
            &plain,
            None
        ),
        Err(Reason::PageSizeUnknown)
    );
    assert_eq!(
        check(
            one(),
            vec![node("arm64", "6.1+64k", None)],
            &target(&[]),
            &plain,
            None
        ),
        Err(Reason::PageSizeUnsupported)
    );
    assert_eq!(
        check(
            one(),
            vec![node("amd64", "6.1", Some(65536))],
            &target(&[]),
            &plain,
            None
        ),
        Err(Reason::PageSizeUnsupported)
    );
    let env = |entry: Value| json!([{"name": "server", "env": [entry]}]);
    let from = json!({"name": "LD_PRELOAD", "valueFrom": {"fieldRef": {"fieldPath": "x"}}});
    assert_eq!(
        check(env(from), good(), &target(&[]), &plain, None),
        Err(Reason::VariableFromSource)
    );
    let mimalloc = json!({"name": "LD_PRELOAD", "value": "libmimalloc.so"});
    assert_eq!(
        check(env(mimalloc), good(), &target(&[]), &plain, None),
        Err(Reason::InjectionConflict)
    );
    let other = || json!({"name": "LD_PRELOAD", "value": "libx.so"});
    assert_eq!(
        check(env(other()), good(), &target(&[]), &plain, None),
        Ok("server".to_owned())
    );
    let skip = Allocator {
        on_existing: OnExisting::Skip,
        ..allocator()
    };
    assert_eq!(
        check(env(other()), good(), &target(&[]), &skip, None),
        Err(Reason::PreloadAlreadySet)
    );
    let conf = json!({"name": "MALLOC_CONF", "value": "narenas:1"});
    assert_eq!(
        check(env(conf), good(), &target(&[]), &plain, None),
        Err(Reason::InjectionConflict)
    );
    let unsupported = Allocator {
        delivery: Delivery::Unsupported {
            name: "ImageVolume".to_owned(),
        },
        ..allocator()
    };
    assert_eq!(
        check(one(), good(), &target(&[]), &unsupported, None),
        Err(Reason::DeliveryUnsupported)
    );
}
