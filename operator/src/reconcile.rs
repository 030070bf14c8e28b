//! One pass over one policy: observe, decide, act, report; and nothing else. Takes the name of a policy, gives when to
//! look again. Whatever a pass must know, it reads; whatever the next must know, it has written. What is kept in memory only
//! spares reading.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use heapfleet_core::decide::decide;
use heapfleet_core::world::Running;
use jiff::Timestamp;
use kube::Resource as _;

use crate::act::{self, ActError, Committed};
use crate::clusters::{Class, Clusters};
use crate::observe::{self, ObserveError, Seen};
use crate::receipt::{Outcome, Receipt};
use crate::report::{Pass, PassResult, PolicyKey, Voice};

/// Why a pass ended before it could act.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The world could not be read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The status could not be written.
    #[error(transparent)]
    Act(#[from] ActError),
}

impl PassError {
    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Observe(error) => error.class(),
            Self::Act(error) => error.class(),
        }
    }
}

/// How a pass that could act ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The policy is gone.
    Gone,
    /// Look again then.
    At(Timestamp),
    /// Something failed or moved: look again after a back-off, at the latest then.
    Soon(Timestamp),
}

/// What passes leave for the next over the same policy, to spare it work; a restart forgets it, and nothing else is lost.
#[derive(Debug, Default)]
pub struct Memory(Mutex<BTreeMap<PolicyKey, Running>>);

impl Memory {
    fn take(&self, key: &PolicyKey) -> Running {
        self.all().remove(key).unwrap_or_default()
    }

    fn put(&self, key: &PolicyKey, running: Running) {
        if !running.is_empty() {
            self.all().insert(key.clone(), running);
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<PolicyKey, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One pass.
pub async fn pass(
    clusters: &Clusters,
    voice: &Voice,
    memory: &Memory,
    key: &PolicyKey,
) -> Result<Next, PassError> {
    let (now, began) = (Timestamp::now(), Instant::now());
    let running = memory.take(key);
    let Some(seen) = observe::world(clusters, &key.0, &key.1, now, running).await? else {
        return Ok(Next::Gone);
    };
    let mut decision = decide(&seen.world);
    memory.put(key, std::mem::take(&mut decision.running));
    let scene = scene(clusters, &seen);
    let committed = act::commit(&scene, &decision, now).await?;
    let receipts = if committed.moved {
        Vec::new()
    } else {
        act::carry_out(&scene, &committed, &decision.actions).await
    };
    let told = Pass {
        key,
        policy: &seen.policy.object_ref(&()),
        class: seen.policy.spec.allocator.class.as_str(),
        now,
        decision: &decision,
        settled: committed.stands(),
        committed: committed.attempt,
        told: committed.policy,
        receipts: &receipts,
        result: result(&committed, &receipts),
        took: began.elapsed(),
    };
    voice.tell(&told).await;
    let troubled = committed.moved || receipts.iter().any(troubled);
    Ok(if troubled {
        Next::Soon(decision.wake_at)
    } else {
        Next::At(decision.wake_at)
    })
}

fn scene<'a>(clusters: &Clusters, seen: &'a Seen) -> act::Scene<'a> {
    let regions = seen.clusters.iter();
    act::Scene {
        hub: clusters.hub_writer(),
        policy: &seen.policy,
        rollouts: &seen.rollouts,
        frozen: seen.frozen.as_ref(),
        regions: regions
            .map(|(name, cluster)| (name.clone(), cluster.writer()))
            .collect(),
    }
}

fn result(committed: &Committed, receipts: &[Receipt]) -> PassResult {
    let applied = receipts
        .iter()
        .any(|receipt| receipt.outcome == Outcome::Applied);
    if committed.moved {
        PassResult::Conflict
    } else if committed.attempt || committed.policy || applied {
        PassResult::Changed
    } else {
        PassResult::Unchanged
    }
}

fn troubled(receipt: &Receipt) -> bool {
    match receipt.outcome {
        Outcome::Failed { .. } | Outcome::Refused { .. } | Outcome::LookAgain => true,
        Outcome::Applied | Outcome::AlreadyDone => false,
    }
}
