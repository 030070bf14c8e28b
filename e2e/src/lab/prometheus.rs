//! Takes a region, gives it a Prometheus that scrapes every pod that asks for it; must never have more rights in the
//! cluster than to list and watch pods.
//!
//! A pod asks with the annotations `prometheus.io/scrape: "true"`, `prometheus.io/port`, `prometheus.io/path` and
//! `prometheus.io/honor-labels: "true"` (its own `pod`, `container`, ... win: for a program that reports on others).
//! Each series has `region`, `node`, `namespace`, `pod` and `container`.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use serde_json::json;

use super::{
    discovery, kubectl, lab_program,
    netns::in_region,
    state::{Daemon, Region},
    tools::need,
    wait,
};

const RIGHTS: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: heapfleet-lab-prometheus}
rules:
  - {apiGroups: [''], resources: [pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: heapfleet-lab-prometheus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: heapfleet-lab-prometheus}
subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: heapfleet-lab-prometheus}
";

/// Writes the configuration. `interval` is a Prometheus duration such as `250ms`.
pub(super) fn prepare(region: &Region, interval: &str) -> Result<()> {
    let folder = region.path("prometheus");
    fs::create_dir_all(&folder)?;
    let job = |name: &str, honor: bool| {
        json!({
            "job_name": name,
            "honor_labels": honor,
            "file_sd_configs": [{"files": [discovery::list(&folder, honor)], "refresh_interval": "5s"}],
        })
    };
    let config = json!({
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "external_labels": {"region": region.name},
        },
        "scrape_configs": [job("pods", false), job("pods-honor-labels", true)],
    });
    // JSON is YAML.
    fs::write(region.path("prometheus.yaml"), format!("{config:#}\n"))
        .context("writing prometheus.yaml")
}

/// Gives Prometheus its rights in the cluster.
pub(super) fn grant(region: &Region) -> Result<()> {
    kubectl::run_ok(
        region,
        &["apply", "-f", "-"],
        Some(RIGHTS),
        Duration::from_mins(1),
    )
    .map(drop)
}

/// The command of a region's Prometheus or of the program that finds its targets.
pub(super) fn command(region: &Region, daemon: Daemon) -> Result<Command> {
    let folder = region.path("prometheus");
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    if daemon == Daemon::Discovery {
        let mut command = in_region(region, &lab_program()?)?;
        command
            .arg("discover")
            .arg(flag("kubectl", &region.kubectl))
            .arg(flag(
                "kubeconfig",
                &region.path("certs/prometheus.kubeconfig"),
            ))
            .arg(flag("folder", &folder))
            .arg(format!("--region={}", region.name));
        return Ok(command);
    }
    let mut command = in_region(
        region,
        &need("prometheus", "install the package prometheus")?,
    )?;
    command
        .arg(flag("config.file", &region.path("prometheus.yaml")))
        .arg(flag("storage.tsdb.path", &folder.join("data")))
        .args([
            "--storage.tsdb.retention.time=1d",
            "--web.listen-address=0.0.0.0:9090",
        ]);
    Ok(command)
}

/// Waits until Prometheus can answer queries.
pub(super) fn await_ready(region: &Region, alive: impl Fn() -> bool) -> Result<()> {
    let log = region.log(Daemon::Prometheus);
    let what = format!("Prometheus of {}", region.name);
    wait::until(&what, Duration::from_mins(1), Some(&log), || {
        ensure!(alive(), "{what} ended{}", wait::tail_note(&log));
        Ok(match get(region.prometheus_port, "/-/ready") {
            Ok(answer)
                if answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200") =>
            {
                wait::Look::Done(())
            }
            Ok(answer) => wait::Look::Again(answer.lines().next().unwrap_or_default().to_owned()),
            Err(e) => wait::Look::Again(e.to_string()),
        })
    })
}

/// The whole answer, head and body, to a GET of a port on 127.0.0.1, within five seconds.
pub(super) fn get(port: u16, path: &str) -> Result<String> {
    let limit = Some(Duration::from_secs(5));
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(limit)?;
    stream.set_write_timeout(limit)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
