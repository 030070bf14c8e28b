//! Takes the pods of a region, gives Prometheus the list of what to scrape; must never read anything but pods.
//!
//! Debian's Prometheus has no discovery of its own for Kubernetes, but it reads target lists from files. This program
//! watches pods with `kubectl` and writes two such lists.

use std::{
    collections::BTreeMap,
    fs,
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// How long the pods must be quiet before the lists are written: the first events of a watch come as a burst.
const QUIET: Duration = Duration::from_millis(200);
/// Pause before a watch that ended is begun again.
const RETRY: Duration = Duration::from_secs(1);

/// What to watch and where to write.
#[derive(Debug)]
pub struct Discovery {
    /// `kubectl`.
    pub kubectl: PathBuf,
    /// The identity to use.
    pub kubeconfig: PathBuf,
    /// Folder for the lists and for kubectl's cache.
    pub folder: PathBuf,
    /// Value of the label `region`.
    pub region: String,
}

/// The two lists: by whether the labels that the target itself sets win.
const LISTS: [(bool, &str); 2] = [(false, "targets.json"), (true, "targets-honor-labels.json")];

/// The lists' files, as Prometheus names them.
pub(super) fn list(folder: &Path, honor: bool) -> PathBuf {
    let name = LISTS
        .iter()
        .find(|(h, _)| *h == honor)
        .map_or("targets.json", |(_, name)| *name);
    folder.join(name)
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// The program: watches for ever.
///
/// # Errors
/// When a list cannot be written. A watch that ends is begun again, with the old lists in place meanwhile.
pub fn run(discovery: &Discovery) -> Result<()> {
    publish(discovery, &BTreeMap::new())?;
    loop {
        watch_once(discovery)?;
        thread::sleep(RETRY);
    }
}

fn watch_once(discovery: &Discovery) -> Result<()> {
    let mut watch = Command::new(&discovery.kubectl)
        .arg("--kubeconfig")
        .arg(&discovery.kubeconfig)
        .arg("--cache-dir")
        .arg(discovery.folder.join("kubectl-cache"))
        .args([
            "get",
            "pods",
            "--all-namespaces",
            "--field-selector=status.phase=Running",
        ])
        .args(["--watch", "--output-watch-events", "--output=json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting kubectl")?;
    let out = watch.stdout.take().context("kubectl has no output")?;
    let (send, receive) = channel();
    let reader = thread::spawn(move || read(BufReader::new(out), &send));
    let mut pods = BTreeMap::new();
    let mut fresh = false;
    loop {
        match receive.recv_timeout(QUIET) {
            Ok(event) => {
                fresh = true;
                note(&mut pods, event);
            }
            Err(RecvTimeoutError::Timeout) if fresh => {
                fresh = false;
                publish(discovery, &pods)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(reader.join());
    // Its output has ended or makes no sense; either way it is of no more use.
    drop(watch.kill());
    watch.wait().context("waiting for kubectl").map(drop)
}

fn read(out: impl std::io::Read, events: &Sender<Event>) {
    for event in serde_json::Deserializer::from_reader(out).into_iter() {
        let Ok(event) = event else { return };
        if events.send(event).is_err() {
            return;
        }
    }
}

fn note(pods: &mut BTreeMap<String, Value>, event: Event) {
    let Some(uid) = event
        .object
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .map(str::to_owned)
    else {
        return;
    };
    if event.kind == "DELETED" {
        pods.remove(&uid);
    } else {
        pods.insert(uid, event.object);
    }
}

fn publish(discovery: &Discovery, pods: &BTreeMap<String, Value>) -> Result<()> {
    for (honor, _) in LISTS {
        let targets: Vec<_> = pods
            .values()
            .filter_map(|pod| target(pod, &discovery.region, honor))
            .collect();
        let (file, new) = (
            list(&discovery.folder, honor),
            discovery.folder.join("targets.new"),
        );
        fs::write(&new, json!(targets).to_string())
            .and_then(|()| fs::rename(&new, &file))
            .with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// The entry of a pod that asks to be scraped, if it belongs into this list.
fn target(pod: &Value, region: &str, honor: bool) -> Option<Value> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let annotation = |name: &str| text(&format!("/metadata/annotations/prometheus.io~1{name}"));
    if annotation("scrape") != Some("true") || (annotation("honor-labels") == Some("true")) != honor
    {
        return None;
    }
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let ports = |container: &Value| -> Vec<u64> {
        let declared = container
            .get("ports")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        declared
            .filter_map(|port| port.get("containerPort").and_then(Value::as_u64))
            .collect()
    };
    let wanted = annotation("port").and_then(|port| port.parse().ok());
    let port = wanted.or_else(|| containers.iter().flat_map(&ports).next())?;
    let container = containers
        .iter()
        .find(|c| ports(c).contains(&port))
        .or_else(|| containers.first())?;
    Some(json!({
        "targets": [format!("{}:{port}", text("/status/podIP")?)],
        "labels": {
            "__metrics_path__": annotation("path").unwrap_or("/metrics"),
            "region": region,
            "node": text("/spec/nodeName")?,
            "namespace": text("/metadata/namespace")?,
            "pod": text("/metadata/name")?,
            "container": container.get("name").and_then(Value::as_str)?,
        },
    }))
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
