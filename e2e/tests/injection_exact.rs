//! A real API server and its controllers: what every delivery writes into a template is accepted as it is written, and what
//! is undone is the template as it was, byte for byte, on the same revision.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panic"
)]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use heapfleet_core::inject::{Presence, Restored, inject, presence, restored, undo};
use heapfleet_core::names::{Claim, Kind, PlanHash, WorkloadId};
use heapfleet_core::plan::{Allocator, Delivery, Mounted, OnExisting};
use heapfleet_core::world::{Revision, Update, Workload};
use heapfleet_e2e::lab::{Config, Lab};
use serde_json::{Value, json};

mod common;

const REGION: &str = "ore";
const LIMIT: Duration = Duration::from_secs(30);

fn deliveries() -> [(&'static str, Delivery); 5] {
    let mounted = || Mounted {
        image: format!("registry.example/jemalloc@sha256:{}", "0".repeat(64)),
        mount_path: "/opt/heapfleet".to_owned(),
        path: "lib/libjemalloc.so.2".to_owned(),
    };
    let path = "libjemalloc.so.2".to_owned();
    [
        ("in-image", Delivery::PreloadInImage { path }),
        ("image-volume", Delivery::PreloadImageVolume(mounted())),
        ("init-copy", Delivery::PreloadInitCopy(mounted())),
        ("linked", Delivery::Linked),
        ("tunables", Delivery::Tunables),
    ]
}

fn allocator(delivery: Delivery) -> Allocator {
    let (name, option, value) = if delivery == Delivery::Tunables {
        ("glibc", "glibc.malloc.arena_max", "2")
    } else {
        ("jemalloc", "background_thread", "true")
    };
    Allocator {
        images: Vec::new(),
        class: "class".to_owned(),
        name: name.to_owned(),
        delivery,
        on_existing: OnExisting::Prepend,
        options: BTreeMap::from([(option.to_owned(), value.to_owned())]),
        env: Vec::new(),
        platforms: Vec::new(),
        symbol_prefix: String::new(),
    }
}

/// Pod specs: bare, and with everything that a change adds to.
fn pods() -> [(&'static str, Value); 2] {
    let bare = json!({"containers": [{"name": "server", "image": "app:1"}]});
    let full = json!({
        "containers": [{"name": "side", "image": "side:1"}, {
            "name": "server",
            "image": "app:1",
            "env": [{"name": "A", "value": "1"}, {"name": "LD_PRELOAD", "value": "libx.so liby.so"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "resources": {"requests": {"cpu": "10m"}},
        }],
        "initContainers": [{"name": "first", "image": "init:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    [("bare", bare), ("full", full)]
}

fn manifest(kind: Kind, name: &str, pod: &Value) -> Value {
    let labels = json!({"app": name});
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind.to_string(), "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    if kind == Kind::StatefulSet {
        object["spec"]["serviceName"] = json!(name);
    }
    object
}

fn get(lab: &Lab, what: &[&str]) -> Value {
    let args: Vec<&str> = ["get", "-o", "json"].iter().chain(what).copied().collect();
    serde_json::from_str(&lab.kubectl_ok(REGION, &args).unwrap()).unwrap()
}

/// The revision that the controller works towards, by its name; `None`: it has not caught up.
fn revision(lab: &Lab, kind: Kind, raw: &Value) -> Option<String> {
    let status = raw.get("status")?;
    if status.get("observedGeneration") != raw["metadata"].get("generation") {
        return None;
    }
    let app = format!("app={}", raw["metadata"]["name"].as_str()?);
    let newest = |all: &Value, number: &dyn Fn(&Value) -> Option<u64>| {
        let items = all["items"].as_array()?;
        let newest = items.iter().max_by_key(|item| number(item))?;
        Some(newest["metadata"]["name"].as_str()?.to_owned())
    };
    match kind {
        Kind::StatefulSet => Some(status["updateRevision"].as_str()?.to_owned()),
        Kind::DaemonSet => newest(&get(lab, &["controllerrevisions", "-l", &app]), &|item| {
            item["revision"].as_u64()
        }),
        Kind::Deployment => newest(&get(lab, &["replicasets", "-l", &app]), &|item| {
            let of = &item["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
            of.as_str()?.parse().ok()
        }),
    }
}

/// The workload as the API server has it once its controller has caught up.
fn look(lab: &Lab, kind: Kind, name: &str) -> Workload {
    let begun = Instant::now();
    loop {
        let raw = get(lab, &[&kind.to_string(), name]);
        if let Some(revision) = revision(lab, kind, &raw) {
            return Workload {
                uid: raw["metadata"]["uid"].as_str().unwrap().to_owned(),
                generation: raw["metadata"]["generation"].as_i64().unwrap(),
                annotations: raw["metadata"]
                    .get("annotations")
                    .map(|all| serde_json::from_value(all.clone()).unwrap()),
                managed_entry: None,
                template: raw["spec"]["template"].clone(),
                replicas: 1,
                paused: false,
                deleting: false,
                settled: true,
                progress: 0,
                max_unavailable: 0,
                update: Update::Rolling,
                controller: None,
                older_policy: None,
                revision: Some(Revision {
                    hash: revision.clone(),
                    name: revision,
                }),
                journals: Vec::new(),
                pods: Vec::new(),
            };
        }
        assert!(
            begun.elapsed() < LIMIT,
            "{kind}/{name} was not observed: {raw}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Sends a JSON patch; gives what the API server said against it.
fn patch(lab: &Lab, kind: Kind, name: &str, ops: &[Value]) -> Result<(), String> {
    let ops = Value::from(ops.to_vec()).to_string();
    let kind = kind.to_string();
    let args = ["patch", &kind, name, "--type=json", "--patch", &ops];
    let output = lab
        .kubectl(REGION, &args)
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// One change and its undo.
fn there_and_back(lab: &Lab, kind: Kind, name: &str, allocator: &Allocator) {
    let id = WorkloadId {
        kind,
        name: name.to_owned(),
    };
    let before = look(lab, kind, name);
    let (claim, plan) = (Claim::new("hub/policy"), PlanHash::new("v1-1"));
    let record = inject(&id, &before, "server", allocator, None, &claim, &plan, 1)
        .unwrap()
        .record;
    patch(lab, kind, name, &record.patch).unwrap();
    let after = look(lab, kind, name);
    assert_eq!(
        presence(&after, &record),
        Presence::Present,
        "{id}: {}",
        after.template
    );
    assert_ne!(after.revision, before.revision, "{id}");
    for part in &record.parts {
        let text = after.template.to_string();
        assert!(
            text.contains(&part.value.to_string()),
            "{id}: {} reads back otherwise: {text}",
            part.value
        );
    }
    let again = patch(lab, kind, name, &record.patch);
    assert!(again.is_err(), "{id}: a repeat changes nothing");
    patch(lab, kind, name, &undo(&after, &record).unwrap()).unwrap();
    let back = look(lab, kind, name);
    assert_eq!(
        back.template.to_string(),
        before.template.to_string(),
        "{id}"
    );
    // What the controllers count themselves goes on.
    let unnumbered = |workload: &Workload| {
        let mut all = workload.annotations.clone().unwrap_or_default();
        all.remove("deployment.kubernetes.io/revision");
        all.remove("deprecated.daemonset.template.generation");
        all
    };
    assert_eq!(unnumbered(&back), unnumbered(&before), "{id}");
    assert_eq!(restored(&back, &record), Ok(Restored::Exact), "{id}");
}

#[test]
fn every_delivery_is_accepted_and_undone_exactly_by_a_real_api_server() {
    let _turn = common::turn();
    let lab = Lab::up(&Config::planes(common::fresh_root("injection"))).unwrap();
    for kind in Kind::ALL {
        for (shape, pod) in pods() {
            let name = format!("{}-{shape}", kind.to_string().to_lowercase());
            lab.apply(REGION, &manifest(kind, &name, &pod).to_string())
                .unwrap();
            for (delivery, how) in deliveries() {
                eprintln!("{name}: {delivery}");
                there_and_back(&lab, kind, &name, &allocator(how));
            }
        }
    }
    lab.down().unwrap();
}
