//! All schedule state of an attempt, as stored in `AllocatorRollout.status.position`. Holds data, decides nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::Reason;
use crate::inject::{Assumption, Ineligible, Restored};
use crate::judge;
use crate::names::{Region, WorkloadId};

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Form of this record, 1.
    pub version: u32,
    /// When the attempt began.
    pub started: Timestamp,
    /// Index of the wave in turn.
    pub wave: usize,
    /// State of each region of the plan that has begun.
    pub regions: BTreeMap<Region, RegionState>,
    /// The matched restart of the control arm, by control region.
    pub control: BTreeMap<Region, ControlRestart>,
    /// What the restarts of the regions that passed taught of each workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub learned: BTreeMap<WorkloadId, Learned>,
    /// An undo in progress.
    pub undo: Option<UndoOrder>,
    /// A bake that ended without an answer: a person decides.
    pub held: Option<Hold>,
    /// How it ended; nothing happens after that.
    pub ending: Option<Ending>,
}

/// State of one region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionState {
    /// What it is doing.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// Workloads to change.
    pub workloads: BTreeMap<WorkloadId, WorkState>,
    /// Workloads that are left alone, with the reason.
    pub refused: BTreeMap<WorkloadId, Ineligible>,
    /// When the first write was decided; the baseline ends here.
    pub changed_at: Option<Timestamp>,
    /// When change, proof and the control's restart were complete; blocks count from here.
    pub bake_started: Option<Timestamp>,
    /// The newest look, for people.
    pub look: Option<LookSummary>,
    /// Why it was failed or left out.
    pub failed: Option<(Reason, String)>,
    /// Since when its cluster has not answered.
    pub unreachable_since: Option<Timestamp>,
    /// How many pods each arm should have since when, by `region/Kind/name`.
    pub sizes: BTreeMap<String, Vec<(Timestamp, u32)>>,
    /// What the judge froze at the start of the bake, by workload. Kept of a region that passed for as long as it is
    /// watched.
    pub frozen: BTreeMap<WorkloadId, judge::Frozen>,
    /// The evidence of the last look, by workload; a final verdict is given only where it is confirmed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evidence: BTreeMap<WorkloadId, Vec<judge::MetricEvidence>>,
    /// What earlier regions had taught when this one began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub learned: BTreeMap<WorkloadId, Learned>,
}

/// How much a pod's RSS/cache differs from one restart to the next (judge.md §6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Standard deviation, log units.
    pub sigma: f64,
    /// Its weight in degrees of freedom, at most 40.
    pub weight: f64,
}

/// What a region is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Reads the time before the change.
    Baseline,
    /// Workloads are being changed; for the canary the control restarts besides.
    Injecting,
    /// All pods run; the allocator is to be proved.
    Verifying,
    /// Blocks count.
    Baking,
    /// Judged and kept.
    Passed,
    /// Nothing to change here.
    Nothing,
    /// Being changed back.
    Undoing,
    /// Changed back, and that is proved.
    Undone,
    /// Changed back as far as can be told, without proof.
    Unverified,
    /// Failed and kept as it is (`onRegression.action: Freeze`, or left out).
    Failed,
}

/// State of one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkState {
    /// Its uid when it was chosen.
    pub uid: String,
    /// The container to change.
    pub container: String,
    /// Name of its journal.
    pub journal: String,
    /// What it is doing.
    pub stage: WorkStage,
    /// When that began.
    pub since: Timestamp,
    /// Most updated and ready pods seen so far.
    pub best_progress: u32,
    /// When that was reached.
    pub progressed_at: Timestamp,
    /// What was assumed about it when it was chosen.
    #[serde(default)]
    pub assumptions: Vec<Assumption>,
    /// Times when the image was written again after another tool had put the old one back; only what is recent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reapplied: Vec<Reapplied>,
}

/// An image that was written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reapplied {
    /// When that was decided.
    pub at: Timestamp,
    /// The workload's generation with the old image.
    pub generation: i64,
}

/// What a workload is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkStage {
    /// Not begun.
    Waiting,
    /// Patched or about to be; pods are being replaced.
    Injecting,
    /// All pods carry the change.
    Injected,
    /// Its owner took it back; left alone from now on.
    Released(Reason),
    /// Being changed back.
    Undoing,
    /// Changed back.
    Restored(Restored),
    /// Never changed.
    Untouched,
    /// Cannot be shown to be as before.
    Unrestored(String),
}

/// The matched restart of one control region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRestart {
    /// Uids of the pods to be replaced, by workload.
    pub pods: BTreeMap<WorkloadId, Vec<String>>,
    /// When every one of them was gone and every replacement ready.
    pub done: Option<Timestamp>,
}

/// An undo in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOrder {
    /// Regions still to be undone, in this order.
    pub regions: Vec<Region>,
    /// Why.
    pub reason: Reason,
    /// One sentence for people.
    pub message: String,
    /// When it began.
    pub since: Timestamp,
    /// Only give up the claims (`onDelete: Retain`); the change stays.
    pub keep: bool,
}

/// A bake that ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The region in judgement.
    pub region: Region,
    /// Why.
    pub reason: Reason,
    /// One sentence: which number is missing.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

impl Position {
    /// The state before anything was done.
    pub fn new(now: Timestamp) -> Self {
        Self {
            version: 1,
            started: now,
            wave: 0,
            regions: BTreeMap::new(),
            control: BTreeMap::new(),
            learned: BTreeMap::new(),
            undo: None,
            held: None,
            ending: None,
        }
    }

    /// Regions whose workloads carry the change, or may, latest first.
    pub fn changed_regions(&self) -> Vec<Region> {
        let mut changed: Vec<(&Region, &RegionState)> = self
            .regions
            .iter()
            .filter(|(_, state)| state.changed())
            .collect();
        changed.sort_by(|(a, x), (b, y)| y.changed_at.cmp(&x.changed_at).then(b.cmp(a)));
        changed.into_iter().map(|(name, _)| name.clone()).collect()
    }
}

impl RegionState {
    /// Whether a workload carries the change, or may.
    pub fn changed(&self) -> bool {
        self.workloads.values().any(|work| {
            matches!(
                work.stage,
                WorkStage::Injecting | WorkStage::Injected | WorkStage::Undoing
            )
        })
    }
}

impl Stage {
    /// Whether the region needs nothing more.
    pub fn settled(self) -> bool {
        match self {
            Self::Passed | Self::Nothing | Self::Failed | Self::Undone | Self::Unverified => true,
            Self::Baseline | Self::Injecting | Self::Verifying | Self::Baking | Self::Undoing => {
                false
            }
        }
    }

    /// As people see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "Baseline",
            Self::Injecting => "Injecting",
            Self::Verifying => "Verifying",
            Self::Baking => "Baking",
            Self::Passed => "Passed",
            Self::Nothing => "NothingToDo",
            Self::Undoing => "RollingBack",
            Self::Undone => "RolledBack",
            Self::Unverified => "RestoreUnverified",
            Self::Failed => "Failed",
        }
    }
}

impl Hold {
    /// The gate whose approval lets the region pass.
    pub fn gate(&self) -> String {
        format!("hold-{}", self.region)
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// In which way.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// One sentence for people.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// In which way an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// All waves done.
    Promoted,
    /// Undone, with proof.
    RolledBack,
    /// Undone without proof somewhere.
    Unverified,
    /// Stopped by a regression; kept as it is.
    Frozen,
    /// Another plan took over, and this one had changed nothing that still stands.
    Superseded,
}

/// The newest look of the judge, for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookSummary {
    /// Verdict word.
    pub verdict: String,
    /// Reason word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// Accepted blocks.
    pub blocks: u32,
    /// Accepted blocks needed.
    pub blocks_needed: u32,
    /// RSS ÷ cache of the region.
    pub ratio: Option<f64>,
    /// RSS ÷ cache of the control.
    pub control_ratio: Option<f64>,
    /// θ̂ and its bounds, natural logarithms.
    pub change: Option<(f64, f64, f64)>,
    /// Pods that prove the allocator, and all judged pods.
    pub proven: (u32, u32),
    /// What was assumed.
    pub assumptions: Vec<String>,
    /// What the curves look like; explains, never decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnosis: Vec<String>,
    /// When the next look at the bake is due; nothing is asked of Prometheus before.
    pub next: Option<Timestamp>,
}
