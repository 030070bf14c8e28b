//! The node probe: takes `/proc` and the container runtime's records of one node, gives metrics per container (memory,
//! age, and which allocator is mapped); must never need an API server, write anything, or stop a process it looks at.
//!
//! ```text
//! /proc/<pid>/cgroup ── container id ──┐
//! <runtime state>/<id>/config.json ────┴─▶ scan ──▶ Snapshot ──▶ /metrics
//! /proc/<pid>/{stat,status,maps,environ} ─┘
//! ```
//!
//! A scan happens when somebody scrapes, at most one at a time, and its answer is whole or an error: sums over a part of
//! the processes would look like memory that was saved.

mod allocator;
mod errors;
#[cfg(test)]
mod fixture;
mod metrics;
mod procfs;
mod runtime;
mod scan;
mod server;

use anyhow::Context as _;
use clap::Args as ClapArgs;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Flags of `heapfleet probe`.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Address of /metrics and /healthz.
    #[arg(long, default_value = "0.0.0.0:9464")]
    pub listen: SocketAddr,
    /// The node's proc file system, with the process ids of the node (hostPID).
    #[arg(long, default_value = "/proc")]
    pub proc: PathBuf,
    /// Folder of the node's sysfs.
    #[arg(long, default_value = "/sys")]
    pub sys: PathBuf,
    /// Folder that holds one folder per container, named by its id, with config.json in it or in userdata/. For CRI-O
    /// this is /run/containers/storage/overlay-containers. May be repeated; folders that do not exist are passed over
    /// as long as one does.
    #[arg(
        long,
        default_value = "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
        value_name = "FOLDER"
    )]
    pub runtime_state: Vec<PathBuf>,
    /// Name of this node, as in the API.
    #[arg(long, env = "NODE_NAME")]
    pub node_name: String,
    /// Containers that are reported at most; further ones are counted as errors of the stage `limit`.
    #[arg(long, default_value_t = 1000)]
    pub max_containers: usize,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The node name is empty, the address cannot be bound, or the listener fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        !args.node_name.is_empty(),
        "--node-name (or NODE_NAME) must not be empty"
    );
    let listen = args.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("listen on {listen}"))?;
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    tracing::info!(%listen, node = %args.node_name, runtime_state = ?args.runtime_state, "probe");
    // Nothing here is lost when the server is dropped in the middle of an answer, so there is no grace.
    tokio::select! {
        served = server::serve(listener, scan::Scanner::new(args)) => served.context("serve"),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
