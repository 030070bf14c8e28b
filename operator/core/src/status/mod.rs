//! Takes what was decided, gives what people see: conditions and ready-made strings. Never decides, never reads a clock.

mod conditions;
mod report;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::Reason;
use crate::names::{Region, words};
pub use report::{Subject, policy_report, rollout_report};

/// A condition as decided; times are added when it is merged with the stored one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its type.
    pub kind: ConditionType,
    /// True, False or Unknown.
    pub status: Truth,
    /// Of the closed set.
    pub reason: Reason,
    /// One sentence without volatile text, at most 512 bytes.
    pub message: String,
}

words! {
    /// Types of conditions.
    ConditionType {
    /// All that was asked for is done.
    Ready,
    /// Work is going on (absent when not).
    Reconciling,
    /// Nothing goes on without a person (absent when not so).
    Stalled,
    /// The policy is valid and its references exist.
    Accepted,
    /// The regions that matter now answer.
    RegionsReachable,
    /// The workloads of the regions in turn are changed.
    Injected,
    /// Every changed pod proves the allocator.
    AllocatorVerified,
    /// The judge has nothing against the canary.
    CanaryHealthy,
    /// All waves are done.
    Promoted,
    /// The change was undone, and that is proved.
    RolledBack,
    /// A person suspended the policy or paused the attempt.
    Suspended,
    }
}

/// The three values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows; satisfies no wait.
    Unknown,
}

impl Truth {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCondition {
    /// The decided part.
    pub condition: Condition,
    /// The generation that it speaks of.
    pub observed_generation: i64,
    /// When its status last flipped.
    pub last_transition: Timestamp,
}

/// Conditions to store: the transition time moves only when the status flips; types that were not decided go.
pub fn merge_conditions(
    stored: &[(String, String, Timestamp)],
    decided: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Vec<StoredCondition> {
    decided
        .iter()
        .map(|condition| {
            let before = stored.iter().find(|(kind, status, _)| {
                kind == condition.kind.as_str() && status == condition.status.as_str()
            });
            StoredCondition {
                condition: condition.clone(),
                observed_generation: generation,
                last_transition: before.map_or(now, |(_, _, at)| *at),
            }
        })
        .collect()
}

/// What the policy's status says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// For printing; machines read conditions.
    pub phase: String,
    /// One sentence for people.
    pub summary: String,
    /// The attempt that speaks for the policy.
    pub attempt: Option<String>,
    /// Its plan hash.
    pub plan_hash: Option<String>,
    /// The canary region and its newest numbers.
    pub canary: Option<RegionRow>,
    /// Waves done of all: `2/5`.
    pub waves: String,
    /// Regions counted by state.
    pub regions: RegionCounts,
    /// Workloads that are left alone: region, workload, reason, message.
    pub ineligible: Vec<IneligibleRow>,
    /// All decided conditions.
    pub conditions: Vec<Condition>,
}

/// A workload that is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IneligibleRow {
    /// Its region.
    pub region: Region,
    /// `Kind/name`.
    pub workload: String,
    /// Of the closed set.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

/// Regions counted by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionCounts {
    /// All regions of the plan.
    pub total: u32,
    /// Not started.
    pub pending: u32,
    /// In change or in judgement.
    pub active: u32,
    /// Passed.
    pub succeeded: u32,
    /// Failed, not (yet) undone.
    pub failed: u32,
    /// Undone.
    pub rolled_back: u32,
    /// Not reachable now.
    pub unknown: u32,
}

/// What the attempt's status says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutReport {
    /// For printing; derived from the position, never read back.
    pub phase: String,
    /// The region that is looked at now, for printing.
    pub region: String,
    /// Its verdict, for printing.
    pub verdict: String,
    /// One row per region, in the order of the plan.
    pub regions: Vec<RegionRow>,
    /// Conditions of the attempt.
    pub conditions: Vec<Condition>,
}

/// One region in an attempt, ready for printing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionRow {
    /// The region.
    pub name: Region,
    /// Its wave.
    pub wave: String,
    /// Its stage.
    pub state: String,
    /// Workloads to change.
    pub workloads: u32,
    /// Workloads changed.
    pub injected: u32,
    /// Pods that prove the allocator, of all judged pods, as `2/2`.
    pub proven: String,
    /// When blocks began to count.
    pub bake_started: Option<Timestamp>,
    /// Accepted blocks.
    pub blocks: u32,
    /// Accepted blocks that a Pass needs at least.
    pub blocks_needed: u32,
    /// RSS ÷ cache of the region, two decimals.
    pub ratio: String,
    /// RSS ÷ cache of its control, two decimals.
    pub control_ratio: String,
    /// Change against what it would have been, as `-54.0%`.
    pub change: String,
    /// Its bounds, as `-56.1% … -51.9%`.
    pub interval: String,
    /// The judge's verdict.
    pub verdict: String,
    /// The judge's or the rollout's reason.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// What was assumed for want of a series or a proof.
    pub assumptions: Vec<String>,
    /// What the curves look like.
    pub diagnosis: Vec<String>,
}
