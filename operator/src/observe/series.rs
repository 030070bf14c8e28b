//! Takes the analysis of a frozen plan, gives the series that its judgement needs, still without scope: which pods, which
//! region and which time are added where they are asked for. Never holds a query text of its own making.

use std::collections::BTreeMap;
use std::time::Duration;

use heapfleet_core::world::SeriesId;
use heapfleet_crds as crds;

/// Resident set size of a container's process, bytes; exported by the node probe.
const PROBE_RSS: &str = "heapfleet_probe_rss_bytes";
/// Which allocator a container's process runs, value 1; exported by the node probe.
const PROBE_ALLOCATOR: &str = "heapfleet_probe_allocator_info";
/// When a container's process started, seconds since the epoch; exported by the node probe.
const PROBE_START: &str = "heapfleet_probe_start_time_seconds";
/// The longest time between two points of a raw query.
const RAW_STEP: Duration = Duration::from_secs(15);

/// All series of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesSpec {
    /// Judged series: raw samples.
    pub judged: Vec<(SeriesId, Series)>,
    /// Guardrails by name.
    pub guardrails: Vec<(String, Guardrail)>,
    /// Proof of the allocator, by label `allocator`.
    pub proof: Series,
    /// Start times of the process.
    pub start: Series,
    /// Length of a block.
    pub block: Duration,
}

/// A series by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// A metric's name, or a raw query with a place for its scope.
    pub source: Source,
    /// Further labels with exactly these values.
    pub matchers: BTreeMap<String, String>,
    /// The label that holds the pod's name.
    pub pod_label: String,
    /// How several series of one pod become one.
    pub aggregate: Aggregate,
    /// Whether it has a label `container` that names the judged one.
    pub by_container: bool,
}

/// Where the samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A metric.
    Metric(String),
    /// A query of the user's own that contains `$matchers`; only where the region allows it.
    Raw(String),
}

/// How several series of one pod become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Added up.
    Sum,
    /// The largest counts.
    Max,
}

/// A guardrail's series.
#[derive(Clone, Debug, PartialEq)]
pub enum Guardrail {
    /// A quantile of a classic histogram, one value per pod and block.
    Quantile {
        /// The histogram's buckets.
        buckets: Series,
        /// The quantile, above 0 and below 1.
        quantile: f64,
    },
    /// A counter's rate divided by another's, one value per pod and block.
    Quotient {
        /// Above the line.
        numerator: Series,
        /// Below the line.
        denominator: Series,
    },
    /// A counter of events, raw, and the counter that they are related to, if any.
    Count {
        /// The events.
        events: Series,
        /// What they are counted against.
        per: Option<Series>,
    },
}

pub use heapfleet_core::world::exposure_of;

/// The series that a frozen plan names; what it does not declare is not in it.
pub fn of_plan(plan: &crds::Plan) -> SeriesSpec {
    let analysis = &plan.analysis;
    let mut judged = vec![(
        SeriesId::Rss,
        analysis
            .rss
            .as_ref()
            .map_or_else(|| probe(PROBE_RSS, Aggregate::Sum), declared),
    )];
    let optional = [
        (SeriesId::Cache, analysis.cache.as_ref()),
        (SeriesId::Evictions, analysis.evictions.as_ref()),
        (SeriesId::Requests, analysis.requests.as_ref()),
    ];
    judged.extend(
        optional
            .into_iter()
            .filter_map(|(id, series)| Some((id, declared(series?)))),
    );
    judged.extend(
        analysis
            .cache_capacity
            .as_ref()
            .and_then(capacity)
            .map(|s| (SeriesId::Capacity, s)),
    );
    SeriesSpec {
        judged,
        guardrails: analysis
            .guardrails
            .iter()
            .filter_map(|g| Some((g.name.to_string(), guardrail(g)?)))
            .collect(),
        proof: probe(PROBE_ALLOCATOR, Aggregate::Max),
        start: probe(PROBE_START, Aggregate::Max),
        block: block(analysis),
    }
}

/// The time between two points of a raw query, whose own sample times cannot be had.
pub(super) fn raw_step(block: Duration) -> Duration {
    // As the core reckons the time between two scrapes.
    (block / 4).clamp(Duration::from_millis(250), RAW_STEP)
}

fn block(analysis: &crds::Analysis) -> Duration {
    let written = analysis
        .block_duration
        .millis()
        .and_then(|millis| u64::try_from(millis).ok());
    // The schema keeps it at a second and more; a plan that says otherwise was refused before anything asks.
    Duration::from_millis(written.unwrap_or(300_000).max(1_000))
}

fn probe(metric: &str, aggregate: Aggregate) -> Series {
    Series {
        source: Source::Metric(metric.to_owned()),
        matchers: BTreeMap::new(),
        pod_label: "pod".to_owned(),
        aggregate,
        by_container: true,
    }
}

fn declared(series: &crds::SeriesRef) -> Series {
    Series {
        source: source(series.metric.as_deref(), series.promql.as_deref()),
        matchers: texts(&series.matchers),
        pod_label: series.pod_label.clone(),
        aggregate: aggregate(series.aggregate),
        by_container: false,
    }
}

/// The series of a capacity; a fixed value is the core's.
fn capacity(capacity: &crds::CapacityRef) -> Option<Series> {
    if capacity.metric.is_none() && capacity.promql.is_none() {
        return None;
    }
    Some(Series {
        source: source(capacity.metric.as_deref(), capacity.promql.as_deref()),
        matchers: texts(&capacity.matchers),
        pod_label: capacity.pod_label.clone(),
        aggregate: aggregate(capacity.aggregate),
        by_container: false,
    })
}

fn guardrail(guardrail: &crds::Guardrail) -> Option<Guardrail> {
    if let Some(histogram) = &guardrail.histogram {
        return Some(Guardrail::Quantile {
            buckets: Series {
                source: Source::Metric(format!("{}_bucket", histogram.metric)),
                matchers: texts(&histogram.matchers),
                pod_label: histogram.pod_label.clone(),
                aggregate: Aggregate::Sum,
                by_container: false,
            },
            quantile: histogram.quantile.parse().ok()?,
        });
    }
    if let Some(ratio) = &guardrail.ratio {
        let (numerator, denominator) = (declared(&ratio.numerator), declared(&ratio.denominator));
        return Some(match ratio.of {
            crds::RatioOf::Amount => Guardrail::Quotient {
                numerator,
                denominator,
            },
            crds::RatioOf::Events => Guardrail::Count {
                events: numerator,
                per: Some(denominator),
            },
        });
    }
    let count = guardrail.count.as_ref()?;
    Some(Guardrail::Count {
        events: declared(count),
        per: None,
    })
}

fn source(metric: Option<&str>, promql: Option<&str>) -> Source {
    match (metric, promql) {
        (Some(metric), _) => Source::Metric(metric.to_owned()),
        (None, Some(query)) => Source::Raw(query.to_owned()),
        // The schema has exactly one; a name that no metric has finds nothing.
        (None, None) => Source::Metric(String::new()),
    }
}

fn texts(matchers: &BTreeMap<String, crds::LabelText>) -> BTreeMap<String, String> {
    matchers
        .iter()
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect()
}

fn aggregate(aggregate: crds::Aggregate) -> Aggregate {
    match aggregate {
        crds::Aggregate::Sum => Aggregate::Sum,
        crds::Aggregate::Max => Aggregate::Max,
    }
}
