//! Takes a frozen plan and the verbs of people, gives the kind `AllocatorRollout`; must never let either be rewritten.

use super::{AllocatorRolloutStatus, DnsLabel, Plan, rules};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One attempt: a frozen plan, and what people want of it. Made by the operator; people write only `state` and `approvals`.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "heapfleet.dev",
    version = "v1alpha1",
    kind = "AllocatorRollout",
    plural = "allocatorrollouts",
    shortname = "arol",
    category = "heapfleet",
    namespaced,
    status = "AllocatorRolloutStatus",
    derive = "PartialEq",
    doc = "A rollout: one attempt at a policy, with its frozen plan, its position and its evidence. Made by the operator; people pause, abort, retry (spec.state) and approve (spec.approvals).",
    validation = rules::rule_at(".spec.state",
        "self.spec.state != 'Retry' || oldSelf.spec.state == 'Retry' || (has(self.status) && has(self.status.phase) && self.status.phase in ['Held', 'Frozen', 'RolledBack', 'Stalled'])",
        "'state Retry is for an attempt that has ended as Held, Frozen, RolledBack or Stalled, not in phase ' + (has(self.status) && has(self.status.phase) ? self.status.phase : 'Pending') + ': wait for its end, or set Abort first'"),
    printcolumn(name = "Policy", type_ = "string", json_path = ".spec.plan.policyName", description = "The policy."),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", description = "What is going on; machines read the conditions."),
    printcolumn(name = "Region", type_ = "string", json_path = ".status.region", description = "The region in work."),
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.verdict", description = "The verdict of the last look at it."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1, description = "Why it stands where it stands."),
    printcolumn(name = "State", type_ = "string", json_path = ".spec.state", priority = 1, description = "What people want of it."),
    printcolumn(name = "Attempt", type_ = "integer", json_path = ".spec.plan.attempt", priority = 1, description = "The number of the attempt."),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::rule_at(".state", "oldSelf.hasValue() || self.state in ['Run', 'Pause']",
        "'state ' + self.state + ' is not for a new rollout: start with Run or Pause'").optional_old_self(true),
    validation = rules::rule_at(".state", "oldSelf.state != 'Abort' || self.state in ['Abort', 'Retry']",
        "'state cannot go from Abort to ' + self.state + ': the workloads are being restored; only Retry may follow, once that has ended'"),
    validation = rules::rule_at(".state", "oldSelf.state != 'Retry' || self.state == 'Retry'",
        "'state cannot go from Retry to ' + self.state + ': the next attempt is an AllocatorRollout of its own; set its state instead'"),
    validation = rules::rule_at(".approvals",
        "!has(oldSelf.approvals) || (has(self.approvals) && oldSelf.approvals.all(o, self.approvals.exists(a, a == o)))",
        "'approvals can be added, not changed or removed: set state to Pause or Abort to stop what was approved'"),
    validation = rules::rule_at(".approvals",
        "!has(self.approvals) || self.approvals.all(a, a.gate.startsWith('hold-') || self.plan.waves.exists(w, w.name == a.gate))",
        "'approvals name the gate ' + self.approvals.map(a, a.gate).filter(g, !g.startsWith('hold-') && !self.plan.waves.exists(w, w.name == g))[0] + ', which is no wave of this plan: name canary, one of plan.waves, or hold- and the region that is held'"),
)]
pub struct AllocatorRolloutSpec {
    /// The frozen plan. Cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed: edit the policy instead, which supersedes this rollout"))]
    pub plan: Plan,

    /// What is wanted of the rollout. `Run` (the default). `Pause`: finish the write in flight, then hold. `Abort`: restore
    /// every region that this rollout has changed. `Retry`: once it has ended, make the next attempt. `Run` and `Pause` may
    /// follow each other, `Abort` may follow both; after `Abort` only `Retry`, after `Retry` nothing.
    #[serde(default)]
    pub state: RolloutState,

    /// Approvals of this plan, one for each gate; they can be added, never changed. At most 34.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 34))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["gate".into()]))]
    pub approvals: Vec<ApprovalRecord>,
}

/// One approval.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// What is approved: `canary` (go on after it) or the name of a wave (start it).
    pub gate: DnsLabel,

    /// Who approved. At most 256 characters.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[^\\\\x00-\\\\x1f\\\\x7f]*$')").message("must not contain control characters"))]
    pub by: String,

    /// When, in RFC 3339, such as 2026-11-30T12:00:00Z.
    pub at: Time,
}

/// What is wanted of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutState {
    /// Go on.
    #[default]
    Run,
    /// Finish the write in flight, then hold.
    Pause,
    /// Restore every region that was changed.
    Abort,
    /// Make the next attempt.
    Retry,
}
