//! Takes nothing, gives the types of a rollout's status: its position and evidence (for the operator), and its rows (for
//! people). Must never grow with time: every list and string has a bound.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the rollout stands. The operator resumes from `position` and `evidence` alone; everything else is for people.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatorRolloutStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What is going on, for printing; derived from the position, never read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// The region in work, for printing; the first of several, with "+N" for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub region: Option<String>,

    /// The verdict of the last look at the region in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,

    /// Why the rollout stands where it stands, as one word, with the metric behind a colon where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,

    /// The same as one sentence. At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,

    /// The operator's own schedule state: instants, accumulated bakes, resets, attempts. Not for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,

    /// The judge's evidence for each region in judgement; finished regions keep only their row. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["region".into()]))]
    pub evidence: Vec<Evidence>,

    /// One row for each region. At most 2048.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2048))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub regions: Vec<RegionRow>,

    /// The policy's conditions, for this attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The operator's own schedule state, written before anything is done.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// The version of the form of `data`; an operator that does not know it stops instead of guessing.
    pub version: i32,

    /// The state, as JSON. At most 131072 characters.
    #[schemars(length(max = 131_072))]
    pub data: String,
}

/// The judge's evidence for one region.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The region.
    #[schemars(length(min = 1, max = 63))]
    pub region: String,

    /// The version of the form of `data`; an operator that does not know it reads Prometheus anew.
    pub version: i32,

    /// The frozen baseline, the running sums and the blocks, deflated, in base64. At most 16384 characters.
    #[schemars(length(max = 16_384))]
    pub data: String,
}

/// One region of the rollout.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegionRow {
    /// The region.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// The name of its wave; `canary` for wave 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub wave: Option<String>,

    /// What is going on in the region.
    #[serde(default)]
    pub state: RegionState,

    /// Eligible workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<i32>,

    /// Of these, workloads that were changed and whose own rollout is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected: Option<i32>,

    /// Of these, workloads of which every pod has proved its allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<i32>,

    /// When the bake started, or started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bake_started: Option<Time>,

    /// Blocks of evidence accepted so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<i32>,

    /// Blocks of evidence needed at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_needed: Option<i32>,

    /// RSS divided by cache bytes in the region, such as "1.04".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ratio: Option<String>,

    /// RSS divided by cache bytes in the control regions, such as "2.31".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub control_ratio: Option<String>,

    /// The region's change against the control, each against its own baseline, such as "-55%".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub change: Option<String>,

    /// Where the change lies, valid at any time of looking, such as "-58% to -52%".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub interval: Option<String>,

    /// The verdict of the last look: `Pass`, `Inconclusive`, `InsufficientData` or `Fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,

    /// Why, as one word, with the metric behind a colon where it has one, such as `Underpowered:p99`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,

    /// Why, as one sentence. At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,

    /// What was assumed because a series is not declared, such as `LoadUnchecked`. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub assumptions: Vec<String>,

    /// What explains the numbers, never decides: findings such as `ArenaRetention`. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 64)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub diagnosis: Vec<String>,

    /// The queries of the last look, for a region in judgement, so that a person can repeat them. At most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12), inner(length(max = 2048)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub queries: Vec<String>,
}

/// What is going on, of a policy or a rollout. For printing: machines read the conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Nothing has been done yet.
    #[default]
    Pending,
    /// The policy is not accepted; `Accepted` says why.
    Invalid,
    /// Access, eligibility and conflicts are checked before anything is touched.
    Preflight,
    /// The time before the change is read.
    Baseline,
    /// Workloads are being changed.
    Injecting,
    /// Pods are asked for proof of their allocator.
    Verifying,
    /// Evidence is collected.
    Baking,
    /// A person has to approve.
    AwaitingApproval,
    /// A window has to open.
    AwaitingWindow,
    /// The waves after the canary are in work.
    Promoting,
    /// A person has paused it, or the policy is suspended.
    Paused,
    /// The question stayed open: a person approves, aborts or retries.
    Held,
    /// A region failed and nothing is changed any more.
    Frozen,
    /// What was there before is being restored.
    RollingBack,
    /// It should be restored but cannot be reached.
    RollbackPending,
    /// Everything was restored.
    RolledBack,
    /// Every region is promoted.
    Complete,
    /// Another rollout has taken its place.
    Superseded,
    /// It cannot go on without a person; `Stalled` says why.
    Stalled,
    /// The policy is being deleted.
    Terminating,
}

/// What is going on in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RegionState {
    /// Its turn has not come.
    #[default]
    Pending,
    /// Workloads are being changed.
    Injecting,
    /// Pods are asked for proof of their allocator.
    Verifying,
    /// Evidence is collected.
    Baking,
    /// The question stayed open.
    Held,
    /// It was promoted, and is still looked at.
    Promoted,
    /// It failed, and is not restored.
    Failed,
    /// What was there before is being restored.
    RollingBack,
    /// It should be restored but cannot be reached.
    RollbackPending,
    /// It was restored.
    RolledBack,
    /// It was unreachable and is left for later.
    Skipped,
    /// It is not seen, so that nobody knows.
    Unknown,
}

/// The verdict of one look, in the order in which verdicts join: the largest one counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Verdict {
    /// Not worse than any margin, and the gain is shown.
    Pass,
    /// The data are good, the question is open.
    Inconclusive,
    /// No statement is possible; the reason says what is missing.
    InsufficientData,
    /// Worse beyond doubt, or a hard limit was hit.
    Fail,
}
