//! What one look answers, as plain data: verdict, reason, numbers, diagnosis and what is carried on.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::carried::Frozen;
use super::diagnosis::Finding;
use super::preflight::Preflight;
use super::stored::MetricEvidence;

/// The four verdicts, in the order in which they join (§10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Not worse than every margin, the gain shown, flat, baked, churned.
    Pass,
    /// Good data, open question.
    Inconclusive,
    /// No statement possible.
    InsufficientData,
    /// Worse than tolerated beyond doubt, or a hard limit.
    Fail,
}

impl Verdict {
    /// The larger of two.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        self.max(other)
    }

    /// The verdict of a set; of none `InsufficientData`.
    pub fn join_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::InsufficientData)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::Inconclusive => "Inconclusive",
            Self::InsufficientData => "InsufficientData",
            Self::Fail => "Fail",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal),+ $(,)?) => {
        /// Why: a closed set of stable codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code { $($(#[$doc])* $name),+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }

            /// What it means, for people; goes on after "because".
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

codes! {
    /// P1 to P5 hold.
    NonInferior => "memory is shown to be no worse than asked for",
    /// A hard limit (§9); `about` names it.
    HardLimit => "a hard limit was hit",
    /// A pod runs another allocator than its arm should.
    AllocatorNotActive => "a pod is proved to run another allocator",
    /// R1 to R4 hold for a metric, or a count crosses.
    Regression => "it is worse than tolerated beyond doubt",
    /// The settings are out of range; `about` names the field.
    InvalidSettings => "the settings are out of range",
    /// The change has not happened; the baseline is good.
    NotStarted => "the change has not been made yet",
    /// No canary pod reports.
    NoCanaryData => "no canary pod reports its series",
    /// No control pod reports.
    NoControlData => "no control pod reports its series",
    /// The newest block is too old.
    StaleData => "the newest data are too old",
    /// Too many exporters stand still.
    StuckExporter => "too many exporters stand still",
    /// Too few pods have a valid block.
    LowCoverage => "too few of the expected pods report",
    /// The number of pods changed inside the block.
    PopulationChanged => "the number of pods just changed",
    /// The baseline is too short.
    NoBaseline => "the baseline is too short",
    /// The arms run different builds.
    VersionMismatch => "the arms do not run the same version",
    /// Too few pods prove their allocator.
    AllocatorUnverified => "too few pods prove which allocator they run",
    /// Caches are not full.
    CacheNotFull => "the caches are not full yet",
    /// Nothing is evicted.
    NotEvicting => "the caches do not evict",
    /// The load of the arms moved apart.
    LoadUnsteady => "the load of the two arms moved apart",
    /// Too few accepted blocks, of `about` where given.
    TooFewSamples => "there are too few accepted blocks",
    /// The canary has not churned enough.
    ChurnParity => "the canary's cache has not turned over enough",
    /// Churn cannot be known.
    ChurnUnknown => "evictions are not declared and the control was not restarted",
    /// The stored evidence does not equal the recomputed one.
    EvidenceMismatch => "the stored evidence differs from the recomputed one",
    /// One pod alone drives the evidence.
    SinglePodOutlier => "one pod alone drives the evidence",
    /// P1 fails.
    Underpowered => "it is not yet shown to stay below the margin",
    /// P2 fails.
    RecentAboveMargin => "the last blocks lie above the margin",
    /// P3 fails: growth is shown.
    TrendRising => "the ratio is rising",
    /// P3 fails: flatness is not shown.
    TrendUnknown => "it is not yet shown that the ratio is flat",
    /// P5 fails.
    NoGain => "the gain asked for is not shown",
    /// P4 fails.
    MinBake => "the minimum bake is not over",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One reason: its code and, where it needs one, the metric or limit it is about. Prints as `Code` or `Code:about`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reason {
    /// The code.
    pub code: Code,
    /// Metric, hard limit or field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

impl Reason {
    /// A reason about something.
    pub fn about(code: Code, what: &str) -> Self {
        Self {
            code,
            about: Some(what.to_owned()),
        }
    }
}

impl From<Code> for Reason {
    fn from(code: Code) -> Self {
        Self { code, about: None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.about {
            Some(about) => write!(f, "{}:{about}", self.code),
            None => f.write_str(self.code.as_str()),
        }
    }
}

/// What stands in for a series that is not declared (reading 1), or could not be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Assumption {
    /// Full is at least 0.90 of the baseline's median and flat.
    FullByBaseline,
    /// No evicting gate; the minimum bake is doubled and ages must agree.
    ChurnByTime,
    /// No load gate.
    LoadUnchecked,
    /// The baseline is too short for a peak.
    PeakUnchecked,
    /// No latency is guarded.
    LatencyUnguarded,
    /// So many pods that arms are compared with themselves instead of pods.
    PodsPooled,
    /// The restart noise is the cold-start default.
    RestartNoiseAssumed,
}

/// The numbers behind one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Numbers {
    /// `ratio`, `peak` or a guardrail's name.
    pub metric: String,
    /// Judged and shown, never acted on.
    pub dry_run: bool,
    /// Estimated change, log units.
    pub theta: f64,
    /// Anytime-valid lower bound at the metric's alpha, log units.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// ln E against the tolerance.
    pub ln_e: f64,
    /// ln E needed for a Fail.
    pub ln_e_needed: f64,
    /// B against the tolerance.
    pub b: f64,
    /// B needed for a Fail.
    pub b_needed: f64,
    /// `B_N` against the margin.
    pub b_n: f64,
    /// `B_N` needed for a Pass.
    pub b_n_needed: f64,
    /// Accepted blocks (windows for the peak).
    pub blocks: usize,
    /// Fewest of them.
    pub blocks_needed: usize,
    /// Long-run standard deviation per block, log units.
    pub omega: f64,
    /// Standard deviation of the one-off draw, log units.
    pub tau: f64,
    /// Effect that would cross now in half of all cases, as a fraction (0.05 is +5 %).
    pub detectable: f64,
}

/// Numbers of one count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountNumbers {
    /// The guardrail's name.
    pub metric: String,
    /// Judged and shown, never acted on.
    pub dry_run: bool,
    /// Events of the canary.
    pub canary: f64,
    /// Events of both arms.
    pub total: f64,
    /// Expected odds.
    pub odds: f64,
    /// ln E.
    pub ln_e: f64,
    /// ln E needed.
    pub ln_e_needed: f64,
}

/// Everything one look says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Look {
    /// The verdict.
    pub verdict: Verdict,
    /// Its one reason.
    pub reason: Reason,
    /// No further look will change it: act (Pass, Fail) or hold (the other two).
    pub is_final: bool,
    /// Per metric, the ratio first.
    pub numbers: Vec<Numbers>,
    /// Per count.
    pub counts: Vec<CountNumbers>,
    /// Geometric mean of RSS/cache over the canary's pods in the last blocks that it had, for people.
    pub ratio_canary: Option<f64>,
    /// The same for the control.
    pub ratio_control: Option<f64>,
    /// Blocks accepted since the change.
    pub accepted: usize,
    /// Blocks refused since the change, by the first reason.
    pub refused: BTreeMap<Code, usize>,
    /// Every gate that is closed now, in order.
    pub closed: Vec<Code>,
    /// What stands in for undeclared series.
    pub assumptions: Vec<Assumption>,
    /// What the canary's curves look like; explains, never decides.
    pub diagnosis: Vec<Finding>,
    /// What the given arms can show, known before anything is touched.
    pub preflight: Option<Preflight>,
    /// What the restarts of this region taught: pooled standard deviation and its degrees of freedom.
    pub learned: Option<(f64, f64)>,
    /// To be carried to the next look; `None` while the baseline does not suffice.
    pub frozen: Option<Frozen>,
    /// Every metric's accepted differences, for the bounded evidence (see [`super::stored`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<MetricEvidence>,
    /// When the next look is due, Unix seconds.
    pub next_look: f64,
}
