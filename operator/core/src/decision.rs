//! What a pass decided, as data: the state to commit, the acts that follow it, what people are told, when to look again.
//! Never carries out anything.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inject::Injection;
use crate::judge::{Code, Look, Numbers};
use crate::names::{Region, WorkloadId, words};
use crate::plan::Plan;
use crate::rollout::Position;
use crate::status::{PolicyReport, RolloutReport};
use crate::world::{JournalStage, Running};

words! {
    /// Why something is as it is: the closed set that conditions, events and refusals draw from.
    Reason {
    /// Everything that was asked for is done.
    RolloutComplete,
    /// Work is going on.
    Progressing,
    /// A person paused the attempt.
    Paused,
    /// A person suspended the policy.
    UserRequested,
    /// Nobody suspended the policy.
    NotSuspended,
    /// The attempt waits for a person: the evidence did not settle the question in time.
    Held,
    /// A gate waits for an entry in `spec.approvals`.
    AwaitingApproval,
    /// The attempt ended in a rollback.
    RolledBack,
    /// A person aborted the attempt.
    Aborted,
    /// The plan changed; the attempt made way for the next.
    Superseded,
    /// A regression stopped the attempt, which keeps what it did.
    Frozen,
    /// The policy is valid and its references exist.
    Valid,
    /// The class does not exist.
    ClassNotFound,
    /// A region does not exist.
    RegionNotFound,
    /// An option or variable is not allowed by the class.
    OptionNotAllowed,
    /// A variable is not in the class's `allowedEnv`.
    EnvNotAllowed,
    /// The spec says something that cannot be done.
    InvalidSpec,
    /// The namespace in a region is not opted in.
    NamespaceNotOptedIn,
    /// An older policy has the workload.
    OverlappingPolicy,
    /// A delivery of the class that this version does not carry out.
    DeliveryUnsupported,
    /// Every region answers.
    AllReachable,
    /// At least one region does not answer.
    SomeUnreachable,
    /// A region's cluster is another one than at first contact.
    IdentityMismatch,
    /// A region's Prometheus does not answer.
    PrometheusUnreachable,
    /// Every workload of the regions in turn is changed.
    AllInjected,
    /// Workloads are still to be changed, or in change.
    WorkloadsPending,
    /// No workload of the canary can be changed.
    NoEligibleWorkloads,
    /// A value or claim of another owner is in the way.
    InjectionConflict,
    /// The workload runs the allocator already, by its owner's doing: there is nothing to change and nothing to compare.
    NoChange,
    /// `LD_PRELOAD` is set already, and the class says `Skip`.
    PreloadAlreadySet,
    /// A variable that would be written comes from elsewhere.
    VariableFromSource,
    /// Assumed: what the owner set up already makes the control what it is.
    ControlTuned,
    /// Assumed: the owner's own options reach the allocator that is loaded.
    OwnerOptions,
    /// Assumed: variables that come from elsewhere as a whole do not set an allocator up.
    EnvUnseen,
    /// Assumed: children that a server forks do without background threads.
    ForkedChildren,
    /// Somebody put the old template back.
    UserReverted,
    /// Somebody took over a value of ours.
    ReleasedToUser,
    /// The container cannot be told.
    AmbiguousContainer,
    /// None of the named containers is in the workload.
    ContainerNotFound,
    /// The workload belongs to a controller that would undo the change.
    OwnedByController,
    /// Pods were in back-off before anything was changed.
    PodsInBackOff,
    /// A node's page size is not known.
    PageSizeUnknown,
    /// The build does not run on a node's page size or architecture.
    PageSizeUnsupported,
    /// A node's container runtime cannot mount images.
    ImageVolumeUnsupported,
    /// The pods may land on nodes of different page sizes, and no build or image fits all of them.
    MixedPageSizes,
    /// The deployed image is not in the policy's image map.
    ImageNotMapped,
    /// Another tool puts the old image back each time.
    ReconcileFight,
    /// The workload is on its way out.
    WorkloadDeleting,
    /// The workload is another object than the one that was changed.
    WorkloadRecreated,
    /// A claim of ours without a journal: nothing is undone by guess.
    JournalMissing,
    /// No net progress within `workloadDeadline`.
    DeadlineExceeded,
    /// Injected pods crash.
    CrashLoop,
    /// Every pod proves the allocator.
    Verified,
    /// The library did not load: pods prove another allocator.
    PreloadIgnored,
    /// Nothing proves or disproves the allocator yet.
    ProofMissing,
    /// Some pods prove it, some not yet.
    PartiallyProven,
    /// Nothing is injected, hence nothing to prove.
    NotInjected,
    /// The control would be interrupted by the matched restart.
    ControlRestartWouldInterrupt,
    /// The baseline is being read.
    Baseline,
    /// The canary is within its guardrails so far.
    WithinGuardrails,
    /// The canary is shown not to be worse, and to gain.
    NonInferior,
    /// The canary is worse beyond doubt.
    Regression,
    /// A hard limit was hit.
    HardLimit,
    /// The allocator was disproved in a canary pod.
    AllocatorNotActive,
    /// The judge needs more: see the message for its own reason.
    InsufficientData,
    /// The judge's question is open: see the message for its own reason.
    Inconclusive,
    /// All waves are done.
    AllWavesComplete,
    /// A wave is at work.
    WaveInProgress,
    /// Everything is as it was, revision included.
    ExactRestore,
    /// Our keys are gone from a template that its owner changed meanwhile.
    RestoredOnNewerTemplate,
    /// The undo is at work.
    InProgress,
    /// The undo could not be proved.
    RestoreUnverified,
    /// The undo waits for a region.
    RollbackPending,
    /// Not looked at yet.
    NotObserved,
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one pass decided.
#[must_use]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Status of the running attempt to commit before anything else; `None`: unchanged or no attempt.
    pub commit: Option<Commit>,
    /// What the policy's status should say.
    pub policy: PolicyReport,
    /// What to do after the commit, in this order.
    pub actions: Vec<Action>,
    /// One per transition; published only after the commit went through.
    pub events: Vec<Event>,
    /// What is being waited for.
    pub findings: Vec<Finding>,
    /// What the judge said in this pass, for telemetry.
    pub looks: Vec<Judged>,
    /// What to give to the next pass as [`crate::world::World::running`], in memory.
    #[serde(skip)]
    pub running: Running,
    /// When to look again at the latest.
    pub wake_at: Timestamp,
}

/// The numbers of one look of the judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The region.
    pub region: Region,
    /// The workload.
    pub workload: WorkloadId,
    /// Per metric, the ratio first.
    pub numbers: Vec<Numbers>,
    /// Blocks accepted since the change.
    pub accepted: usize,
    /// Blocks refused since the change, by the first reason.
    pub refused: BTreeMap<Code, usize>,
    /// RSS ÷ cache of the region.
    pub ratio: Option<f64>,
    /// RSS ÷ cache of the control.
    pub control_ratio: Option<f64>,
    /// Whether the whole bake was read for it, not only its youngest blocks.
    pub whole: bool,
}

impl Judged {
    /// Of one look.
    pub fn of(region: &Region, workload: &WorkloadId, look: &Look, whole: bool) -> Self {
        Self {
            whole,
            region: region.clone(),
            workload: workload.clone(),
            numbers: look.numbers.clone(),
            accepted: look.accepted,
            refused: look.refused.clone(),
            ratio: look.ratio_canary,
            control_ratio: look.ratio_control,
        }
    }
}

/// A status to commit by compare-and-swap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The attempt's name.
    pub attempt: String,
    /// Its schedule state.
    pub position: Position,
    /// What people see of it.
    pub report: RolloutReport,
}

/// An act: idempotent, guarded by tests of what was observed; its effect is observed in the next pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Put our finalizer on the policy.
    AddFinalizer,
    /// Let the policy go.
    RemoveFinalizer,
    /// Make an `AllocatorRollout`; that it exists already is success.
    CreateAttempt {
        /// Its name, a function of policy, plan and attempt.
        name: String,
        /// Its frozen plan.
        plan: Box<Plan>,
    },
    /// Delete an ended attempt beyond `historyLimit`.
    DeleteAttempt {
        /// Its name.
        name: String,
    },
    /// Write the journal if it is not there, then patch, then disown.
    Inject {
        /// Where.
        region: Region,
        /// The change.
        injection: Box<Injection>,
    },
    /// Send an undo (or release) patch, then disown.
    Undo {
        /// Where.
        region: Region,
        /// Of which workload.
        workload: WorkloadId,
        /// The patch with its tests.
        patch: Vec<Value>,
    },
    /// Send a patch that writes a recorded image again which another tool put back, then disown.
    Reapply {
        /// Where.
        region: Region,
        /// To which workload.
        workload: WorkloadId,
        /// The patch with its tests.
        patch: Vec<Value>,
    },
    /// Remove our own entry from `managedFields`.
    Disown {
        /// Where.
        region: Region,
        /// Of which workload.
        workload: WorkloadId,
        /// Its index, tested by manager and operation.
        entry: usize,
    },
    /// Say in the journal's annotation how far the change got.
    MarkJournal {
        /// Where.
        region: Region,
        /// Name of the ControllerRevision.
        journal: String,
        /// The stage.
        stage: JournalStage,
    },
    /// Delete a journal whose change never happened and whose record is out of date.
    DropJournal {
        /// Where.
        region: Region,
        /// Name of the ControllerRevision.
        journal: String,
    },
    /// Evict one pod of the control arm; tested by uid.
    Evict {
        /// Where.
        region: Region,
        /// The pod's name.
        pod: String,
        /// The pod's uid.
        uid: String,
    },
}

/// A line in the story that `kubectl describe` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Normal or Warning.
    pub warning: bool,
    /// CamelCase, of the list in the design.
    pub reason: String,
    /// One sentence, at most 1 kB.
    pub note: String,
    /// The region it is about, if any.
    pub region: Option<Region>,
}

/// What is being waited for. Waiting is never an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The region it is about, if any.
    pub region: Option<Region>,
    /// Of the closed set.
    pub reason: Reason,
    /// One sentence without volatile text.
    pub message: String,
}
