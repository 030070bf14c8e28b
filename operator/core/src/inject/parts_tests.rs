//! Libraries that come beside the application: what is written, what is in the way, what its owner may do to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::parts::{check_nodes, check_parts};
use super::tests::{allocator, apply, id, workload};
use super::{Presence, inject, presence, restored, undo};
use crate::decision::Reason;
use crate::names::{Claim, ClusterUid, PlanHash};
use crate::plan::{Allocator, Delivery, Mounted};
use crate::world::{ClusterView, Node, Workload};

const IMAGE: &str = "registry.example/jemalloc@sha256:0123";

fn mounted() -> Mounted {
    Mounted {
        image: IMAGE.to_owned(),
        mount_path: "/opt/heapfleet".to_owned(),
        path: "lib/libjemalloc.so.2".to_owned(),
    }
}

pub(super) fn with(delivery: Delivery) -> Allocator {
    Allocator {
        delivery,
        options: BTreeMap::new(),
        env: Vec::new(),
        ..allocator()
    }
}

pub(super) fn volume() -> Allocator {
    with(Delivery::PreloadImageVolume(mounted()))
}

pub(super) fn copy() -> Allocator {
    with(Delivery::PreloadInitCopy(mounted()))
}

pub(super) fn change(before: &Workload, allocator: &Allocator) -> super::Injection {
    let (claim, plan) = (Claim::new("hub/policy"), PlanHash::new("v1-1"));
    inject(&id(), before, "server", allocator, None, &claim, &plan, 1).unwrap()
}

pub(super) fn of_pod(pod: &Value) -> Workload {
    let mut seen = workload(&json!([]), None);
    seen.template["spec"] = pod.clone();
    seen
}

#[test]
fn an_image_is_mounted_read_only_and_preloaded_from_there() {
    let before = of_pod(&json!({"containers": [{"name": "side"}, {"name": "server"}]}));
    let record = change(&before, &volume()).record;
    let after = apply(&before, &record.patch).unwrap();
    assert_eq!(
        after.template["spec"],
        json!({
            "containers": [{"name": "side"}, {
                "name": "server",
                "env": [{"name": "LD_PRELOAD", "value": "/opt/heapfleet/lib/libjemalloc.so.2"}],
                "volumeMounts": [{"name": "heapfleet-allocator", "mountPath": "/opt/heapfleet", "readOnly": true}],
            }],
            "volumes": [{"name": "heapfleet-allocator", "image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"}}],
        })
    );
}

#[test]
fn a_copy_is_made_by_a_restricted_init_container_with_resources() {
    let before = of_pod(&json!({
        "containers": [{"name": "server", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "first"}],
    }));
    let record = change(&before, &copy()).record;
    let after = apply(&before, &record.patch).unwrap();
    let spec = &after.template["spec"];
    assert_eq!(
        spec["volumes"],
        json!([{"name": "heapfleet-allocator", "emptyDir": {"sizeLimit": "32Mi"}}])
    );
    assert_eq!(spec["initContainers"][0], json!({"name": "first"}));
    let copies = &spec["initContainers"][1];
    assert_eq!(copies["name"], "heapfleet-copy");
    assert_eq!(copies["image"], IMAGE);
    assert_eq!(copies["command"][4], "/lib/libjemalloc.so.2");
    assert_eq!(copies["command"][5], "/heapfleet-out/lib/libjemalloc.so.2");
    assert_eq!(
        copies["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    assert_eq!(
        copies["resources"],
        json!({"limits": {"memory": "64Mi"}, "requests": {"cpu": "10m", "memory": "16Mi"}})
    );
    // Kubernetes would put the value of a variable in the place of a reference to it.
    assert!(!copies["command"].to_string().contains("$("));
}

#[test]
fn the_quality_of_service_stays_what_it_is() {
    let limits = json!({"limits": {"cpu": "2", "memory": "8Gi"}});
    let equal =
        json!({"limits": {"cpu": "2", "memory": "8Gi"}, "requests": {"cpu": "2", "memory": "8Gi"}});
    let burst = json!({"requests": {"memory": "8Gi"}});
    let of = |all: &[&Value]| {
        let containers: Vec<Value> = all
            .iter()
            .enumerate()
            .map(|(i, resources)| {
                let name = if i == 0 {
                    "server".to_owned()
                } else {
                    i.to_string()
                };
                json!({"name": name, "resources": resources})
            })
            .collect();
        let record = change(&of_pod(&json!({"containers": containers})), &copy()).record;
        let init = record.parts[1].value["resources"].clone();
        (init.get("limits").cloned(), init.get("requests").cloned())
    };
    let small = json!({"cpu": "100m", "memory": "64Mi"});
    let guaranteed = (Some(small.clone()), Some(small));
    let burstable = (
        Some(json!({"memory": "64Mi"})),
        Some(json!({"cpu": "10m", "memory": "16Mi"})),
    );
    assert_eq!(of(&[&json!({}), &json!({})]), (None, None), "best effort");
    assert_eq!(of(&[&limits, &equal]), guaranteed);
    assert_eq!(of(&[&equal, &burst]), burstable);
    let memory = json!({"limits": {"memory": "8Gi"}, "requests": {"cpu": "2", "memory": "8Gi"}});
    assert_eq!(of(&[&memory]), burstable, "the processor is not bounded");
    assert_eq!(of(&[&equal, &json!({})]), burstable);
}

#[test]
fn the_user_of_the_pod_copies_where_there_is_one() {
    for (pod, expected) in [
        (json!({"runAsUser": 1000}), None),
        (json!({"runAsUser": 0}), Some(65_532)),
        (json!({}), Some(65_532)),
    ] {
        let spec = json!({"containers": [{"name": "server"}], "securityContext": pod});
        let record = change(&of_pod(&spec), &copy()).record;
        let user = record.parts[1].value["securityContext"].get("runAsUser");
        assert_eq!(user.and_then(Value::as_u64), expected, "{pod}");
    }
}

#[test]
fn a_name_or_path_that_is_taken_is_a_conflict() {
    let server = |extra: Value| {
        let mut container = json!({"name": "server"});
        container["volumeMounts"] = extra;
        json!({"containers": [container]})
    };
    let mount = |path: &str| server(json!([{"name": "x", "mountPath": path}]));
    let one = json!([{"name": "server"}]);
    let cases = [
        (
            json!({"containers": one, "volumes": [{"name": "heapfleet-allocator"}]}),
            "a volume heapfleet-allocator already",
        ),
        (
            json!({"containers": one, "initContainers": [{"name": "heapfleet-copy"}]}),
            "a container heapfleet-copy already",
        ),
        (
            json!({"containers": [{"name": "server"}, {"name": "heapfleet-copy"}]}),
            "a container heapfleet-copy already",
        ),
        (
            mount("/opt/heapfleet"),
            "mounts /opt/heapfleet, which overlaps /opt/heapfleet",
        ),
        (
            mount("/opt/heapfleet/"),
            "mounts /opt/heapfleet/, which overlaps",
        ),
        (
            mount("/opt/heapfleet/lib"),
            "mounts /opt/heapfleet/lib, which overlaps",
        ),
        (mount("/opt"), "mounts /opt, which overlaps"),
        (
            json!({"containers": [{"name": "server", "volumeDevices": [{"name": "x", "devicePath": "/opt/heapfleet"}]}]}),
            "mounts /opt/heapfleet",
        ),
    ];
    for (spec, says) in cases {
        for allocator in [volume(), copy()] {
            let template = json!({"spec": spec});
            let refused = check_parts(&id(), "server", &template, &allocator).unwrap_err();
            assert_eq!(refused.reason, Reason::InjectionConflict);
            assert!(refused.message.contains(says), "{}", refused.message);
            assert!(
                refused.message.starts_with("Deployment/server"),
                "{}",
                refused.message
            );
        }
        // A library in the image needs none of it.
        assert_eq!(
            check_parts(&id(), "server", &json!({"spec": spec}), &allocator()),
            Ok(())
        );
    }
    for spec in [mount("/opt/heapfleets"), mount("/op"), mount("/data")] {
        assert_eq!(
            check_parts(&id(), "server", &json!({"spec": spec}), &volume()),
            Ok(())
        );
    }
}

#[test]
fn nodes_have_to_mount_images() {
    let check = |runtime: &str, kubelet: &str, allocator: &Allocator| {
        let node = Node {
            arch: "amd64".to_owned(),
            page_size_label: None,
            kernel: "6.1".to_owned(),
            runtime: runtime.to_owned(),
            kubelet: kubelet.to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
        };
        let cluster = ClusterView {
            uid: ClusterUid::new("c"),
            namespace_opted_in: true,
            nodes: BTreeMap::from([("n".to_owned(), node)]),
            workloads: BTreeMap::new(),
        };
        check_nodes(&id(), &cluster, allocator).map_err(|refused| refused.reason)
    };
    for (runtime, kubelet) in [
        ("containerd://2.1.0", "v1.34.0"),
        ("containerd://2.2.1-k3s1", "v1.36.3+k3s1"),
        ("cri-o://1.31.0", "v1.35.0"),
    ] {
        assert_eq!(check(runtime, kubelet, &volume()), Ok(()));
    }
    for (runtime, kubelet) in [
        ("containerd://1.7.27", "v1.36.3"),
        ("containerd://2.0.5", "v1.36.3"),
        ("cri-o://1.30.9", "v1.36.3"),
        ("docker://29.0.0", "v1.36.3"),
        ("containerd://2.1.0", "v1.33.4"),
        ("", "v1.36.3"),
        ("containerd://2.1.0", ""),
    ] {
        assert_eq!(
            check(runtime, kubelet, &volume()),
            Err(Reason::ImageVolumeUnsupported),
            "{runtime} {kubelet}"
        );
        assert_eq!(check(runtime, kubelet, &copy()), Ok(()));
    }
}

#[test]
fn what_the_owner_did_to_a_part_is_told_apart() {
    let before = of_pod(&json!({"containers": [{"name": "server"}], "volumes": [{"name": "v"}]}));
    let record = change(&before, &copy()).record;
    let after = apply(&before, &record.patch).unwrap();
    let edit = |edit: &dyn Fn(&mut Value)| {
        let mut edited = after.clone();
        edit(&mut edited.template["spec"]);
        edited
    };
    let sees = |pod: &Workload| presence(pod, &record);
    assert_eq!(sees(&after), Presence::Present);
    let filled = edit(&|spec| spec["initContainers"][0]["newField"] = json!("default"));
    assert_eq!(
        sees(&filled),
        Presence::Present,
        "a newer API server fills in more"
    );
    let back = apply(&filled, &undo(&filled, &record).unwrap()).unwrap();
    assert_eq!(back.template, before.template);
    let bigger = edit(&|spec| spec["volumes"][1]["emptyDir"]["sizeLimit"] = json!("1Gi"));
    assert_eq!(
        sees(&bigger),
        Presence::Taken("volume heapfleet-allocator".to_owned())
    );
    let back = apply(&bigger, &undo(&bigger, &record).unwrap()).unwrap();
    assert_eq!(
        back.template["spec"]["volumes"], bigger.template["spec"]["volumes"],
        "it is the owner's now"
    );
    assert!(back.template["spec"].get("initContainers").is_none());
    let gone = edit(&|spec| spec["initContainers"] = json!([]));
    assert_eq!(
        sees(&gone),
        Presence::Taken("init container heapfleet-copy".to_owned())
    );
    let reverted = Workload {
        template: before.template,
        ..after.clone()
    };
    assert_eq!(sees(&reverted), Presence::Reverted);
    // Without the volume another container's mount of it would not be valid.
    let shared = edit(&|spec| {
        spec["containers"].as_array_mut().unwrap().push(
            json!({"name": "other", "volumeMounts": [{"name": "heapfleet-allocator", "mountPath": "/x"}]}),
        );
    });
    let blocked = undo(&shared, &record).unwrap_err();
    assert!(
        blocked.because.contains("container other"),
        "{}",
        blocked.because
    );
    // The container went, and its mount with it: the rest goes all the same.
    let refactored = edit(&|spec| spec["containers"] = json!([{"name": "new"}]));
    let back = apply(&refactored, &undo(&refactored, &record).unwrap()).unwrap();
    assert_eq!(
        back.template["spec"],
        json!({"containers": [{"name": "new"}], "volumes": [{"name": "v"}]})
    );
    let kept = Workload {
        annotations: None,
        ..after.clone()
    };
    assert!(restored(&kept, &record).is_err());
}
