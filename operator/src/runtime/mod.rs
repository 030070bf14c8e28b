//! Takes settings, runs the operator until it is told to stop: clients, server, readiness, controller, look at regions.
//! Wiring only; never decides, never writes.

mod backoff;
mod control;
mod orphans;
mod ready;
mod regions;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clusters::{ClusterError, Clusters, Limits};
use crate::reconcile::Memory;
use crate::report::Voice;
use backoff::Backoff;
use control::Shared;
use server::Missing;

/// How often it is looked whether the hub has what we need, while it has not.
const READY_EVERY: Duration = Duration::from_secs(2);
/// How often, once it had.
const RECHECK_EVERY: Duration = Duration::from_mins(1);
/// How long passes in flight may go on after we were told to stop; below the pod's grace period.
const GRACE: Duration = Duration::from_secs(20);

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's own namespace.
    pub namespace: String,
    /// The name of the operator's own pod.
    pub pod_name: Option<String>,
    /// Where metrics and health are served.
    pub listen: SocketAddr,
}

/// Why the operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// There is neither a pod's service account nor a kubeconfig.
    #[error("the hub's API server is not known: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The hub's client cannot be made.
    #[error("{0}")]
    Cluster(#[from] ClusterError),
    /// The hub's client for watches cannot be made.
    #[error("the hub's client cannot be made: {0}")]
    Client(#[from] kube::Error),
    /// The address cannot be listened on.
    #[error("{listen} cannot be listened on: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// Signals cannot be caught.
    #[error("signals cannot be caught: {0}")]
    Signal(std::io::Error),
}

/// Runs the operator until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), RuntimeError> {
    let config = kube::Config::infer().await?;
    let hub = kube::Client::try_from(config.clone())?;
    let clusters = Arc::new(Clusters::new(
        config,
        settings.namespace,
        Limits::default(),
    )?);
    let voice = Arc::new(Voice::new(hub.clone(), settings.pod_name));
    let stop = stop_on_signal()?;

    let (told, missing) = watch::channel(Missing::from("the hub was not asked yet".to_owned()));
    let serving = serve(settings.listen, &voice, missing.clone(), &stop).await?;
    let readiness = watch_readiness(Arc::clone(&clusters), told, stopped(stop.clone()));
    let readiness = tokio::spawn(readiness);
    if first_ready(missing, stop.clone()).await {
        let shared = Arc::new(Shared {
            clusters,
            voice,
            backoff: Backoff::default(),
            memory: Memory::default(),
        });
        operate(hub, shared, &stop).await;
    }
    join("readiness", readiness).await;
    join("server", serving).await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves in a task of its own; a port in use is an error at once.
async fn serve(
    listen: SocketAddr,
    voice: &Arc<Voice>,
    missing: watch::Receiver<Missing>,
    stop: &watch::Receiver<bool>,
) -> Result<JoinHandle<()>, RuntimeError> {
    let listener = server::bind(listen)
        .await
        .map_err(|error| RuntimeError::Listen { listen, error })?;
    tracing::info!(%listen, "serving /metrics, /healthz and /readyz");
    let serving = server::serve(listener, Arc::clone(voice), missing, stopped(stop.clone()));
    Ok(tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::warn!(%error, "the server ended");
        }
    }))
}

/// Runs passes and looks at regions until the end, with a bound on what is still in flight then.
async fn operate(hub: kube::Client, shared: Arc<Shared>, stop: &watch::Receiver<bool>) {
    let regions = tokio::spawn(regions::run(Arc::clone(&shared), stopped(stop.clone())));
    let passes = control::run(hub, shared, stopped(stop.clone()));
    // Cancel-safe: a pass that is cut short has written whole objects only, and the next start goes on from them.
    tokio::select! {
        () = passes => {}
        () = after_grace(stopped(stop.clone())) => tracing::warn!("passes in flight were cut short"),
    }
    join("regions", regions).await;
}

async fn join(what: &str, task: JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::warn!(%error, what, "a task broke");
    }
}

/// Resolves once the operator is to stop.
async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is the end as well.
    stop.wait_for(|stop| *stop).await.ok();
}

async fn after_grace(stopped: impl Future<Output = ()>) {
    stopped.await;
    tokio::time::sleep(GRACE).await;
}

fn stop_on_signal() -> Result<watch::Receiver<bool>, RuntimeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RuntimeError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RuntimeError::Signal)?;
    let (tx, rx) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
        tx.send_replace(true);
        // Kept until the process ends, so that nobody takes its going for a second signal.
        std::future::pending::<()>().await;
    });
    Ok(rx)
}

/// Waits until the hub has what we need; false if we are told to stop before.
async fn first_ready(mut missing: watch::Receiver<Missing>, stop: watch::Receiver<bool>) -> bool {
    tokio::select! {
        ready = missing.wait_for(Option::is_none) => ready.is_ok(),
        () = stopped(stop) => false,
    }
}

fn say(missing: Option<&str>) {
    tracing::info!(
        ready = missing.is_none(),
        "{}",
        missing.unwrap_or("the hub has all kinds")
    );
}

async fn watch_readiness(
    clusters: Arc<Clusters>,
    told: watch::Sender<Missing>,
    stopped: impl Future<Output = ()> + Send,
) {
    tokio::pin!(stopped);
    loop {
        let missing = ready::missing(&clusters.hub_reader()).await;
        let wait = if missing.is_none() {
            RECHECK_EVERY
        } else {
            READY_EVERY
        };
        let changed = told.send_if_modified(|before| {
            let changed = *before != missing;
            before.clone_from(&missing);
            changed
        });
        if changed {
            say(missing.as_deref());
        }
        // Cancel-safe: nothing is under way while waiting.
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
