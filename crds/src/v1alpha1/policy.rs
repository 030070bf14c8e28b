//! Takes an app team's intent, gives the kind `AllocatorPolicy`; must never hold what is found out (that is its status).

use super::{
    AllocatorPolicyStatus, Analysis, DnsLabel, ImageRef, LabelText, ObjectName, OptionValue,
    RolloutStrategy, Selector, VariableName,
    class::{Arch, PageSize},
    defaults, rules,
};
use kube::{CustomResource, KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is wanted: which workloads of this namespace, which allocator, which regions in which order, and what must hold.
/// Editing it so that the plan changes supersedes the running rollout and starts another.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "heapfleet.dev",
    version = "v1alpha1",
    kind = "AllocatorPolicy",
    plural = "allocatorpolicies",
    shortname = "apol",
    category = "heapfleet",
    namespaced,
    status = "AllocatorPolicyStatus",
    derive = "PartialEq",
    doc = "A policy: which workloads of this namespace get which memory allocator, in which regions in which order, and what must hold. It acts on the namespace of its own name in every region.",
    validation = rules::rule_of("self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 48 characters: its rollouts are named after it'"),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.allocator.class", description = "The allocator class that is rolled out."),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", description = "What is going on; machines read the conditions."),
    printcolumn(name = "Canary", type_ = "string", json_path = ".spec.rollout.canary", description = "The region that is converted first."),
    printcolumn(name = "Ratio", type_ = "string", json_path = ".status.canary.ratios", description = "RSS / cache bytes: canary / control."),
    printcolumn(name = "Waves", type_ = "string", json_path = ".status.waves", description = "Waves that are complete, of all waves, the canary included."),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status", description = "Whether the whole rollout is complete."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", priority = 1, description = "Why it is ready or not."),
    printcolumn(name = "Rollout", type_ = "string", json_path = ".status.currentRollout", priority = 1, description = "The current rollout."),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = bakes(&rules::at_least_times("w", "self.analysis.blockDuration", 24),
        "must be at least 24 blocks of analysis.blockDuration ' + self.analysis.blockDuration + ': raise it, shorten the block, or drop bake to take minBake"),
    validation = bakes(&rules::at_most("w", "self.analysis.maxBake"),
        "must not be longer than analysis.maxBake ' + self.analysis.maxBake + ': lower it or raise maxBake"),
)]
pub struct AllocatorPolicySpec {
    /// Finish the write that is in flight, then hold; switched back, the rollout goes on where it was. Default false.
    #[serde(default)]
    pub suspend: bool,

    /// Which allocator, with which options.
    pub allocator: AllocatorChoice,

    /// Which workloads and containers.
    pub target: Target,

    /// Images to run instead of the deployed ones, for applications that link their allocator; keyed by the image that is
    /// deployed now. Images are replaced only where listed here. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["from".into()]))]
    pub images: Vec<ImageMapping>,

    /// Which regions, in which order, how fast.
    pub rollout: RolloutStrategy,

    /// What must hold for a region to be promoted.
    pub analysis: Analysis,

    /// What happens to changed workloads when the policy is deleted. `Restore` (the default): they are restored first.
    /// `Retain`: they stay as they are, and the operator's claim on them is dropped.
    #[serde(default)]
    pub on_delete: OnDelete,

    /// How many finished rollouts are kept as history. Default 10, from 1 to 100.
    #[serde(default = "defaults::history_limit")]
    #[schemars(range(min = 1, max = 100))]
    pub history_limit: i32,
}

/// Every `bake` of a wave, called `w` in it, meets the condition; the message names the first that does not.
fn bakes(condition: &str, must: &str) -> Rule {
    let bakes = "self.rollout.waves.filter(w, has(w.bake)).map(w, w.bake)";
    let set = "self.rollout.waves.map(w, has(w.bake) ? w.bake : '').filter(w, w != '' && !(";
    rules::rule_at(
        ".rollout.waves",
        format!("!has(self.rollout.waves) || {bakes}.all(w, {condition})"),
        &format!("'bake ' + {set}{condition}))[0] + ' of a wave {must}'"),
    )
}

/// Which allocator, with which options.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatorChoice {
    /// The name of the `AllocatorClass`.
    pub class: DnsLabel,

    /// Options of the allocator, such as `dirty_decay_ms: "5000"`, over the class's defaults. Only options that the class
    /// allows; names and values are checked against the class's build, never passed on unchecked. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = option_names())]
    pub options: BTreeMap<String, OptionValue>,

    /// Environment variables that the application itself reads to switch an allocator on. Only names that the class has in
    /// `allowedEnv`. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
}

/// Keys of an option map are option names.
pub(super) fn option_names() -> Rule {
    rules::keys(
        64,
        "^[a-z][a-z0-9_.]*$",
        "the name of an option such as dirty_decay_ms or glibc.malloc.arena_max: lower case letters, digits, '_' and '.', at most 64 characters",
    )
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// The variable's name.
    pub name: VariableName,

    /// The variable's value, in quotes if it is a number or a word like "on". At most 256 characters.
    pub value: LabelText,
}

/// Which workloads of the namespace and which of their containers.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The kinds of workloads: `Deployment`, `StatefulSet`, `DaemonSet`. Default `[Deployment]`.
    #[serde(default = "defaults::target_kinds")]
    #[schemars(length(min = 1, max = 3))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub kinds: Vec<TargetKind>,

    /// Which workloads, by their own labels (not the pods'). Required and not empty.
    #[x_kube(validation = Rule::new("(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)")
        .message("must not be empty, which would select every workload of the namespace: add matchLabels, such as {app: trace-server}"))]
    pub selector: Selector,

    /// The containers that get the allocator. Default: the only container, else the one named like the workload; otherwise
    /// the workload is refused as `AmbiguousContainer`. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub containers: Vec<DnsLabel>,

    /// Names of workloads that are left out although selected. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub exclude: Vec<ObjectName>,
}

/// The images that stand for one deployed image, by processor and page size.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::rule_at(".variants", "!self.variants.exists(v, v.image == self.from)",
    "'variants must differ from the deployed image ' + self.from + ': name the image that links the allocator'"))]
pub struct ImageMapping {
    /// The image that is deployed now, exactly as in the pod template.
    pub from: ImageRef,

    /// The images to run instead. The one with the smallest page size that fits every node the pods may land on is taken.
    /// One to 6.
    #[schemars(length(min = 1, max = 6))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["arch".into(), "pageSize".into()]))]
    pub variants: Vec<ImageVariant>,
}

/// An image for one processor architecture and page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageVariant {
    /// The processor architecture: `amd64` or `arm64`.
    pub arch: Arch,

    /// The largest page size of a kernel on which the image runs: `4Ki`, `16Ki` or `64Ki`.
    pub page_size: PageSize,

    /// The image.
    pub image: ImageRef,
}

/// A kind of workload.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TargetKind {
    /// `Deployment` of `apps/v1`.
    Deployment,
    /// `StatefulSet` of `apps/v1`.
    StatefulSet,
    /// `DaemonSet` of `apps/v1`.
    DaemonSet,
}

/// What happens to changed workloads when the policy is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDelete {
    /// They are restored, and the deletion waits for it.
    #[default]
    Restore,
    /// They stay as they are.
    Retain,
}
