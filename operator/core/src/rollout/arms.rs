//! Takes what was seen of a workload in one region, gives the arm that the judge is told of: its pods, their series, what
//! their processes are proved to run. What is told of a block must not change when its pods are gone, or stored evidence
//! could not be confirmed. Never judges.

use jiff::Timestamp;

use super::looks::size_key;
use super::position::{RegionState, WorkState};
use super::region::f64_seconds;
use super::step::Step;
use super::workload::current_pods;
use crate::inject::version;
use crate::judge::{self, Arm, Capacity, Change, GuardrailKind, GuardrailSeries, Proof, Seen};
use crate::names::{Region, WorkloadId};
use crate::world::{ClusterView, Metrics, PodSeries, SeriesId, Workload, exposure_of};

/// One arm to be told to the judge.
pub(super) struct ArmView<'a> {
    pub(super) name: &'a Region,
    pub(super) cluster: &'a ClusterView,
    pub(super) metrics: &'a Metrics,
    pub(super) id: &'a WorkloadId,
    pub(super) work: &'a WorkState,
    pub(super) state: &'a RegionState,
    pub(super) change: Option<Change>,
    pub(super) restarted: bool,
    /// Whether the arm's pods run the target now: the canary after the change, a control that is converted.
    pub(super) runs_target: bool,
}

/// The arm as the judge is told of it.
pub(super) fn arm(s: &Step<'_>, view: &ArmView<'_>) -> Arm {
    let workload = view.cluster.workloads.get(view.id);
    let current: Vec<&str> = workload
        .map(|workload| {
            current_pods(workload)
                .into_iter()
                .map(|pod| pod.name.as_str())
                .collect()
        })
        .unwrap_or_default();
    let mut names: Vec<&String> = view
        .metrics
        .pods
        .keys()
        .filter(|name| view.id.names_pod(name))
        .collect();
    let silent = workload
        .into_iter()
        .flat_map(|workload| &workload.pods)
        .map(|pod| &pod.name);
    names.extend(silent.filter(|name| !view.metrics.pods.contains_key(*name)));
    let empty = PodSeries::default();
    let pods = names.into_iter().filter_map(|name| {
        let series = view.metrics.pods.get(name).unwrap_or(&empty);
        let exists = current.contains(&name.as_str());
        // After the change, pods of the time before it are not the arm any more.
        let old = view.restarted
            && view
                .change
                .is_some_and(|change| series.starts.iter().all(|start| *start < change.began));
        let told = pod(s, view, workload, name, series, exists);
        (exists || !(old || foreign(view, &told.allocator.seen))).then_some(told)
    });
    let expected = view
        .change
        .and_then(|_| view.state.sizes.get(&size_key(view.name, view.id)));
    Arm {
        region: view.name.to_string(),
        expected: expected
            .map(|sizes| {
                sizes
                    .iter()
                    .map(|(at, size)| (f64_seconds(*at), *size))
                    .collect()
            })
            .unwrap_or_default(),
        pods: pods.collect(),
        ..Arm::default()
    }
}

/// Whether a pod that is gone ran another allocator than its arm does: one of an earlier attempt, which is no baseline.
fn foreign(view: &ArmView<'_>, seen: &Seen) -> bool {
    match seen {
        Seen::Unknown => false,
        Seen::Source => view.runs_target,
        Seen::Target => !view.runs_target,
        Seen::Other(_) => true,
    }
}

fn pod(
    s: &Step<'_>,
    view: &ArmView<'_>,
    workload: Option<&Workload>,
    name: &str,
    series: &PodSeries,
    exists: bool,
) -> judge::Pod {
    let listed = workload.and_then(|workload| workload.pods.iter().find(|pod| pod.name == name));
    let container = &view.work.container;
    let of =
        |id: &SeriesId| judge::Series::from(series.series.get(id).cloned().unwrap_or_default());
    let capacity = match (
        s.plan.fixed_capacity,
        series.series.get(&SeriesId::Capacity),
    ) {
        (Some(bytes), _) => Capacity::Fixed(bytes),
        (None, Some(samples)) => Capacity::Series(samples.clone().into()),
        (None, None) => Capacity::Unknown,
    };
    let guardrails = s.plan.judge.guardrails.iter().filter_map(|guardrail| {
        let of = |name: &str| {
            series
                .series
                .get(&SeriesId::Guardrail(name.to_owned()))
                .cloned()
        };
        let samples: judge::Series = of(&guardrail.name)?.into();
        let told = match guardrail.kind {
            GuardrailKind::P99 | GuardrailKind::Continuous => GuardrailSeries::Gauge(samples),
            GuardrailKind::Count => {
                let exposure = of(&exposure_of(&guardrail.name)).map(judge::Series::from);
                GuardrailSeries::Count {
                    events: samples,
                    exposure,
                }
            }
        };
        Some((guardrail.name.clone(), told))
    });
    judge::Pod {
        name: name.to_owned(),
        starts: series.starts.clone(),
        exists,
        ready_at: listed.and_then(|pod| pod.ready_since).map(f64_seconds),
        version: listed
            .zip(workload)
            .and_then(|(pod, workload)| version(workload, pod, container).map(str::to_owned)),
        allocator: allocator(s, view, series, listed.map(|pod| pod.created)),
        memory_limit: listed
            .and_then(|pod| pod.memory_limits.get(container))
            .map(|limit| real(*limit)),
        oom_killed: listed.is_some_and(|pod| pod.oom_killed),
        crash_loop: listed.is_some_and(|pod| pod.crash_loop.is_some()),
        rss: of(&SeriesId::Rss),
        cache: of(&SeriesId::Cache),
        capacity,
        evictions: of(&SeriesId::Evictions),
        requests: of(&SeriesId::Requests),
        guardrails: guardrails.collect(),
        stats: None,
    }
}

/// What the probe says of a pod's processes. An allocator never changes in a running process: where only one was ever seen
/// it holds since the first process began, else the newest word holds since the last one did. Where glibc is tried against
/// glibc, both have one name, and what the arm runs tells them apart.
fn allocator(
    s: &Step<'_>,
    view: &ArmView<'_>,
    series: &PodSeries,
    created: Option<Timestamp>,
) -> Proof {
    let mut newest: Vec<(&String, f64)> = series
        .allocators
        .iter()
        .map(|(name, at)| (name, *at))
        .collect();
    newest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let began = if newest.len() > 1 {
        series.starts.last()
    } else {
        series.starts.first()
    };
    let born = began.copied().or_else(|| created.map(f64_seconds));
    let (Some(since), Some((name, _))) = (born, newest.first()) else {
        return Proof::default();
    };
    let seen = if **name == s.plan.allocator.name && (*name != "glibc" || view.runs_target) {
        Seen::Target
    } else if *name == "glibc" {
        Seen::Source
    } else {
        Seen::Other((*name).clone())
    };
    Proof { seen, since }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "bytes below 2^53 are exact"
)]
fn real(bytes: u64) -> f64 {
    bytes as f64
}
