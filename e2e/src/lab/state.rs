//! Takes what a start has done so far, gives it back to a later command or to the cleaning up; must never be half
//! written: a new version replaces the old one by a rename.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{child::Ident, hash, tools::Tools};

/// File in a state folder that says that the folder is a lab's and may be deleted.
pub(crate) const MARKER: &str = "heapfleet-lab";

/// A long-running program of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Daemon {
    /// The region's store.
    Etcd,
    /// `kube-apiserver`.
    Apiserver,
    /// `kube-controller-manager`.
    ControllerManager,
    /// `kube-scheduler`.
    Scheduler,
    /// The container runtime.
    Containerd,
    /// The node agent.
    Kubelet,
    /// Services inside the region.
    KubeProxy,
    /// The region's metrics.
    Prometheus,
    /// What tells Prometheus the pods to scrape.
    Discovery,
}

impl Daemon {
    /// The name in logs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Prometheus => "prometheus",
            Self::Discovery => "discovery",
        }
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One region: a cluster in namespaces of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Region {
    /// The region's name, for example `ore`.
    pub name: String,
    /// Last byte of its address, from 11 up.
    pub number: u8,
    /// Folder of its state.
    pub dir: PathBuf,
    /// Name of its folder in every cgroup hierarchy.
    pub cgroup: String,
    /// The `kubectl` that was built with its programs.
    pub kubectl: PathBuf,
    /// First process of its namespaces; everything of the region ends with it.
    pub holder: Option<Ident>,
    /// Port on 127.0.0.1 that reaches its API server.
    pub api_port: u16,
    /// Port on 127.0.0.1 that reaches its Prometheus; 0 without one.
    pub prometheus_port: u16,
    /// What runs in it. Each is the leader of a process group.
    pub daemons: BTreeMap<Daemon, Ident>,
}

impl Region {
    /// Address in the lab's network.
    pub fn ip(&self) -> String {
        format!("198.18.0.{}", self.number)
    }

    /// Addresses of its pods.
    pub fn pod_cidr(&self) -> String {
        format!("10.{}.0.0/24", u16::from(self.number) + 100)
    }

    /// Name of its only node.
    pub fn node(&self) -> String {
        format!("{}-1", self.name)
    }

    /// Where the region is reached from other regions.
    pub fn inner_server(&self) -> String {
        format!("https://{}:6443", self.ip())
    }

    /// A file or folder in the region's state.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// The log of a daemon.
    pub fn log(&self, daemon: Daemon) -> PathBuf {
        self.dir.join("logs").join(format!("{daemon}.log"))
    }

    /// Kubeconfig of the region's administrator, for use outside the lab's network.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }
}

/// How far a start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not everything has come up yet.
    Starting,
    /// Everything was ready.
    Up,
}

/// Everything that a later command must know of a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// How far the start has come.
    pub phase: Phase,
    /// The process whose end is the lab's end; `None` when the lab outlives the command that started it.
    pub owner: Option<Ident>,
    /// First part of cgroup names.
    pub prefix: String,
    /// Programs that were built.
    pub tools: Tools,
    /// Whether regions have a node.
    pub kubelets: bool,
    /// Whether regions have a Prometheus.
    pub prometheus: bool,
    /// The first process of the network that joins the regions.
    pub hub: Option<Ident>,
    /// The process that listens on 127.0.0.1.
    pub forwarder: Option<Ident>,
    /// The process that cleans up when the owner vanishes.
    pub watchdog: Option<Ident>,
    /// Settings of the kernel as they were before a kubelet changed them.
    pub sysctls: BTreeMap<String, String>,
    /// The regions, in the order of the configuration.
    pub regions: Vec<Region>,
}

impl State {
    /// Reads the state in `root`; `None` when there is none or it cannot be understood.
    pub fn load(root: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(root.join("state.json")).ok()?).ok()
    }

    /// Writes the state into `root`.
    pub fn save(&self, root: &Path) -> Result<()> {
        let (new, now) = (root.join("state.json.new"), root.join("state.json"));
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)
            .and_then(|()| std::fs::rename(&new, &now))
            .with_context(|| format!("writing {}", now.display()))
    }

    /// Whether the lab came up and its namespaces still live.
    pub fn running(&self) -> bool {
        self.phase == Phase::Up
            && self.owner.is_none_or(Ident::alive)
            && self.hub.is_some_and(Ident::alive)
            && self
                .regions
                .iter()
                .all(|r| r.holder.is_some_and(Ident::alive))
    }
}

/// Short name of a state folder, so that labs in different folders never share a cgroup.
pub fn tag(root: &Path) -> String {
    hash::short(root.as_os_str().as_encoded_bytes(), 6)
}

/// Makes the state folder and marks it as a lab's.
pub fn create_root(root: &Path) -> Result<()> {
    ensure!(
        root.is_absolute(),
        "the state folder {} must be an absolute path",
        root.display()
    );
    let empty = || std::fs::read_dir(root).map_or(true, |mut entries| entries.next().is_none());
    ensure!(
        is_root(root) || empty(),
        "{} holds something that is not a lab's; name another state folder",
        root.display()
    );
    std::fs::create_dir_all(root.join("logs"))
        .and_then(|()| {
            std::fs::write(
                root.join(MARKER),
                "The state of a Heapfleet lab. `lab down` deletes it.\n",
            )
        })
        .with_context(|| format!("creating the state folder {}", root.display()))
}

/// Whether a folder is a lab's.
pub fn is_root(root: &Path) -> bool {
    root.join(MARKER).is_file()
}
