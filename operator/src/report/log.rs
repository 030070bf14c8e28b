//! Takes what a pass did, gives one INFO line if the pass changed something, none otherwise. Never decides.

use std::collections::BTreeMap;

use heapfleet_core::decision::Decision;
use heapfleet_core::status::ConditionType;

use super::Pass;
use crate::receipt::{Outcome, Receipt};

/// The fields of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// `namespace/name`.
    pub policy: String,
    /// The region that the pass was about; empty: the fleet.
    pub region: String,
    /// The policy's phase, for people.
    pub phase: String,
    /// What was written: `commit, Inject, Evict x2`.
    pub decision: String,
    /// Of the closed set, or an event's.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// The line of a pass, or `None` if it changed nothing.
pub(super) fn line(pass: &Pass<'_>) -> Option<Line> {
    let decision = written(pass)?;
    let Decision {
        policy,
        events,
        findings,
        commit,
        ..
    } = pass.decision;
    let event = events.first();
    let finding = findings.first();
    let ready = policy
        .conditions
        .iter()
        .find(|condition| condition.kind == ConditionType::Ready);
    let region = event
        .and_then(|event| event.region.as_ref())
        .or_else(|| finding.and_then(|finding| finding.region.as_ref()))
        .map(|region| region.as_str().to_owned())
        .or_else(|| commit.as_ref().map(|commit| commit.report.region.clone()))
        .unwrap_or_default();
    let reason = event
        .map(|event| event.reason.clone())
        .or_else(|| finding.map(|finding| finding.reason.to_string()))
        .or_else(|| ready.map(|ready| ready.reason.to_string()))
        .unwrap_or_default();
    let message = event
        .map(|event| event.note.clone())
        .or_else(|| finding.map(|finding| finding.message.clone()))
        .unwrap_or_else(|| policy.summary.clone());
    Some(Line {
        policy: format!("{}/{}", pass.key.0, pass.key.1),
        region,
        phase: policy.phase.clone(),
        decision,
        reason,
        message,
    })
}

fn written(pass: &Pass<'_>) -> Option<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for receipt in pass.receipts.iter().filter(|receipt| changes(receipt)) {
        *counts.entry(receipt.action).or_default() += 1;
    }
    let mut words: Vec<String> = Vec::new();
    if pass.committed {
        words.push("commit".to_owned());
    }
    words.extend(counts.into_iter().map(|(action, count)| match count {
        1 => action.to_owned(),
        more => format!("{action} x{more}"),
    }));
    if words.is_empty() {
        return pass.told.then(|| "report".to_owned());
    }
    Some(words.join(", "))
}

/// Whether the act did or may have done something. A no is told apart, and not in every pass.
fn changes(receipt: &Receipt) -> bool {
    match receipt.outcome {
        Outcome::Applied | Outcome::Failed { .. } => true,
        Outcome::AlreadyDone | Outcome::LookAgain | Outcome::Refused { .. } => false,
    }
}

/// Writes the line.
pub(super) fn write(pass: &Pass<'_>) {
    if let Some(Line {
        policy,
        region,
        phase,
        decision,
        reason,
        message,
    }) = line(pass)
    {
        tracing::info!(policy, region, phase, decision, reason, "{message}");
    }
    pass.receipts.iter().for_each(detail);
}

/// What went wrong, for those who look closer.
fn detail(receipt: &Receipt) {
    let Receipt {
        action,
        object,
        outcome,
        ..
    } = receipt;
    if let (Some(class), Some(message)) = (outcome.class(), outcome.message()) {
        let (outcome, class) = (outcome.as_str(), class.as_str());
        tracing::debug!(action, object, outcome, class, "{message}");
    }
}
