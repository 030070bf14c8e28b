//! Takes nothing, gives the types of a policy's status: what people and columns read. Must never hold what a decision
//! reads (that is the rollout's status).

use super::{Phase, Verdict};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the policy's rollout stands, rolled up from the current `AllocatorRollout`. Machines read the conditions.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatorPolicyStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What is going on, for printing. Machines read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// One sentence: the region, what it waits for, the ratios. At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub summary: Option<String>,

    /// The name of the current `AllocatorRollout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub current_rollout: Option<String>,

    /// The hash of the current plan, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub plan_hash: Option<String>,

    /// The class that is rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub class: Option<String>,

    /// How many attempts (rollouts) there were for the current plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,

    /// Regions by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionCounts>,

    /// The canary's numbers at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,

    /// Waves that are complete, of all waves, the canary included, such as "2/5".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub waves: Option<String>,

    /// Workloads that are refused, the first ten; `andMore` counts the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ineligible: Vec<IneligibleWorkload>,

    /// How many more workloads are refused than `ineligible` lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub and_more: Option<i32>,

    /// `Ready`, `Reconciling`, `Stalled`, `Accepted`, `RegionsReachable`, `Injected`, `AllocatorVerified`, `CanaryHealthy`,
    /// `Promoted`, `RolledBack`, `Suspended`. Each has a page for each of its reasons in the runbook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Regions by state; each region is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegionCounts {
    /// All regions of the plan, the canary included.
    #[serde(default)]
    pub total: i32,
    /// Regions whose turn has not come.
    #[serde(default)]
    pub pending: i32,
    /// Regions that are being changed, proved or judged, or are held.
    #[serde(default)]
    pub active: i32,
    /// Regions that are promoted.
    #[serde(default)]
    pub succeeded: i32,
    /// Regions that failed and are not restored.
    #[serde(default)]
    pub failed: i32,
    /// Regions that are not seen, so that nobody knows.
    #[serde(default)]
    pub unknown: i32,
    /// Regions that are restored.
    #[serde(default)]
    pub rolled_back: i32,
}

/// The canary's numbers at the last look.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// The canary region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub region: Option<String>,

    /// RSS divided by cache bytes in the canary region, such as "1.04".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ratio: Option<String>,

    /// RSS divided by cache bytes in the control regions, such as "2.31".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub control_ratio: Option<String>,

    /// Both, for the column: canary / control, such as "1.04 / 2.31".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub ratios: Option<String>,

    /// The canary's change against the control, each against its own baseline, such as "-55%".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub change: Option<String>,

    /// The verdict of the last look: `Pass`, `Inconclusive`, `InsufficientData` or `Fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,

    /// The reason of the verdict, with the metric behind a colon where it has one, such as `Underpowered:p99`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,

    /// Blocks of evidence accepted so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<i32>,

    /// Blocks of evidence needed at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_needed: Option<i32>,
}

/// A workload that is refused, and why.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IneligibleWorkload {
    /// The workload's kind and name, such as `Deployment/trace-legacy`.
    #[schemars(length(max = 300))]
    pub name: String,

    /// The region in which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub region: Option<String>,

    /// Why, as one word, such as `AmbiguousContainer`.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// Why and what to do, as one sentence. At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}
