//! Takes queries as text with the time to evaluate them at, gives series. One client per region, so many queries in
//! flight, each with a deadline; never a retry, a redirect or a proxy.

use std::sync::Arc;
use std::time::Duration;

use prometheus_http_query::Client;

use super::answer::{RawSeries, matrix};
use super::error::PrometheusError;
use super::merge::seconds;
use crate::clusters::{PrometheusLink, transport_clause};

/// The largest answer that is taken, bytes.
const LARGEST: usize = 64 << 20;

/// How much a look may ask and hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long all queries of one look may take together.
    pub look_deadline: Duration,
    /// How many samples one query should answer, about.
    pub points: usize,
    /// How many samples of one series a look may hold, over all pods.
    pub most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            look_deadline: Duration::from_secs(30),
            points: 50_000,
            most: 4_000_000,
        }
    }
}

/// The Prometheus of one region, for one look.
pub struct Prometheus {
    link: Arc<PrometheusLink>,
    client: Client,
    limits: Limits,
}

// The client has no text form.
impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Prometheus {
    /// The Prometheus at the end of a link.
    pub fn new(link: Arc<PrometheusLink>, limits: Limits) -> Result<Self, PrometheusError> {
        let url = link.url.trim_end_matches('/');
        let client = Client::from(link.http.clone(), url).map_err(|_| PrometheusError::Answer {
            who: link.who.clone(),
            because: "its url is not one".to_owned(),
        })?;
        Ok(Self {
            link,
            client,
            limits,
        })
    }

    /// How people call it.
    pub(super) fn who(&self) -> &str {
        &self.link.who
    }

    /// The region that it sees.
    pub(super) fn region(&self) -> &str {
        &self.link.region
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether it answers a query that needs no data.
    pub async fn answers(&self, now: i64) -> Result<(), PrometheusError> {
        self.matrix("vector(1)[1s:1s]", now).await.map(|_| ())
    }

    /// The matrix that an instant query at `at` (milliseconds since the epoch) answers.
    pub(super) async fn matrix(
        &self,
        query: &str,
        at: i64,
    ) -> Result<Vec<RawSeries>, PrometheusError> {
        // The semaphore is never closed; if it were, going on without it harms nobody. Waiting for a slot is bounded by
        // the look's deadline.
        let _slot = self.link.slots.acquire().await.ok();
        let deadline = self.link.deadline;
        match tokio::time::timeout(deadline, self.ask(query, at)).await {
            Ok(answer) => answer,
            Err(_) => Err(PrometheusError::Deadline {
                who: self.link.who.clone(),
                deadline,
            }),
        }
    }

    async fn ask(&self, query: &str, at: i64) -> Result<Vec<RawSeries>, PrometheusError> {
        let timeout = i64::try_from(self.link.deadline.as_millis()).unwrap_or(i64::MAX);
        let request = self
            .client
            .query(query)
            .query("time", seconds(at))
            .timeout(timeout);
        let mut response = request
            .post_raw()
            .await
            .map_err(|error| self.broken(&error))?;
        let code = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.broken(&error))?
        {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                return Err(PrometheusError::Answer {
                    who: self.link.who.clone(),
                    because: format!("an answer of more than {} MiB", LARGEST >> 20),
                });
            }
        }
        matrix(self.who(), code, &body)
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> PrometheusError {
        PrometheusError::Unreachable {
            who: self.link.who.clone(),
            clause: transport_clause(error),
        }
    }
}
