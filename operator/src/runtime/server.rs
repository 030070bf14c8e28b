//! Takes the process's own state, serves `/metrics`, `/healthz` and `/readyz` to whoever asks. Never changes anything.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::report::Voice;

/// Why the operator is not ready; `None`: it is.
pub(super) type Missing = Option<String>;

/// The form in which Prometheus takes what `prometheus-client` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone)]
struct Shared {
    voice: Arc<Voice>,
    missing: watch::Receiver<Missing>,
}

/// Binds the address, so that a port in use is an error at start.
pub(super) async fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(listen).await
}

/// Serves until `stop` resolves.
pub(super) async fn serve(
    listener: TcpListener,
    voice: Arc<Voice>,
    missing: watch::Receiver<Missing>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(Shared { voice, missing });
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.voice.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(shared): State<Shared>) -> Response {
    let missing = shared.missing.borrow().clone();
    match missing {
        None => "ok\n".into_response(),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")).into_response(),
    }
}
