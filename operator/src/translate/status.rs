//! Takes decided reports and the status that stands, gives the status to write: conditions merged so that a transition
//! time moves only with a flip, every string within the bound of its field. Never decides.

use heapfleet_core::decision::Commit;
use heapfleet_core::status::{
    Condition, PolicyReport, RegionCounts, RegionRow, StoredCondition, merge_conditions,
};
use heapfleet_crds as crds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::TranslateError;
use super::attempt::store;
use super::thaw::hash_to_store;
use super::values::stored;

/// Workloads that are named in a policy's status.
const NAMED: usize = 10;

/// The status of an attempt after this pass.
pub fn rollout_status(
    rollout: &crds::AllocatorRollout,
    commit: &Commit,
    now: Timestamp,
) -> Result<crds::AllocatorRolloutStatus, TranslateError> {
    let before = rollout.status.clone().unwrap_or_default();
    let generation = rollout.metadata.generation.unwrap_or_default();
    let report = &commit.report;
    let (position, evidence) = store(&commit.position)?;
    let row = report
        .regions
        .iter()
        .find(|row| row.name.as_str() == report.region);
    Ok(crds::AllocatorRolloutStatus {
        observed_generation: Some(generation),
        phase: Some(phase(&report.phase)),
        region: text(&report.region, 80),
        verdict: verdict(&report.verdict),
        reason: row.and_then(|row| text(&row.reason, 128)),
        message: row.and_then(|row| text(&row.message, 512)),
        position: Some(position),
        evidence,
        regions: report.regions.iter().map(region_row).collect(),
        conditions: conditions(&before.conditions, &report.conditions, generation, now),
    })
}

/// The status of a policy after this pass.
pub fn policy_status(
    policy: &crds::AllocatorPolicy,
    report: &PolicyReport,
    now: Timestamp,
) -> crds::AllocatorPolicyStatus {
    let before = policy.status.clone().unwrap_or_default();
    let generation = policy.metadata.generation.unwrap_or_default();
    let more = report.ineligible.len().saturating_sub(NAMED);
    crds::AllocatorPolicyStatus {
        observed_generation: Some(generation),
        phase: Some(phase(&report.phase)),
        summary: text(&report.summary, 512),
        current_rollout: report.attempt.as_deref().and_then(|name| text(name, 253)),
        plan_hash: report
            .plan_hash
            .as_deref()
            .and_then(|hash| text(hash_to_store(hash), 64)),
        class: Some(policy.spec.allocator.class.to_string()),
        attempts: before.attempts,
        regions: (report.regions != RegionCounts::default()).then(|| counts(report.regions)),
        canary: report.canary.as_ref().map(canary),
        waves: text(&report.waves, 16),
        ineligible: report
            .ineligible
            .iter()
            .take(NAMED)
            .map(ineligible)
            .collect(),
        and_more: (more > 0).then(|| i32::try_from(more).unwrap_or(i32::MAX)),
        conditions: conditions(&before.conditions, &report.conditions, generation, now),
    }
}

fn conditions(
    before: &[meta::Condition],
    decided: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Vec<meta::Condition> {
    let before: Vec<(String, String, Timestamp)> = before
        .iter()
        .map(|condition| {
            (
                condition.type_.clone(),
                condition.status.clone(),
                condition.last_transition_time.0,
            )
        })
        .collect();
    let merged = merge_conditions(&before, decided, generation, whole_seconds(now));
    merged.into_iter().map(condition).collect()
}

fn condition(stored: StoredCondition) -> meta::Condition {
    let StoredCondition {
        condition,
        observed_generation,
        last_transition,
    } = stored;
    meta::Condition {
        type_: condition.kind.as_str().to_owned(),
        status: condition.status.as_str().to_owned(),
        reason: condition.reason.as_str().to_owned(),
        message: condition.message,
        observed_generation: Some(observed_generation),
        last_transition_time: meta::Time(last_transition),
    }
}

/// Times in the API have whole seconds; a fraction would make every comparison with the stored status fail.
pub(super) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn counts(counts: RegionCounts) -> crds::RegionCounts {
    crds::RegionCounts {
        total: stored(counts.total),
        pending: stored(counts.pending),
        active: stored(counts.active),
        succeeded: stored(counts.succeeded),
        failed: stored(counts.failed),
        unknown: stored(counts.unknown),
        rolled_back: stored(counts.rolled_back),
    }
}

fn canary(row: &RegionRow) -> crds::CanaryStatus {
    let ratios = (!row.ratio.is_empty() || !row.control_ratio.is_empty()).then(|| {
        let or_dash = |ratio: &str| {
            if ratio.is_empty() {
                "-".to_owned()
            } else {
                ratio.to_owned()
            }
        };
        format!("{} / {}", or_dash(&row.ratio), or_dash(&row.control_ratio))
    });
    crds::CanaryStatus {
        region: text(row.name.as_str(), 63),
        ratio: text(&row.ratio, 16),
        control_ratio: text(&row.control_ratio, 16),
        ratios,
        change: text(&row.change, 16),
        verdict: verdict(&row.verdict),
        reason: text(&row.reason, 128),
        blocks: Some(stored(row.blocks)),
        blocks_needed: Some(stored(row.blocks_needed)),
    }
}

fn ineligible(row: &heapfleet_core::status::IneligibleRow) -> crds::IneligibleWorkload {
    crds::IneligibleWorkload {
        name: clip(&row.workload, 300),
        region: text(row.region.as_str(), 63),
        reason: row.reason.as_str().to_owned(),
        message: text(&row.message, 512),
    }
}

fn region_row(row: &RegionRow) -> crds::RegionRow {
    crds::RegionRow {
        name: row.name.as_str().to_owned(),
        wave: text(&row.wave, 63),
        state: region_state(&row.state),
        workloads: Some(stored(row.workloads)),
        injected: Some(stored(row.injected)),
        proven: all_proven(&row.proven).then(|| stored(row.injected)),
        bake_started: row.bake_started.map(|at| meta::Time(whole_seconds(at))),
        blocks: Some(stored(row.blocks)),
        blocks_needed: Some(stored(row.blocks_needed)),
        ratio: text(&row.ratio, 16),
        control_ratio: text(&row.control_ratio, 16),
        change: text(&row.change, 16),
        interval: text(&row.interval, 40),
        verdict: verdict(&row.verdict),
        reason: text(&row.reason, 128),
        message: text(&row.message, 512),
        assumptions: row
            .assumptions
            .iter()
            .take(8)
            .map(|text| clip(text, 128))
            .collect(),
        diagnosis: row
            .diagnosis
            .iter()
            .take(8)
            .map(|text| clip(text, 64))
            .collect(),
        queries: Vec::new(),
    }
}

/// The report counts pods (`2/2`), the row workloads: all of them are proved when all of the pods are.
fn all_proven(pods: &str) -> bool {
    pods.split_once('/')
        .is_some_and(|(proved, all)| proved == all && all != "0")
}

fn phase(word: &str) -> crds::Phase {
    match word {
        "Planning" => crds::Phase::Preflight,
        "Baseline" => crds::Phase::Baseline,
        "Injecting" => crds::Phase::Injecting,
        "Verifying" => crds::Phase::Verifying,
        "Baking" => crds::Phase::Baking,
        "AwaitingApproval" => crds::Phase::AwaitingApproval,
        "Promoting" => crds::Phase::Promoting,
        "Paused" => crds::Phase::Paused,
        "Held" => crds::Phase::Held,
        "Frozen" => crds::Phase::Frozen,
        "RollingBack" => crds::Phase::RollingBack,
        "RollbackPending" => crds::Phase::RollbackPending,
        "RolledBack" => crds::Phase::RolledBack,
        "Promoted" => crds::Phase::Complete,
        "Superseded" => crds::Phase::Superseded,
        "Stalled" | "RestoreUnverified" => crds::Phase::Stalled,
        "Terminating" => crds::Phase::Terminating,
        _ => crds::Phase::Pending,
    }
}

fn region_state(word: &str) -> crds::RegionState {
    match word {
        "Injecting" => crds::RegionState::Injecting,
        "Verifying" => crds::RegionState::Verifying,
        "Baking" => crds::RegionState::Baking,
        "Passed" | "NothingToDo" => crds::RegionState::Promoted,
        "Held" => crds::RegionState::Held,
        "Failed" | "RestoreUnverified" => crds::RegionState::Failed,
        "RollingBack" => crds::RegionState::RollingBack,
        "RollbackPending" => crds::RegionState::RollbackPending,
        "RolledBack" => crds::RegionState::RolledBack,
        "Skipped" => crds::RegionState::Skipped,
        "Unknown" => crds::RegionState::Unknown,
        _ => crds::RegionState::Pending,
    }
}

fn verdict(word: &str) -> Option<crds::Verdict> {
    match word {
        "Pass" => Some(crds::Verdict::Pass),
        "Inconclusive" => Some(crds::Verdict::Inconclusive),
        "InsufficientData" => Some(crds::Verdict::InsufficientData),
        "Fail" => Some(crds::Verdict::Fail),
        _ => None,
    }
}

/// Empty text is an absent field.
fn text(text: &str, longest: usize) -> Option<String> {
    (!text.is_empty()).then(|| clip(text, longest))
}

/// At most `longest` characters, which is how the schema counts.
pub(super) fn clip(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}
