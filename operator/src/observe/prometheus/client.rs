//! Takes queries as text with the time to evaluate them at, gives series. One client per region, so many queries in
//! flight, each with a deadline; never a retry, a redirect or a proxy.

use std::time::Duration;

use prometheus_http_query::Client;
use tokio::sync::Semaphore;

use super::answer::{RawSeries, matrix};
use super::error::PrometheusError;
use super::merge::seconds;
use crate::clusters::transport_clause;

/// The largest answer that is taken, bytes.
const LARGEST: usize = 64 << 20;

/// How queries to a Prometheus are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queries in flight.
    pub in_flight: usize,
    /// How long one query may take.
    pub deadline: Duration,
    /// How long all queries of one look may take together.
    pub look_deadline: Duration,
    /// How many samples one query should answer, about.
    pub points: usize,
    /// How many samples one look may hold.
    pub most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 4,
            deadline: Duration::from_secs(5),
            look_deadline: Duration::from_secs(30),
            points: 50_000,
            most: 4_000_000,
        }
    }
}

/// The Prometheus of one region.
pub struct Prometheus {
    who: String,
    client: Client,
    slots: Semaphore,
    limits: Limits,
}

// The client may hold credentials.
impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus").field("who", &self.who).finish_non_exhaustive()
    }
}

impl Prometheus {
    /// A Prometheus at `url` (without `/api/v1`), reached by `http`; `who` is how people call it.
    pub(super) fn new(
        who: String,
        http: reqwest::Client,
        url: &str,
        limits: Limits,
    ) -> Result<Self, PrometheusError> {
        let client = Client::from(http, url.trim_end_matches('/')).map_err(|_| {
            PrometheusError::Answer { who: who.clone(), because: "its url is not one".to_owned() }
        })?;
        Ok(Self { who, client, slots: Semaphore::new(limits.in_flight), limits })
    }

    /// How people call it.
    pub(super) fn who(&self) -> &str {
        &self.who
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// The matrix that an instant query at `at` (milliseconds since the epoch) answers.
    pub(super) async fn matrix(
        &self,
        query: &str,
        at: i64,
    ) -> Result<Vec<RawSeries>, PrometheusError> {
        // The semaphore is never closed; if it were, going on without it harms nobody. Waiting for a slot is bounded by
        // the look's deadline.
        let _slot = self.slots.acquire().await.ok();
        let deadline = self.limits.deadline;
        match tokio::time::timeout(deadline, self.ask(query, at)).await {
            Ok(answer) => answer,
            Err(_) => Err(PrometheusError::Deadline { who: self.who.clone(), deadline }),
        }
    }

    async fn ask(&self, query: &str, at: i64) -> Result<Vec<RawSeries>, PrometheusError> {
        let timeout = i64::try_from(self.limits.deadline.as_millis()).unwrap_or(i64::MAX);
        let request = self.client.query(query).query("time", seconds(at)).timeout(timeout);
        let mut response = request.post_raw().await.map_err(|error| self.broken(&error))?;
        let code = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                return Err(PrometheusError::Answer {
                    who: self.who.clone(),
                    because: format!("an answer of more than {} MiB", LARGEST >> 20),
                });
            }
        }
        matrix(&self.who, code, &body)
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> PrometheusError {
        PrometheusError::Unreachable { who: self.who.clone(), clause: transport_clause(error) }
    }
}
