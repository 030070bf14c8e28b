//! Takes an attempt's position and what is waited for, gives the conditions that people and `kubectl wait` rely on.
//! `Unknown` is said where nobody knows; it is never used for "not yet".

use super::report::Subject;
use super::{Condition, ConditionType, Truth};
use crate::decision::{Finding, Reason};
use crate::rollout::{Outcome, RegionState, Stage, WorkStage};
use crate::world::World;

fn condition(
    kind: ConditionType,
    status: Truth,
    reason: Reason,
    message: impl Into<String>,
) -> Condition {
    Condition {
        kind,
        status,
        reason,
        message: bounded(message.into()),
    }
}

/// Messages are at most 512 bytes, cut at a character.
fn bounded(message: String) -> String {
    const LONGEST: usize = 512;
    if message.len() <= LONGEST {
        return message;
    }
    let mut cut: String = message
        .chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= LONGEST - 3).then_some(c)
        })
        .collect();
    cut.push('…');
    cut
}

/// Conditions that the policy has whether or not an attempt exists.
pub(super) fn policy_only(world: &World) -> Vec<Condition> {
    let accepted = match &world.intent {
        Ok(_) => condition(
            ConditionType::Accepted,
            Truth::True,
            Reason::Valid,
            "The policy can be planned.",
        ),
        Err(refusal) => condition(
            ConditionType::Accepted,
            Truth::False,
            refusal.reason,
            refusal.message.clone(),
        ),
    };
    let suspended = if world.policy.suspend {
        condition(
            ConditionType::Suspended,
            Truth::True,
            Reason::UserRequested,
            "spec.suspend is true.",
        )
    } else {
        condition(
            ConditionType::Suspended,
            Truth::False,
            Reason::NotSuspended,
            "spec.suspend is false.",
        )
    };
    vec![accepted, suspended]
}

/// Conditions of a policy without an attempt.
pub(super) fn without_attempt(world: &World) -> Vec<Condition> {
    let mut all = policy_only(world);
    match &world.intent {
        Ok(_) => {
            all.push(condition(
                ConditionType::Ready,
                Truth::False,
                Reason::Progressing,
                "The attempt is being made.",
            ));
            all.push(condition(
                ConditionType::Reconciling,
                Truth::True,
                Reason::Progressing,
                "The attempt is being made.",
            ));
        }
        Err(refusal) => {
            all.push(condition(
                ConditionType::Ready,
                Truth::False,
                refusal.reason,
                refusal.message.clone(),
            ));
            all.push(condition(
                ConditionType::Stalled,
                Truth::True,
                refusal.reason,
                refusal.message.clone(),
            ));
        }
    }
    all
}

/// Conditions that an attempt speaks for.
pub(super) fn attempt_conditions(subject: &Subject<'_>) -> Vec<Condition> {
    let mut all = vec![
        ready(subject),
        reachable(subject),
        injected(subject),
        verified(subject),
        healthy(subject),
        promoted(subject),
    ];
    all.extend(activity(subject));
    all.extend(rolled_back(subject));
    all
}

fn waiting<'a>(subject: &Subject<'a>, wanted: &[Reason]) -> Option<&'a Finding> {
    subject
        .findings
        .iter()
        .find(|finding| wanted.contains(&finding.reason))
}

fn ready(subject: &Subject<'_>) -> Condition {
    let (status, reason, message) = if let Some(ending) = &subject.position.ending {
        let (status, reason) = match ending.outcome {
            Outcome::Promoted => (Truth::True, Reason::RolloutComplete),
            Outcome::RolledBack => (Truth::False, Reason::RolledBack),
            Outcome::Unverified => (Truth::False, Reason::RestoreUnverified),
            Outcome::Frozen => (Truth::False, Reason::Frozen),
            Outcome::Superseded => (Truth::False, Reason::Superseded),
        };
        (status, reason, ending.message.clone())
    } else if let Some(held) = &subject.position.held {
        (Truth::False, Reason::Held, held.message.clone())
    } else if let Some(gate) = waiting(subject, &[Reason::AwaitingApproval, Reason::Paused]) {
        (Truth::False, gate.reason, gate.message.clone())
    } else {
        (
            Truth::False,
            Reason::Progressing,
            format!("The attempt is {}.", phase_words(subject)),
        )
    };
    condition(ConditionType::Ready, status, reason, message)
}

fn phase_words(subject: &Subject<'_>) -> String {
    subject.focus().map_or_else(
        || "beginning".to_owned(),
        |region| format!("at work in region {region} ({})", subject.phase()),
    )
}

/// `Reconciling` and `Stalled` are absent when idle.
fn activity(subject: &Subject<'_>) -> Option<Condition> {
    if let Some(ending) = &subject.position.ending {
        return (ending.outcome == Outcome::Unverified).then(|| {
            condition(
                ConditionType::Stalled,
                Truth::True,
                Reason::RestoreUnverified,
                ending.message.clone(),
            )
        });
    }
    if let Some(held) = &subject.position.held {
        return Some(condition(
            ConditionType::Stalled,
            Truth::True,
            held.reason,
            format!(
                "{} Approve gate {}, or set spec.state to Abort.",
                held.message,
                held.gate()
            ),
        ));
    }
    Some(condition(
        ConditionType::Reconciling,
        Truth::True,
        Reason::Progressing,
        format!("The attempt is {}.", phase_words(subject)),
    ))
}

fn reachable(subject: &Subject<'_>) -> Condition {
    let unseen = waiting(
        subject,
        &[Reason::SomeUnreachable, Reason::PrometheusUnreachable],
    );
    match unseen {
        Some(finding) => condition(
            ConditionType::RegionsReachable,
            Truth::False,
            finding.reason,
            finding.message.clone(),
        ),
        None => condition(
            ConditionType::RegionsReachable,
            Truth::True,
            Reason::AllReachable,
            "Every region that matters now answers.",
        ),
    }
}

fn injected(subject: &Subject<'_>) -> Condition {
    let kind = ConditionType::Injected;
    let begun = |wanted: &dyn Fn(&WorkStage) -> bool| {
        subject
            .position
            .regions
            .values()
            .flat_map(|state| state.workloads.values())
            .any(|work| wanted(&work.stage))
    };
    let released = subject
        .position
        .regions
        .values()
        .flat_map(|state| state.workloads.values())
        .find_map(|work| {
            if let WorkStage::Released(reason) = &work.stage {
                Some(*reason)
            } else {
                None
            }
        });
    if let Some(reason) = released {
        return condition(
            kind,
            Truth::False,
            reason,
            "At least one workload was taken back by its owner and is left alone.",
        );
    }
    if let Some(finding) = waiting(
        subject,
        &[
            Reason::WorkloadsPending,
            Reason::ControlRestartWouldInterrupt,
            Reason::NamespaceNotOptedIn,
        ],
    ) {
        return condition(kind, Truth::False, finding.reason, finding.message.clone());
    }
    if let Some(held) = subject
        .position
        .held
        .as_ref()
        .filter(|held| held.reason == Reason::NoEligibleWorkloads)
    {
        return condition(kind, Truth::False, held.reason, held.message.clone());
    }
    if begun(&|stage| {
        matches!(
            stage,
            WorkStage::Undoing | WorkStage::Restored(_) | WorkStage::Unrestored(_)
        )
    }) {
        return condition(
            kind,
            Truth::False,
            Reason::RolledBack,
            "The change was or is being undone.",
        );
    }
    if begun(&|stage| matches!(stage, WorkStage::Waiting | WorkStage::Injecting))
        || !begun(&|stage| *stage == WorkStage::Injected)
    {
        return condition(
            kind,
            Truth::False,
            Reason::WorkloadsPending,
            "Workloads are still to be changed.",
        );
    }
    condition(
        kind,
        Truth::True,
        Reason::AllInjected,
        "Every workload of the regions in turn runs with the change.",
    )
}

fn verified(subject: &Subject<'_>) -> Condition {
    let kind = ConditionType::AllocatorVerified;
    let failed = subject.position.regions.values().find_map(|state| {
        state
            .failed
            .as_ref()
            .filter(|(reason, _)| *reason == Reason::AllocatorNotActive)
    });
    if let Some((_, message)) = failed {
        return condition(kind, Truth::False, Reason::PreloadIgnored, message.clone());
    }
    if let Some(finding) = waiting(subject, &[Reason::PreloadIgnored, Reason::PartiallyProven]) {
        return condition(kind, Truth::False, finding.reason, finding.message.clone());
    }
    if let Some(finding) = waiting(subject, &[Reason::ProofMissing]) {
        return condition(
            kind,
            Truth::Unknown,
            finding.reason,
            finding.message.clone(),
        );
    }
    let changed = |state: &&RegionState| state.changed();
    let proved = |state: &RegionState| {
        matches!(state.stage, Stage::Baking | Stage::Passed) && state.bake_started.is_some()
    };
    let mut regions = subject.position.regions.values().filter(changed).peekable();
    if regions.peek().is_none() {
        return condition(
            kind,
            Truth::Unknown,
            Reason::NotInjected,
            "No workload carries the change.",
        );
    }
    if regions.all(proved) {
        return condition(
            kind,
            Truth::True,
            Reason::Verified,
            format!("Every changed pod proves {}.", subject.plan.allocator.name),
        );
    }
    condition(
        kind,
        Truth::False,
        Reason::WorkloadsPending,
        "The newest changes are still to be proved.",
    )
}

fn healthy(subject: &Subject<'_>) -> Condition {
    let kind = ConditionType::CanaryHealthy;
    let Some((region, state)) = subject
        .canary()
        .and_then(|canary| Some((canary, subject.state(canary)?)))
    else {
        return condition(
            kind,
            Truth::Unknown,
            Reason::NotObserved,
            "The canary has not begun.",
        );
    };
    if let Some((reason, message)) = &state.failed {
        return condition(kind, Truth::False, *reason, message.clone());
    }
    if state.stage == Stage::Passed {
        let message = state
            .look
            .as_ref()
            .map(|look| look.message.clone())
            .unwrap_or_default();
        return condition(kind, Truth::True, Reason::NonInferior, message);
    }
    if let Some(finding) = waiting(
        subject,
        &[Reason::SomeUnreachable, Reason::PrometheusUnreachable],
    ) {
        return condition(
            kind,
            Truth::Unknown,
            finding.reason,
            finding.message.clone(),
        );
    }
    let look = state.look.as_ref();
    match (state.stage, look) {
        (Stage::Baseline, _) => {
            let message = look.map_or_else(
                || format!("The baseline of {region} is being read."),
                |look| look.message.clone(),
            );
            condition(kind, Truth::Unknown, Reason::Baseline, message)
        }
        (Stage::Baking, Some(look)) if look.verdict == "InsufficientData" => condition(
            kind,
            Truth::Unknown,
            Reason::InsufficientData,
            look.message.clone(),
        ),
        (Stage::Baking, Some(look)) if look.verdict == "Inconclusive" => condition(
            kind,
            Truth::Unknown,
            Reason::Inconclusive,
            look.message.clone(),
        ),
        _ => condition(
            kind,
            Truth::Unknown,
            Reason::Progressing,
            format!("The canary {region} is not judged yet."),
        ),
    }
}

fn promoted(subject: &Subject<'_>) -> Condition {
    let kind = ConditionType::Promoted;
    if let Some(ending) = &subject.position.ending {
        return match ending.outcome {
            Outcome::Promoted => condition(
                kind,
                Truth::True,
                Reason::AllWavesComplete,
                ending.message.clone(),
            ),
            Outcome::RolledBack | Outcome::Unverified | Outcome::Frozen | Outcome::Superseded => {
                condition(kind, Truth::False, ending.reason, ending.message.clone())
            }
        };
    }
    if let Some(held) = &subject.position.held {
        return condition(kind, Truth::False, Reason::Held, held.message.clone());
    }
    if let Some(gate) = waiting(subject, &[Reason::AwaitingApproval]) {
        return condition(kind, Truth::False, gate.reason, gate.message.clone());
    }
    let wave = subject
        .plan
        .waves
        .get(subject.position.wave)
        .map_or("", |wave| wave.name.as_str());
    condition(
        kind,
        Truth::False,
        Reason::WaveInProgress,
        format!("Wave {wave} is at work."),
    )
}

/// Absent until an undo was ordered.
fn rolled_back(subject: &Subject<'_>) -> Option<Condition> {
    let kind = ConditionType::RolledBack;
    if let Some(pending) = waiting(subject, &[Reason::RollbackPending]) {
        return Some(condition(
            kind,
            Truth::Unknown,
            pending.reason,
            pending.message.clone(),
        ));
    }
    if let Some(undo) = &subject.position.undo {
        return Some(condition(
            kind,
            Truth::False,
            Reason::InProgress,
            undo.message.clone(),
        ));
    }
    let ending = subject.position.ending.as_ref()?;
    match ending.outcome {
        Outcome::RolledBack => Some(condition(
            kind,
            Truth::True,
            ending.reason,
            ending.message.clone(),
        )),
        Outcome::Unverified => Some(condition(
            kind,
            Truth::False,
            Reason::RestoreUnverified,
            ending.message.clone(),
        )),
        Outcome::Promoted | Outcome::Frozen | Outcome::Superseded => None,
    }
}
