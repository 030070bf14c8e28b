//! Takes changes of policies and their attempts, and the hours at which passes want to be woken, runs passes: never two at
//! once over one policy, at most eight in all. Never decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use heapfleet_crds::{AllocatorPolicy, AllocatorRollout};
use jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Config, Error};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};

use super::backoff::Backoff;
use super::orphans;
use crate::clusters::{Class, Clusters};
use crate::reconcile::{Memory, Next, PassError, pass};
use crate::report::{PassResult, PolicyKey, Voice};

/// Passes at once.
const CONCURRENCY: u16 = 8;
/// Changes that come together are looked at together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Seconds after which a watch is begun anew; a connection that died in silence is noticed then.
const WATCH_SECONDS: u32 = 60;
/// The shortest time between two passes over one policy that nothing else asked for.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest.
const LONGEST: Duration = Duration::from_hours(1);

/// Policies are watched by their metadata alone: each pass reads its policy anew, and one that cannot be read holds up
/// nobody else.
type Policy = PartialObjectMeta<AllocatorPolicy>;

/// What every pass is given.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clusters: Arc<Clusters>,
    pub(super) voice: Arc<Voice>,
    pub(super) backoff: Backoff,
    pub(super) memory: Memory,
}

/// Runs passes until `stop` resolves and those in flight have ended.
pub(super) async fn run(
    hub: Client,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let watch = watcher::Config::default().timeout(WATCH_SECONDS);
    let passes = Controller::new(Api::<Policy>::all(hub.clone()), watch.clone())
        .owns(Api::<AllocatorRollout>::all(hub), watch)
        .with_config(
            Config::default()
                .debounce(DEBOUNCE)
                .concurrency(CONCURRENCY),
        )
        .graceful_shutdown_on(stop)
        .run(one, failed, Arc::clone(&shared));
    passes
        .for_each_concurrent(usize::from(CONCURRENCY), |ended| async {
            if let Err(error) = ended {
                broken(&shared, error).await;
            }
        })
        .await;
}

/// What of the controller's errors nobody has told of yet.
async fn broken(shared: &Shared, error: Error<PassError, watcher::Error>) {
    match error {
        // Normal where a policy has gone and something of it is still seen.
        Error::ObjectNotFound(gone) => {
            let key = (
                gone.namespace.clone().unwrap_or_default(),
                gone.name.clone(),
            );
            shared.voice.metrics.forget_policy(&key);
            orphans::release(shared, &key).await;
        }
        Error::QueueError(error) => {
            tracing::warn!(%error, "the watch on the hub broke and is begun anew");
        }
        Error::ReconcilerFailed(..) | Error::RunnerError(_) => {}
    }
}

async fn one(policy: Arc<Policy>, shared: Arc<Shared>) -> Result<Action, PassError> {
    let key = key(&policy);
    let uid = policy.uid().unwrap_or_default();
    let began = Instant::now();
    match Box::pin(pass(&shared.clusters, &shared.voice, &shared.memory, &key)).await {
        Ok(Next::Gone) => {
            shared.backoff.succeeded(&uid);
            shared.voice.metrics.pass(PassResult::Gone, began.elapsed());
            shared.voice.metrics.forget_policy(&key);
            Ok(Action::await_change())
        }
        Ok(Next::At(at)) => {
            shared.backoff.succeeded(&uid);
            Ok(Action::requeue(until(at)))
        }
        Ok(Next::Soon(at)) => {
            let wait = shared.backoff.failed(&uid);
            // A region in trouble must not slow the looks at the others.
            Ok(Action::requeue(until(at).min(wait)))
        }
        Err(error) => {
            shared
                .voice
                .metrics
                .pass(PassResult::Failed, began.elapsed());
            if needs_a_person(error.class()) {
                shared
                    .voice
                    .stuck(&policy.object_ref(&()), &error.to_string())
                    .await;
            }
            Err(error)
        }
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the controller hands its arguments over"
)]
fn failed(policy: Arc<Policy>, error: &PassError, shared: Arc<Shared>) -> Action {
    let (namespace, name) = key(&policy);
    let wait = shared.backoff.failed(&policy.uid().unwrap_or_default());
    let class = error.class().as_str();
    tracing::warn!(
        policy = format!("{namespace}/{name}"),
        class,
        "the pass failed: {error}"
    );
    Action::requeue(wait)
}

/// What time alone does not heal is told on the policy itself.
fn needs_a_person(class: Class) -> bool {
    match class {
        Class::Forbidden | Class::Invalid => true,
        Class::Transient | Class::Throttled | Class::Conflict => false,
    }
}

fn key(policy: &Policy) -> PolicyKey {
    (policy.namespace().unwrap_or_default(), policy.name_any())
}

fn until(at: Timestamp) -> Duration {
    let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
    wait.clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn no_wake_is_at_once_and_none_is_for_ever() {
        let now = Timestamp::now();
        assert_eq!(until(now - SignedDuration::from_hours(1)), SHORTEST);
        assert_eq!(until(now + SignedDuration::from_hours(10_000)), LONGEST);
        let soon = until(now + SignedDuration::from_secs(10));
        assert!(
            soon > Duration::from_secs(9) && soon <= Duration::from_secs(10),
            "{soon:?}"
        );
    }
}
