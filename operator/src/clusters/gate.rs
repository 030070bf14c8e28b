//! Takes one request at a time, gives its answer within a deadline and remembers whether the server answers. Never
//! retries: what to do about a failure is decided by who asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::error::{ClusterError, from_kube};

/// Whether a server has answered lately; shown to people, never read by a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When it last answered anything, refusals included.
    pub answered: Option<Timestamp>,
    /// The newest failure since then.
    pub failure: Option<(Timestamp, String)>,
}

/// The way to one API server: so many requests in flight, each within its deadline.
#[derive(Debug)]
pub(super) struct Gate {
    who: String,
    slots: Semaphore,
    deadline: Duration,
    health: Mutex<Health>,
}

impl Gate {
    pub(super) fn new(who: String, in_flight: usize, deadline: Duration) -> Self {
        Self {
            who,
            slots: Semaphore::new(in_flight),
            deadline,
            health: Mutex::default(),
        }
    }

    pub(super) fn who(&self) -> &str {
        &self.who
    }

    pub(super) fn health(&self) -> Health {
        self.health
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Runs a request. Dropping the future (the deadline does it) ends the request.
    pub(super) async fn pass<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ClusterError> {
        let limited = async {
            // The semaphore is never closed; if it were, going on without it harms nobody.
            let _slot = self.slots.acquire().await.ok();
            request.await
        };
        let outcome = match tokio::time::timeout(self.deadline, limited).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(from_kube(&self.who, &error)),
            Err(_) => Err(ClusterError::Deadline {
                who: self.who.clone(),
                deadline: self.deadline,
            }),
        };
        self.note(outcome.as_ref().err());
        outcome
    }

    fn note(&self, failure: Option<&ClusterError>) {
        let now = Timestamp::now();
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(error) if !error.answered() => health.failure = Some((now, error.to_string())),
            Some(_) | None => {
                *health = Health {
                    answered: Some(now),
                    failure: None,
                }
            }
        }
    }
}
