//! Takes nothing, gives the types of a frozen plan: what one rollout will do, whatever happens to its policy and class.
//! Must never refer to anything that can change.

use super::{
    AllocatorChoice, AllocatorClassSpec, Analysis, Approval, ControlRestart, CountOrPercent,
    DnsLabel, ImageMapping, OnDelete, OnRegression, OnUnreachable, RolloutStrategy, Target,
    TimeSpan, Window,
};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// What one rollout does: a copy of everything it needs, made when it starts. Later edits of policy and class do not reach
/// it; an edit that changes the hash supersedes the rollout.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The hash of everything below that decides what is done, in hexadecimal digits. 8 to 64 characters.
    #[schemars(length(min = 8, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9a-f]+$')").message("must be hexadecimal digits"))]
    pub hash: String,

    /// The name of the policy, in the rollout's namespace.
    pub policy_name: DnsLabel,

    /// The UID of the policy. At most 64 characters.
    #[serde(rename = "policyUID")]
    #[schemars(length(min = 1, max = 64))]
    pub policy_uid: String,

    /// The generation of the policy from which the plan was made.
    #[schemars(range(min = 1))]
    pub policy_generation: i64,

    /// The number of this attempt at the plan, from 1.
    #[schemars(range(min = 1))]
    pub attempt: i32,

    /// The policy's choice: class, options, environment.
    pub allocator: AllocatorChoice,

    /// A copy of the class's spec.
    pub class: AllocatorClassSpec,

    /// Which workloads and containers.
    pub target: Target,

    /// The images to run instead of the deployed ones. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["from".into()]))]
    pub images: Vec<ImageMapping>,

    /// All regions in order: wave 0 is the canary. One to 34.
    #[schemars(length(min = 1, max = 34))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub waves: Vec<PlanWave>,

    /// The control regions. One to five.
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub control: Vec<DnsLabel>,

    /// The brakes of the rollout.
    pub rollout: PlanKnobs,

    /// The series, thresholds and durations of the judge.
    pub analysis: Analysis,

    /// What happens to changed workloads when the policy is deleted: `Restore` or `Retain`.
    #[serde(default)]
    pub on_delete: OnDelete,
}

/// One wave of the plan, with every default filled in.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanWave {
    /// The wave's name and the gate of its approval: `canary` for wave 0, else the policy's name for it or `wave-N`.
    pub name: DnsLabel,

    /// The regions, in order. One to 1024.
    #[schemars(
        with = "Vec<String>",
        length(min = 1, max = 1024),
        inner(length(min = 1, max = 63))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub regions: Vec<DnsLabel>,

    /// How many of them change or bake at the same time, from 1 to 64.
    #[schemars(range(min = 1, max = 64))]
    pub max_concurrent_regions: i32,

    /// The shortest bake of each of them.
    pub bake: TimeSpan,

    /// Whether a person has to approve: for wave 0 after it has passed, for others before they start.
    #[serde(default)]
    pub approval: Approval,
}

/// The brakes of the rollout, as the policy had them.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanKnobs {
    /// Whether the control's pods are restarted once, unchanged: `Matched` or `None`.
    pub control_restart: ControlRestart,

    /// How many workloads of one region change at the same time: a number or a percentage.
    pub max_concurrent_workloads: CountOrPercent,

    /// How long one workload's own rollout may take before it is undone.
    pub workload_deadline: TimeSpan,

    /// A crash of a changed pod this soon after its start undoes its workload.
    pub stability_window: TimeSpan,

    /// What to do when a region cannot be reached before its turn: `Wait`, `Skip` or `Fail`.
    pub on_unreachable: OnUnreachable,

    /// How long an unreachable region is waited for before `onUnreachable` takes effect.
    pub unreachable_deadline: TimeSpan,

    /// What happens when a region is worse beyond doubt.
    pub on_regression: OnRegression,

    /// When new regions may start; none means always. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub windows: Vec<Window>,
}

impl From<&RolloutStrategy> for PlanKnobs {
    fn from(strategy: &RolloutStrategy) -> Self {
        Self {
            control_restart: strategy.control_restart,
            max_concurrent_workloads: strategy.max_concurrent_workloads.clone(),
            workload_deadline: strategy.workload_deadline.clone(),
            stability_window: strategy.stability_window.clone(),
            on_unreachable: strategy.on_unreachable,
            unreachable_deadline: strategy.unreachable_deadline.clone(),
            on_regression: strategy.on_regression,
            windows: strategy.windows.clone(),
        }
    }
}
