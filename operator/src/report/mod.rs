//! Takes what was decided and what came of it, tells people: events, metrics, one log line. Never reads the world, never
//! writes state; a failure here changes nothing but a counter.

mod events;
mod judged;
mod log;
mod metrics;
#[cfg(test)]
mod tests;

use std::time::Duration;

use heapfleet_core::decision::Decision;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;

pub use events::Events;
pub use metrics::{Metrics, PassResult, PolicyKey, Ratios};

use crate::receipt::Receipt;

/// What one pass did, for people.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// Namespace and name of the policy.
    pub key: &'a PolicyKey,
    /// The policy, as events name it.
    pub policy: &'a ObjectReference,
    /// The class that the policy names.
    pub class: &'a str,
    /// When the pass looked.
    pub now: Timestamp,
    /// What was decided.
    pub decision: &'a Decision,
    /// Whether a state was committed, or none had to be: only then do transitions become events.
    pub settled: bool,
    /// Whether the attempt's status was written.
    pub committed: bool,
    /// Whether the policy's status was written.
    pub told: bool,
    /// What the acts came to.
    pub receipts: &'a [Receipt],
    /// How the pass ended.
    pub result: PassResult,
    /// How long it took.
    pub took: Duration,
}

/// Everything that speaks to people; one for the process.
#[derive(Debug)]
pub struct Voice {
    events: Events,
    /// The operator's own numbers.
    pub metrics: Metrics,
}

impl Voice {
    /// Speaks through the hub; `instance` is the name of our own pod.
    pub fn new(hub: Client, instance: Option<String>) -> Self {
        Self {
            events: Events::new(hub, instance),
            metrics: Metrics::new(),
        }
    }

    /// Tells of one pass.
    pub async fn tell(&self, pass: &Pass<'_>) {
        count(&self.metrics, pass);
        log::write(pass);
        let attempt = pass
            .decision
            .policy
            .attempt
            .as_ref()
            .map(|name| attempt(pass, name));
        if pass.settled {
            let decided = &pass.decision.events;
            self.events
                .publish(pass.policy, attempt.as_ref(), decided, &self.metrics)
                .await;
        }
        for refusal in pass.receipts.iter().filter_map(events::refusal) {
            self.events
                .trouble(pass.policy, refusal, &self.metrics)
                .await;
        }
    }

    /// Tells of a pass that could not look or could not write, for a reason that a person has to remove.
    pub async fn stuck(&self, policy: &ObjectReference, because: &str) {
        self.events
            .trouble(
                policy,
                events::trouble("PassFailed", because),
                &self.metrics,
            )
            .await;
    }
}

fn attempt(pass: &Pass<'_>, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: pass.policy.api_version.clone(),
        kind: Some("AllocatorRollout".to_owned()),
        namespace: pass.policy.namespace.clone(),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

fn count(metrics: &Metrics, pass: &Pass<'_>) {
    metrics.pass(pass.result, pass.took);
    for receipt in pass.receipts {
        metrics.act(receipt);
    }
    let report = &pass.decision.policy;
    let ratios = report
        .canary
        .as_ref()
        .map_or_else(Ratios::default, |row| Ratios {
            canary: row.ratio.parse().ok(),
            control: row.control_ratio.parse().ok(),
        });
    metrics.policy(pass.key, pass.class, &report.phase, ratios);
    metrics.judge.tell(pass.key, pass.decision);
    for look in &pass.decision.looks {
        metrics.look(look.whole);
    }
    let Some(commit) = pass.decision.commit.as_ref().filter(|_| pass.committed) else {
        return;
    };
    for row in commit
        .report
        .regions
        .iter()
        .filter(|row| !row.verdict.is_empty())
    {
        metrics.verdict(pass.key, row.name.as_str(), &row.verdict);
    }
    if let Some(undo) = commit
        .position
        .undo
        .as_ref()
        .filter(|undo| undo.since == pass.now)
    {
        metrics.rollback(undo.reason.as_str());
    }
}
