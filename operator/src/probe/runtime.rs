//! Takes the state folders of container runtimes, gives the Kubernetes identity of each container and the allocator
//! settings it is started with; must never keep or pass on anything else of a record, which holds its whole environment.

use super::allocator::{self, Settings};
use super::errors::{Errors, Stage};
use super::scan::read_bounded;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest record that is read. Real ones are 10 to 30 KiB.
const RECORD_BYTES: u64 = 4 << 20;

/// Who a container is, in the words of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Identity {
    /// Namespace of the pod.
    pub(super) namespace: String,
    /// Name of the pod.
    pub(super) pod: String,
    /// UID of the pod; empty if the record does not say.
    pub(super) uid: String,
    /// Name of the container in the pod.
    pub(super) container: String,
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    linux: Linux,
    #[serde(default)]
    process: ProcessSpec,
}

#[derive(Default, Deserialize)]
struct ProcessSpec {
    #[serde(default)]
    env: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    #[serde(default)]
    cgroups_path: String,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A container of a pod, and the settings in the environment that it is started with.
    Container(Arc<Identity>, Settings),
    /// The sandbox of a pod, or a container that Kubernetes does not know.
    Other,
}

/// Parses an OCI `config.json` with the annotations of containerd's CRI plugin or of CRI-O.
///
/// # Errors
/// It is not JSON of that shape.
pub(super) fn record(bytes: &[u8]) -> Result<Kind, serde_json::Error> {
    let record: Record = serde_json::from_slice(bytes)?;
    let first = |keys: [&str; 2]| {
        keys.iter()
            .find_map(|key| record.annotations.get(*key))
            .map(String::as_str)
    };
    let kind = first([
        "io.kubernetes.cri.container-type",
        "io.kubernetes.cri-o.ContainerType",
    ]);
    let namespace = first([
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
    ]);
    let pod = first(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let container = first([
        "io.kubernetes.cri.container-name",
        "io.kubernetes.container.name",
    ]);
    let (Some("container"), Some(namespace), Some(pod), Some(container)) =
        (kind, namespace, pod, container)
    else {
        return Ok(Kind::Other);
    };
    let uid = first(["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"]).map_or_else(
        || uid_in_path(&record.linux.cgroups_path).unwrap_or_default(),
        str::to_owned,
    );
    let identity = Identity {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid,
        container: container.to_owned(),
    };
    let settings = allocator::settings_of(record.process.env.iter().map(String::as_bytes));
    Ok(Kind::Container(Arc::new(identity), settings))
}

/// The pod's UID in a cgroup path of the kubelet: `…/pod<uid>/…`, or `…-pod<uid with underscores>.slice`.
fn uid_in_path(path: &str) -> Option<String> {
    path.split(['/', ':']).find_map(|segment| {
        let segment = segment.strip_suffix(".slice").unwrap_or(segment);
        let uid = segment.rsplit_once("pod")?.1.replace('_', "-");
        let hex = uid.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
        (hex && uid.len() >= 32).then_some(uid)
    })
}

/// The containers that the runtimes of this node know. A record never changes, so each is read once.
#[derive(Debug)]
pub(super) struct Runtime {
    roots: Vec<PathBuf>,
    known: HashMap<String, Kind>,
}

impl Runtime {
    /// The containers below these folders; nothing is read yet.
    pub(super) fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            known: HashMap::new(),
        }
    }

    /// Looks which containers there are now.
    pub(super) fn refresh(&mut self, errors: &mut Errors) {
        let mut listed = BTreeSet::new();
        let mut roots_seen = 0;
        for root in &self.roots {
            match std::fs::read_dir(root) {
                Ok(entries) => {
                    roots_seen += 1;
                    // An entry that goes while it is listed is not an error.
                    let names = entries
                        .filter_map(Result::ok)
                        .map(|entry| entry.file_name());
                    for id in names.filter_map(|name| name.into_string().ok()) {
                        if !self.known.contains_key(&id)
                            && let Some(kind) = read_record(&root.join(&id), errors)
                        {
                            self.known.insert(id.clone(), kind);
                        }
                        listed.insert(id);
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => errors.add(Stage::Runtime),
            }
        }
        if roots_seen == 0 {
            errors.add(Stage::Runtime);
        }
        self.known.retain(|id, _| listed.contains(id));
    }

    /// The container with this id, if it belongs to a pod.
    pub(super) fn identity(&self, id: &str) -> Option<&Arc<Identity>> {
        self.container(id).map(|(identity, _)| identity)
    }

    /// The container with this id, and the settings that it is started with.
    pub(super) fn container(&self, id: &str) -> Option<(&Arc<Identity>, &Settings)> {
        match self.known.get(id)? {
            Kind::Container(identity, settings) => Some((identity, settings)),
            Kind::Other => None,
        }
    }

    /// Whether no container of a pod is known.
    pub(super) fn is_empty(&self) -> bool {
        self.known.values().all(|kind| *kind == Kind::Other)
    }
}

/// Reads `config.json` (containerd) or `userdata/config.json` (CRI-O). `None` when there is none yet, or none that can
/// be read; the next scan tries again.
fn read_record(folder: &Path, errors: &mut Errors) -> Option<Kind> {
    for place in ["config.json", "userdata/config.json"] {
        match read_bounded(&folder.join(place), RECORD_BYTES) {
            Ok(bytes) => {
                let parsed = record(&bytes);
                if parsed.is_err() {
                    errors.add(Stage::Record);
                }
                return parsed.ok();
            }
            // The folder is made before the record, and goes after it.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(_) => {
                errors.add(Stage::Record);
                return None;
            }
        }
    }
    None
}

#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;
