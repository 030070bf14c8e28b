//! Gives the closed set of reasons of conditions, verdicts and refusals, each with its meaning; must never be bypassed by a
//! reason written as text. Each has a page in `docs/runbook`.
//!
//! A reason that concerns one metric is written with it behind a colon where one row speaks of it
//! (`Underpowered:p99`); the word before the colon is from this set.

use super::conditions::closed_set;

closed_set! {
    /// Why a condition, a verdict or a refusal is what it is.
    Reason {
        /// The judge was given settings that are out of range.
        InvalidSettings,
        /// The change has not been made yet; the baseline is good.
        NotStarted,
        /// The number of pods just changed.
        PopulationChanged,
        /// A regression stopped the attempt, which keeps what it did.
        Frozen,
        /// The class asks for a delivery that this version does not carry out.
        DeliveryUnsupported,
        /// A region's Prometheus does not answer.
        PrometheusUnreachable,
        /// No workload of the canary can be changed.
        NoEligibleWorkloads,
        /// The workload is being deleted, or is gone.
        WorkloadDeleting,
        /// The workload is another object than the one that was changed.
        WorkloadRecreated,
        /// Pods do not stay up.
        CrashLoop,
        /// Nothing is injected, hence there is nothing to prove.
        NotInjected,
        /// The time before the change is being read.
        Baseline,
        /// No statement is possible; the message says what is missing.
        InsufficientData,
        /// The data are good, the question is open; the message says why.
        Inconclusive,
        /// Everything is done.
        RolloutComplete,
        /// Work is going on.
        Progressing,
        /// A person has paused it.
        Paused,
        /// The question stayed open; a person approves, aborts or retries.
        Held,
        /// A person has to approve.
        AwaitingApproval,
        /// A window has to open.
        OutsideWindow,
        /// The canary was worse beyond doubt.
        CanaryFailed,
        /// Everything was restored.
        RolledBack,
        /// It should be restored, but a region cannot be reached.
        RollbackPending,
        /// The spec cannot be worked with.
        InvalidSpec,
        /// `Accepted` is not true.
        NotAccepted,
        /// Nothing was looked at yet.
        NotObserved,
        /// Another rollout has taken its place.
        Superseded,
        /// A person has aborted it.
        Aborted,
        /// A person has approved it although no verdict allowed it.
        ApprovedWithoutVerdict,
        /// A deadline has passed.
        DeadlineExceeded,

        /// What is asked for is possible and allowed.
        Valid,
        /// It is being checked.
        Pending,
        /// No `AllocatorClass` has this name.
        ClassNotFound,
        /// No `AllocatorRegion` has one of these names.
        RegionNotFound,
        /// Selected workloads are in regions that are in no wave.
        UnassignedRegions,
        /// An option is not allowed by the class, or its value is not valid for the build.
        OptionNotAllowed,
        /// A variable is not in the class's `allowedEnv`.
        EnvNotAllowed,
        /// The preset is not known, or lacks a series that is needed.
        PresetNotFound,
        /// The namespace has not opted in in a region.
        NamespaceNotOptedIn,
        /// A raw query is not allowed in a region, or could leave its scope.
        UnsafeQuery,
        /// Another policy selects the same workloads.
        OverlappingPolicy,
        /// Two regions hold the same workloads.
        OverlappingRegions,
        /// A right that is needed is missing.
        NotPermitted,

        /// Every region that is needed answers.
        AllReachable,
        /// A region that is needed does not answer.
        SomeUnreachable,
        /// The API server does not answer.
        Unreachable,
        /// It answers.
        Reachable,
        /// Credentials of a region are unusable or refused.
        CredentialInvalid,
        /// Another cluster answers than the one that was met first.
        IdentityMismatch,
        /// The cluster is the one that was met first.
        IdentityMatches,
        /// A right that is needed in the region is missing.
        Unauthorized,
        /// Every right that is needed is granted.
        Authorized,
        /// It is being asked.
        Probing,
        /// A region is suspended by its admin.
        RegionSuspended,
        /// A region is not seen, so that nobody knows.
        RegionUnknown,
        /// A region cannot be reached.
        RegionUnreachable,
        /// Prometheus of a region does not answer, or answers with an error.
        PrometheusError,

        /// Every eligible workload is changed.
        AllInjected,
        /// Workloads have still to be changed, or their rollouts are not complete.
        WorkloadsPending,
        /// The selector finds no workload.
        NoWorkloads,
        /// A workload is claimed by another policy or hub, or a value of its owner is in the way.
        InjectionConflict,
        /// Another tool sets our value back each time.
        ReconcileFight,
        /// A person has taken the change out, by an undo or a replacement: it is not made again.
        UserReverted,
        /// A person has set our key to another value: it is theirs now.
        ReleasedToUser,
        /// A quota leaves no room for the workload's own rollout.
        QuotaInsufficient,
        /// The deployed image is not in the policy's image map.
        ImageNotMapped,
        /// The workload belongs to a controller that would undo the change.
        OwnedByController,
        /// Which container is meant is not clear: name it in `target.containers`.
        AmbiguousContainer,
        /// A named container does not exist in the workload.
        ContainerNotFound,
        /// The workload runs the allocator already, by its owner's doing: there is nothing to change.
        NoChange,
        /// `LD_PRELOAD` is already set, and the class says `Skip`.
        PreloadAlreadySet,
        /// `LD_PRELOAD` or the option variable comes from elsewhere, so that it cannot be joined.
        VariableFromSource,
        /// The program is linked statically, so that nothing can be preloaded.
        StaticBinary,
        /// The image's C library is not one that the class supports.
        LibcUnsupported,
        /// The processor architecture is not one that the class supports.
        ArchUnsupported,
        /// The page size of a node is not known: label it, or run the probe there.
        PageSizeUnknown,
        /// A node's page size is larger than the allocator supports.
        PageSizeUnsupported,
        /// The pods may land on nodes with different page sizes, and no variant fits all.
        MixedPageSizes,
        /// The program gains privileges when it starts, so that the loader ignores the preload.
        PrivilegedBinary,
        /// The library must be copied, but the container's file system is read-only there.
        ReadOnlyFilesystem,
        /// Pods are already in back-off, before anything was changed.
        PodsInBackOff,
        /// The memory limit is nearer than the expected peak.
        MemoryLimitTooClose,
        /// The workload is paused, scaled to zero or being deleted.
        WorkloadNotActive,
        /// The container runtime cannot mount images.
        ImageVolumeUnsupported,
        /// A claim of ours has no journal: nothing is undone by guess.
        JournalMissing,
        /// Admission mode needs a newer cluster.
        AdmissionUnavailable,
        /// One replica that may not be unavailable cannot be restarted without interruption.
        ControlRestartWouldInterrupt,
        /// The control's pods are being restarted once, unchanged.
        RestartingControl,
        /// A workload's own rollout did not complete in time.
        WorkloadDeadlineExceeded,
        /// A changed pod crashed within the stability window.
        CrashAfterInjection,

        /// Every pod has proved its allocator.
        Verified,
        /// The loader ignored the library: the pods run, on the old allocator.
        PreloadIgnored,
        /// No proof has come.
        ProofMissing,
        /// Some pods have proved it, others not.
        PartiallyProven,
        /// Pods exist that were not changed.
        UninjectedPods,
        /// The class says no way of proof that works here.
        NoProofConfigured,
        /// The series of the proof are absent.
        MetricsMissing,

        /// Within all bounds so far.
        WithinGuardrails,
        /// Shown to be not worse, with the gain that is asked for.
        NonInferior,
        /// A metric is worse beyond doubt.
        Regression,
        /// A limit was hit that needs no statistics: an out-of-memory kill, a crash loop, memory near the limit.
        HardLimit,
        /// Pods were proved to run another allocator than they should.
        AllocatorNotActive,

        /// Gate: no pod of the canary reports.
        NoCanaryData,
        /// Gate: no pod of the control reports.
        NoControlData,
        /// Gate: the newest block is too old.
        StaleData,
        /// Gate: too many pods report a value that stands still.
        StuckExporter,
        /// Gate: too few of the expected pods have valid blocks.
        LowCoverage,
        /// Gate: the time before the change has too few blocks.
        NoBaseline,
        /// Gate: the arms run different versions of the application.
        VersionMismatch,
        /// Gate: not every pod has proved the allocator that its arm should run.
        AllocatorUnverified,
        /// Gate: caches are still filling.
        CacheNotFull,
        /// Gate: caches do not evict.
        NotEvicting,
        /// Gate: the arms' loads have moved apart.
        LoadUnsteady,
        /// Gate: a metric has too few blocks.
        TooFewSamples,
        /// Gate for promotion: the canary's cache has turned over too little.
        ChurnParity,
        /// Gate for promotion: how much the caches have turned over is not known.
        ChurnUnknown,
        /// The stored evidence and Prometheus disagree.
        EvidenceMismatch,
        /// The arms run different images or templates since a user's deploy: the bake starts anew.
        ArmsDiverged,
        /// The judge does not know this kind of evidence yet.
        NotJudged,

        /// Open: one pod alone is worse.
        SinglePodOutlier,
        /// Open: too little evidence for the margin.
        Underpowered,
        /// Open: the last blocks are above the margin.
        RecentAboveMargin,
        /// Open: the ratio rises.
        TrendRising,
        /// Open: whether the ratio rises is not known.
        TrendUnknown,
        /// Open: not worse, but the gain that is asked for is not shown.
        NoGain,
        /// Open: only the minimum bake is missing.
        MinBake,

        /// Assumed: no series of the load is declared, so that it is not checked.
        LoadUnchecked,
        /// Assumed: no capacity is declared; full is told from growth.
        CapacityFromGrowth,
        /// Assumed: no evictions are declared; time stands for turnover.
        ChurnFromTime,
        /// Assumed: no latency is guarded.
        LatencyUnguarded,
        /// Assumed: the control is glibc as its owner has set it up, not as it comes.
        ControlTuned,
        /// Assumed: options that the owner has set reach the allocator that is loaded.
        OwnerOptions,
        /// Assumed: variables taken from a ConfigMap or Secret as a whole do not set an allocator up.
        EnvUnseen,
        /// Assumed: children that a server forks do without the allocator's background threads.
        ForkedChildren,

        /// All waves are complete.
        AllWavesComplete,
        /// A wave is in work.
        WaveInProgress,

        /// Restored to the very revision that was recorded.
        ExactRestore,
        /// Restored to what the user has deployed meanwhile, without our keys.
        RestoredOnNewerTemplate,
        /// It is being restored.
        InProgress,
        /// It was restored, but is not what was recorded: look at the workload.
        RestoreUnverified,

        /// A person has suspended the policy.
        UserRequested,
        /// A window has to open.
        Window,
        /// It is not suspended.
        NotSuspended,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConditionType;
    use super::*;

    #[test]
    fn words_are_unique_valid_reasons_with_a_meaning() {
        let mut seen = std::collections::BTreeSet::new();
        for reason in Reason::ALL {
            let word = reason.as_str();
            assert!(seen.insert(word), "{word} twice");
            assert!(
                word.len() <= 64 && word.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{word}"
            );
            assert!(
                reason.meaning().ends_with('.'),
                "{word}: {}",
                reason.meaning()
            );
            assert_eq!(word.parse::<Reason>(), Ok(*reason));
        }
        for condition in ConditionType::ALL {
            assert!(condition.meaning().ends_with('.'), "{condition}");
            assert_eq!(condition.as_str().parse::<ConditionType>(), Ok(*condition));
        }
        assert!("Whatever".parse::<Reason>().is_err());
    }
}
