//! What one look is told: facts and samples up to `now`, as plain data. Times are Unix seconds, sizes bytes.
//! Nothing here is trusted: hygiene decides what a sample is worth.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One sample: Unix seconds, value.
pub type Sample = (f64, f64);

/// One series as scraped; usually by one replica, two for a highly available pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The samples of each replica, in any order.
    pub replicas: Vec<Vec<Sample>>,
}

impl From<Vec<Sample>> for Series {
    fn from(samples: Vec<Sample>) -> Self {
        Self {
            replicas: vec![samples],
        }
    }
}

/// One look's input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LookInput {
    /// The time of the look; samples after it do not exist for it.
    pub now: f64,
    /// The change; `None` before it: then only the baseline is looked at. Samples should begin
    /// [`Settings::lead`](super::Settings::lead) before the window that is looked at: the baseline before the change and,
    /// without anything frozen, after it; the bake otherwise. Where the control is not restarted its evictions are needed
    /// from the baseline on.
    #[serde(default)]
    pub change: Option<Change>,
    /// The canary region's pods.
    pub canary: Arm,
    /// The control regions, each an arm.
    pub controls: Vec<Arm>,
}

/// When the pods were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The first restart of either arm began: the baseline ends here.
    pub began: f64,
    /// The last restart of either arm was complete: the bake starts here.
    pub ended: f64,
}

/// One region's judged workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arm {
    /// The region's name.
    pub region: String,
    /// Expected pods from a time on, ascending. Before the first entry, or without any, those count that have samples
    /// before and after.
    #[serde(default)]
    pub expected: Vec<(f64, u32)>,
    /// Every pod that has samples or exists.
    pub pods: Vec<Pod>,
    /// Guardrail series that exist per arm, not per pod.
    #[serde(default)]
    pub guardrails: BTreeMap<String, GuardrailSeries>,
}

/// One pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Its name, the identity of a `StatefulSet`'s pod.
    pub name: String,
    /// Start times of its processes. None known: none of its blocks is valid. The first sample's time may stand in for
    /// a pod that is gone.
    pub starts: Vec<f64>,
    /// The API server lists it now.
    pub exists: bool,
    /// When it became ready.
    pub ready_at: Option<f64>,
    /// Which build it runs: an image digest, after mapping those that belong together.
    pub version: Option<String>,
    /// Which allocator its process was proved to run.
    pub allocator: Proof,
    /// Memory limit.
    pub memory_limit: Option<f64>,
    /// A container of it was killed for memory since the change.
    pub oom_killed: bool,
    /// It is in a crash loop since the change.
    pub crash_loop: bool,
    /// Resident bytes.
    pub rss: Series,
    /// Accounted cache bytes.
    pub cache: Series,
    /// Capacity of that cache.
    pub capacity: Capacity,
    /// Evicted bytes, a counter.
    pub evictions: Series,
    /// Requests, a counter.
    pub requests: Series,
    /// Guardrails by name.
    pub guardrails: BTreeMap<String, GuardrailSeries>,
    /// The allocator's own statistics, for the diagnosis.
    pub stats: Option<AllocatorStats>,
}

/// What is known of a pod's allocator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What was seen.
    pub seen: Seen,
    /// Since when it holds: the first proof, or (an allocator never changes in a running process) its start.
    pub since: f64,
}

/// Which allocator was seen in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// The target of the rollout.
    Target,
    /// The one that is to be replaced.
    Source,
    /// A third one.
    Other(String),
    /// No proof either way.
    #[default]
    Unknown,
}

/// Capacity of a cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Capacity {
    /// Not told.
    #[default]
    Unknown,
    /// A fixed number of bytes.
    Fixed(f64),
    /// Measured.
    Series(Series),
}

/// The samples of one guardrail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GuardrailSeries {
    /// A positive value, such as a latency quantile computed elsewhere: the block's mean of its logarithm counts.
    Gauge(Series),
    /// A histogram: cumulative bucket counters by upper bound, and the quantile wanted.
    Histogram {
        /// The quantile, in (0, 1).
        quantile: f64,
        /// Upper bound (infinite for the last) and counter of each bucket.
        buckets: Vec<(f64, Series)>,
    },
    /// A quotient of two counters' increases, such as CPU seconds per request.
    Quotient {
        /// The counter above.
        numerator: Series,
        /// The counter below.
        denominator: Series,
    },
    /// A counter of events; `exposure`, where given, is a counter too, else requests, else pod-seconds.
    Count {
        /// The events.
        events: Series,
        /// What they are counted against.
        exposure: Option<Series>,
    },
}

/// jemalloc's own statistics of one process; only the diagnosis reads them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatorStats {
    /// Bytes allocated by the application.
    pub allocated: Series,
    /// Bytes in active pages.
    pub active: Series,
    /// Bytes resident.
    pub resident: Series,
    /// Bytes of metadata.
    pub metadata: Series,
    /// Purges, a counter.
    pub purges: Series,
}
