//! Two whole regions: containers run, are seen and measured, reach each other's API server, and faults can be made.
//! One test, since a start costs more than all it checks.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panic"
)]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use heapfleet_e2e::lab::{Config, Daemon, Lab, busybox_image, trace_images};
use serde_json::Value;

mod common;

const WORKLOAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: trace, namespace: default, labels: {app: trace}}
spec:
  replicas: 1
  selector: {matchLabels: {app: trace}}
  template:
    metadata:
      labels: {app: trace}
      annotations: {prometheus.io/scrape: "true", prometheus.io/port: "8080"}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: cache
          image: lab.local/trace-server:allocators
          imagePullPolicy: Never
          ports: [{containerPort: 8080}]
          env: [{name: LD_PRELOAD, value: libjemalloc.so.2}, {name: TRACE_CACHE, value: 8M}]
"#;

/// Looks until `look` is content, for at most `limit`.
fn eventually<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(
                begun.elapsed() < limit,
                "waited {limit:?} for {what}: {why}"
            ),
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// The series that a region's Prometheus gives for a query.
fn query(lab: &Lab, region: &str, query: &str) -> Result<Vec<Value>, String> {
    let text = lab
        .prometheus_get(region, &format!("/api/v1/query?query={query}"))
        .map_err(|e| e.to_string())?;
    let answer: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    answer["data"]["result"]
        .as_array()
        .cloned()
        .ok_or_else(|| answer.to_string())
}

fn pod_with_preload(lab: &Lab) {
    lab.apply("ore", WORKLOAD).unwrap();
    lab.kubectl_ok(
        "ore",
        &["rollout", "status", "deployment/trace", "--timeout=50s"],
    )
    .unwrap();
    let help = lab.kubectl_ok(
        "ore",
        &["exec", "deployment/trace", "--", "/trace-server", "--help"],
    );
    assert!(help.unwrap().contains("--cache"));
    let logs = lab.kubectl("ore", &["logs", "deployment/trace"]).unwrap();
    assert!(logs.status.success(), "{logs:?}");
    let said = String::from_utf8_lossy(&logs.stdout).into_owned();
    assert!(
        !said.contains("cannot be preloaded"),
        "the image lacks the allocator: {said}"
    );
}

fn scraped_with_labels(lab: &Lab) {
    let series = eventually("the workload's series", Duration::from_secs(30), || {
        query(lab, "ore", "up")
            .and_then(|found| found.first().cloned().ok_or_else(|| "none".to_owned()))
    });
    let labels = &series["metric"];
    for (name, value) in [
        ("region", "ore"),
        ("node", "ore-1"),
        ("namespace", "default"),
        ("container", "cache"),
    ] {
        assert_eq!(labels[name], value, "{labels}");
    }
    assert!(
        labels["pod"].as_str().unwrap().starts_with("trace-"),
        "{labels}"
    );
    let samples = eventually(
        "a rate of four scrapes a second",
        Duration::from_secs(20),
        || {
            let found = query(lab, "ore", "count_over_time(up[10s])")?;
            let count = found
                .first()
                .and_then(|s| s["value"][1].as_str())
                .unwrap_or_default()
                .to_owned();
            count
                .parse::<f64>()
                .ok()
                .filter(|n| *n >= 36.0)
                .ok_or_else(|| format!("{count} in 10 s"))
        },
    );
    assert!(samples <= 44.0, "{samples} scrapes in 10 s");
}

/// Whether a pod in `fra` can connect to the API server of `ore`.
fn reach_across(lab: &Lab, name: &str, limit: &str) -> bool {
    let from = r#"
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default}
spec:
  restartPolicy: Never
  containers:
    - {name: c, image: "lab.local/busybox:1", imagePullPolicy: Never,
       command: [/busybox, nc, -w, "LIMIT", 198.18.0.11, "6443", -e, /busybox, "true"]}
"#;
    lab.apply("fra", &from.replace("NAME", name).replace("LIMIT", limit))
        .unwrap();
    let phase = eventually("the end of the pod", Duration::from_secs(40), || {
        let phase = lab
            .kubectl_ok(
                "fra",
                &["get", "pod", name, "-o", "jsonpath={.status.phase}"],
            )
            .map_err(|e| e.to_string())?;
        if phase == "Succeeded" || phase == "Failed" {
            Ok(phase)
        } else {
            Err(phase)
        }
    });
    lab.kubectl_ok(
        "fra",
        &["delete", "pod", name, "--grace-period=0", "--force"],
    )
    .unwrap();
    phase == "Succeeded"
}

fn partitions_and_restarts(lab: &Lab) {
    assert!(
        reach_across(lab, "before", "5"),
        "a pod of fra does not reach the API server of ore"
    );
    lab.partition("ore", true).unwrap();
    assert!(
        !reach_across(lab, "during", "2"),
        "a pod of fra reaches ore through a partition"
    );
    lab.kubectl_ok("ore", &["get", "--raw", "/readyz"]).unwrap();
    lab.partition("ore", false).unwrap();
    assert!(
        reach_across(lab, "after", "10"),
        "a pod of fra does not reach ore after the partition"
    );

    lab.stop_prometheus("ore").unwrap();
    assert!(query(lab, "ore", "up").is_err());
    lab.start_prometheus("ore").unwrap();
    eventually(
        "the workload's series after a restart",
        Duration::from_secs(30),
        || {
            query(lab, "ore", "up")
                .and_then(|found| found.first().cloned().ok_or_else(|| "none".to_owned()))
        },
    );

    lab.stop_apiserver("ore").unwrap();
    assert!(
        !lab.kubectl("ore", &["get", "--raw", "/readyz"])
            .unwrap()
            .status
            .success()
    );
    assert_eq!(
        lab.status()
            .iter()
            .filter(|r| r.api_server == "ready")
            .count(),
        1
    );
    lab.start_apiserver("ore").unwrap();
    lab.kubectl_ok("ore", &["get", "pods"]).unwrap();
    lab.start("ore", Daemon::Kubelet).unwrap();
}

#[test]
fn two_regions_work_like_two_machines() {
    let _turn = common::turn();
    let mut images = trace_images(Path::new(env!("CARGO_BIN_EXE_trace-server")))
        .unwrap()
        .to_vec();
    images.push(busybox_image().unwrap());
    let config = Config {
        root: common::fresh_root("regions"),
        regions: vec!["ore".to_owned(), "fra".to_owned()],
        images,
        ..Config::default()
    };
    let lab = Lab::up(&config).unwrap();
    pod_with_preload(&lab);
    scraped_with_labels(&lab);
    partitions_and_restarts(&lab);
    lab.down().unwrap();
    assert!(!config.root.exists());
}
