//! Takes a client's configuration, gives the one client of a cluster with its limiter, deadline and health. Never leaves
//! a hidden retry or an unlimited wait in it.

use std::time::Duration;

use super::error::{ClusterError, from_kube};
use super::gate::Gate;

/// How requests to a cluster are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight to one API server.
    pub in_flight: usize,
    /// How long one request may take, waiting for its turn included.
    pub deadline: Duration,
    /// How old a look at the region's Secret and identity may be.
    pub recheck: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 8,
            deadline: Duration::from_secs(5),
            recheck: Duration::from_secs(10),
        }
    }
}

/// The way to one API server.
pub(super) struct Link {
    pub(super) client: kube::Client,
    pub(super) gate: Gate,
}

// The client has no text form, and its configuration holds credentials.
impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(
        who: String,
        config: kube::Config,
        limits: Limits,
    ) -> Result<Self, ClusterError> {
        let client = kube::Client::try_from(bounded(config, limits.deadline))
            .map_err(|error| from_kube(&who, &error))?;
        Ok(Self {
            client,
            gate: Gate::new(who, limits.in_flight, limits.deadline),
        })
    }
}

/// How long a connection may take to come about, so that people are told `the connection timed out` of a server that
/// cannot be reached and `no answer` of one that can. Clearly below the deadline: which of the two fires must not be a
/// matter of luck.
pub(super) fn connect_timeout(deadline: Duration) -> Duration {
    deadline.saturating_mul(3) / 5
}

/// kube retries 429, 503 and 504 up to 15 times by itself, waiting as long as the server says; and it has no read
/// timeout.
fn bounded(mut config: kube::Config, deadline: Duration) -> kube::Config {
    config.default_retry = false;
    config.connect_timeout = Some(connect_timeout(deadline));
    config.write_timeout = Some(deadline);
    config.read_timeout = Some(deadline.saturating_mul(2));
    config.reset_reader_on_write = true;
    config
}
