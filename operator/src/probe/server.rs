//! Takes scrapes, gives `/metrics` and `/healthz`; must never run two scans at once, and must never let a scrape wait
//! for a scan that hangs.

use super::errors::{Errors, Stage};
use super::scan::{DEADLINE, Late, Scanner, Snapshot};
use super::{Args, metrics};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// An answer is given again to scrapes that follow so soon.
const FRESH: Duration = Duration::from_millis(200);
/// A stage that fails is logged so often at most.
const WARN_EVERY: Duration = Duration::from_mins(10);
/// A scrape waits so long for a scan. Longer than the scan's own deadline, so that this matters only when a read hangs.
const PATIENCE: Duration = DEADLINE.saturating_add(Duration::from_millis(500));

/// Serves until the listener fails.
///
/// # Errors
/// The listener fails.
pub(super) async fn serve(listener: TcpListener, scanner: Scanner) -> std::io::Result<()> {
    axum::serve(listener, router(scanner)).await
}

fn router(scanner: Scanner) -> Router {
    let scans = Arc::new(Scans(Mutex::new(Flight::new(scanner))));
    Router::new()
        .route("/metrics", get(answer))
        .route("/healthz", get(async || "ok\n"))
        .with_state(scans)
}

async fn answer(State(scans): State<Arc<Scans>>) -> Response {
    let text = match scans.latest().await {
        Ok(snapshot) => metrics::text(snapshot).map_err(|_| Missing::Encoding),
        Err(missing) => Err(missing),
    };
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        // No numbers rather than some of them: Prometheus then knows that it knows nothing.
        Err(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")).into_response(),
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Missing {
    #[error(transparent)]
    Late(#[from] Late),
    #[error("a scan hangs in a read; the next scrape waits for the same scan")]
    Hangs,
    #[error("the scan stopped unexpectedly; the next scrape starts anew")]
    Stopped,
    #[error("the metrics could not be written")]
    Encoding,
}

type Ended = (Box<Scanner>, Result<Snapshot, Late>);

/// The scan that runs, or what the next one needs.
struct Flight {
    args: Args,
    /// `None` while it scans, and after it stopped unexpectedly.
    idle: Option<Box<Scanner>>,
    running: Option<JoinHandle<Ended>>,
    errors: Errors,
    last: Option<(Instant, Arc<Snapshot>)>,
    /// When the failure of a stage was logged last, so that it is not at every scrape.
    warned: BTreeMap<Stage, Instant>,
}

struct Scans(Mutex<Flight>);

impl Scans {
    /// The last answer if it is fresh, else that of a scan that begins after this call or is under way.
    ///
    /// Safe to cancel: a scan that runs stays in the flight, and the next caller waits for it.
    async fn latest(&self) -> Result<Arc<Snapshot>, Missing> {
        let mut flight = timeout(PATIENCE, self.0.lock())
            .await
            .map_err(|_| Missing::Hangs)?;
        if let Some((at, snapshot)) = &flight.last
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(snapshot));
        }
        let ended = timeout(PATIENCE, flight.running())
            .await
            .map_err(|_| Missing::Hangs)?;
        flight.land(ended)
    }
}

impl Flight {
    fn new(scanner: Scanner) -> Self {
        Self {
            args: scanner.args().clone(),
            errors: scanner.errors().clone(),
            idle: Some(Box::new(scanner)),
            running: None,
            last: None,
            warned: BTreeMap::new(),
        }
    }

    /// Starts a scan unless one runs, and waits for its end. `None`: it stopped unexpectedly.
    async fn running(&mut self) -> Option<Ended> {
        let handle = self.running.get_or_insert_with(|| {
            let mut scanner = self.idle.take().unwrap_or_else(|| {
                Box::new(Scanner::resume(self.args.clone(), self.errors.clone()))
            });
            spawn_blocking(move || {
                let begin = Instant::now();
                let result = scanner.scan(begin, begin + DEADLINE);
                (scanner, result)
            })
        });
        handle.await.ok()
    }

    fn land(&mut self, ended: Option<Ended>) -> Result<Arc<Snapshot>, Missing> {
        self.running = None;
        let (scanner, result) = ended.ok_or(Missing::Stopped)?;
        let errors = scanner.errors().clone();
        self.warn(&errors);
        self.errors = errors;
        self.idle = Some(scanner);
        let snapshot = Arc::new(result?);
        self.last = Some((Instant::now(), Arc::clone(&snapshot)));
        Ok(snapshot)
    }

    /// A line when a stage fails, and then none about it for a while.
    fn warn(&mut self, errors: &Errors) {
        for stage in Stage::ALL {
            let more = stage != Stage::Vanished && errors.of(stage) > self.errors.of(stage);
            if more
                && self
                    .warned
                    .get(&stage)
                    .is_none_or(|at| at.elapsed() > WARN_EVERY)
            {
                self.warned.insert(stage, Instant::now());
                let stage = stage.as_str();
                tracing::warn!(stage, "reads fail; see heapfleet_probe_scan_errors_total");
            }
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
