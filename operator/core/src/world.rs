//! What was seen, when, and what could not be seen: plain values, made by the shell, read by [`crate::decide`].
//! Never holds a client, a handle or a default for something that was not measured.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inject::{CLAIM, JournalRecord};
use crate::names::{Claim, ClusterUid, Region, WorkloadId};
use crate::plan::Plan;
use crate::rollout::Position;

/// Everything that one pass over one policy may know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct World {
    /// When the pass looked.
    pub now: Timestamp,
    /// The policy.
    pub policy: Policy,
    /// What the policy asks for, or why it cannot be done (class missing, region missing, …).
    pub intent: Result<Plan, Refusal>,
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Every region that the running attempt or the intent names.
    pub regions: BTreeMap<Region, RegionView>,
    /// The claim that this hub puts on workloads of this policy.
    pub claim: Claim,
    /// What the settled blocks of bakes come to, of the pass before. It spares reading them again; any of it may be missing,
    /// and nothing that ends a bake rests on it.
    #[serde(skip)]
    pub running: Running,
}

/// Running states of the judge, by region and workload.
pub type Running = BTreeMap<(Region, WorkloadId), crate::judge::Running>;

/// The policy as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts of an object"
)]
pub struct Policy {
    /// Its namespace, here and in every region.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether deletion was asked for.
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// `spec.suspend`.
    pub suspend: bool,
    /// What deletion leads to.
    pub restore_on_delete: bool,
    /// How many ended attempts are kept.
    pub history_limit: u32,
    /// Reason of the stored condition `Accepted`, so that a refusal is told once.
    pub accepted: Option<String>,
}

/// Why a policy cannot be planned: one reason, one sentence with field, value and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A reason of the closed set.
    pub reason: crate::decision::Reason,
    /// One sentence for people.
    pub message: String,
}

/// An `AllocatorRollout` as seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its name.
    pub name: String,
    /// Its frozen plan.
    pub plan: Plan,
    /// What people want of it.
    pub state: Verb,
    /// Gates that were approved.
    pub approvals: Vec<String>,
    /// Its schedule state; `None`: nothing was committed yet.
    pub position: Option<Position>,
}

/// What people want of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Go on.
    Run,
    /// Finish the write in flight, then hold.
    Pause,
    /// Change everything back and end.
    Abort,
    /// After the end: make the next attempt.
    Retry,
}

/// One region as seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionView {
    /// The cluster's API, or why it could not be read.
    pub cluster: Result<ClusterView, Unseen>,
    /// What its Prometheus answered. `None`: nothing was asked in this pass.
    pub metrics: Option<Result<Metrics, Unseen>>,
}

/// Why something could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// One clause for people, without volatile text: `connection refused`, `no answer within 5s`.
    pub because: String,
}

/// A cluster's part of the world, as far as the policy's namespace goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Its identity.
    pub uid: ClusterUid,
    /// Whether the namespace exists and its labels match the region's `namespaceSelector`.
    pub namespace_opted_in: bool,
    /// Nodes, by name.
    pub nodes: BTreeMap<String, Node>,
    /// Workloads that the target's selector and kinds name, and those that carry our claim or a journal of ours.
    pub workloads: BTreeMap<WorkloadId, Workload>,
}

/// What of a node matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// `amd64`, `arm64`, …
    pub arch: String,
    /// Label `heapfleet.dev/page-size`, in bytes.
    pub page_size_label: Option<u64>,
    /// `nodeInfo.kernelVersion`.
    pub kernel: String,
    /// `nodeInfo.containerRuntimeVersion`: `containerd://2.1.4`.
    pub runtime: String,
    /// `nodeInfo.kubeletVersion`: `v1.36.3`.
    pub kubelet: String,
    /// Its labels, for what decides where pods may land.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
}

/// What keeps pods from a node unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty where there is none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A workload as seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its uid: another uid is another workload.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.annotations`, absent or present.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Index of our own entry in `metadata.managedFields`, if there is one.
    pub managed_entry: Option<usize>,
    /// `spec.template`, as it stands.
    pub template: Value,
    /// `spec.replicas` (or the nodes that a DaemonSet wants).
    pub replicas: u32,
    /// `spec.paused`.
    pub paused: bool,
    /// Whether deletion was asked for.
    pub deleting: bool,
    /// Whether the controller has finished: generation observed, every replica updated, available and the only ones.
    pub settled: bool,
    /// Updated and ready pods, for net progress.
    pub progress: u32,
    /// How many pods may be missing: `maxUnavailable` of its strategy resolved for its replicas, rounded down.
    pub max_unavailable: u32,
    /// How its pods follow its template.
    pub update: Update,
    /// `Kind/name` of the object that controls it, if it is not its owner's own.
    pub controller: Option<String>,
    /// The name of an older policy that selects it too, if it is targeted.
    pub older_policy: Option<String>,
    /// The revision that its controller works towards.
    pub revision: Option<Revision>,
    /// Journals of ours that name its uid.
    pub journals: Vec<Journal>,
    /// Its pods.
    pub pods: Vec<Pod>,
}

impl Workload {
    /// The value of the claim annotation, whoever holds it.
    pub fn claim(&self) -> Option<&str> {
        self.annotations
            .as_ref()
            .and_then(|all| all.get(CLAIM))
            .map(String::as_str)
    }
}

/// How the pods of a workload follow its template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Update {
    /// Its controller replaces them.
    Rolling,
    /// Its controller replaces those of this ordinal and above; the owner holds the others back.
    Partition(u32),
    /// The owner deletes them.
    OnDelete,
}

/// A revision: of a Deployment its ReplicaSet, else its ControllerRevision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Object name.
    pub name: String,
    /// `pod-template-hash` or `controller-revision-hash`.
    pub hash: String,
}

/// An undo journal as seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Name of its ControllerRevision.
    pub name: String,
    /// How far the work got.
    pub stage: JournalStage,
    /// What was recorded; cannot be altered.
    pub record: JournalRecord,
}

/// How far a journalled change got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalStage {
    /// Written before the patch.
    Intent,
    /// The patch was seen in place.
    Applied,
    /// The undo was proved.
    Removed,
}

impl JournalStage {
    /// As the annotation `heapfleet.dev/stage` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Applied => "applied",
            Self::Removed => "removed",
        }
    }
}

/// A pod as seen in the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When the API server made it.
    pub created: Timestamp,
    /// Hash label of the revision it belongs to.
    pub revision_hash: String,
    /// Since when it has been ready; `None`: it is not.
    pub ready_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Restarts of its containers so far.
    pub restarts: u32,
    /// A container waits in `CrashLoopBackOff`, or cannot be started (`CreateContainerError`, `RunContainerError`).
    pub crash_loop: Option<String>,
    /// A container's last end was an OOM kill.
    pub oom_killed: bool,
    /// `imageID` by container, as the runtime reports it.
    pub images: BTreeMap<String, String>,
    /// Memory limit by container, bytes.
    pub memory_limits: BTreeMap<String, u64>,
}

/// Samples of one region, by workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Series of each pod that reported in the asked window, by pod name; the judge's own form.
    pub pods: BTreeMap<String, PodSeries>,
}

/// What Prometheus holds of one pod's judged container in the asked window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodSeries {
    /// Samples by series: (seconds since the epoch, value), ascending.
    pub series: BTreeMap<SeriesId, Vec<(f64, f64)>>,
    /// What the probe found in the process: allocator names with the time of the newest sample that said so.
    pub allocators: BTreeMap<String, f64>,
    /// Start times of the process that were seen, seconds since the epoch, ascending.
    pub starts: Vec<f64>,
}

/// A series that the judge knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SeriesId {
    /// Resident set size, bytes.
    Rss,
    /// Accounted cache bytes.
    Cache,
    /// Capacity of the cache, bytes.
    Capacity,
    /// Evicted bytes, a counter.
    Evictions,
    /// Requests, a counter.
    Requests,
    /// The named guardrail's value.
    Guardrail(String),
}

/// The name of the guardrail series that holds what a count guardrail is counted against.
pub fn exposure_of(guardrail: &str) -> String {
    format!("{guardrail}/per")
}

/// What must be asked of one region's Prometheus in this pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsNeed {
    /// From when on.
    pub from: Timestamp,
    /// Only the newest proof of the allocator is wanted, not the judged series.
    pub proof_only: bool,
    /// Pods are selected by workload.
    pub workloads: Vec<WorkloadId>,
}
