//! Takes what must be seen of one region's pods, gives their samples in the core's form. A look is whole or it is an error;
//! never a part, and never a value in place of one that was not measured.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::try_join_all;
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use heapfleet_core::names::WorkloadId;
use heapfleet_core::world::{Metrics, PodSeries, SeriesId};

use super::answer::RawSeries;
use super::client::Prometheus;
use super::error::PrometheusError;
use super::place::place;
use super::promql::{Label, Matchers, Pattern, Query};
use crate::clusters::Refused;
use crate::observe::series::{
    Aggregate, Guardrail, Series, SeriesSpec, Source, exposure_of, raw_step,
};

/// The first, newest stretch that is asked for; it shows how dense the samples are.
const FIRST: i64 = 300_000;
/// The longest stretch that is asked for at once.
const LONGEST: i64 = 6 * 3_600_000;

/// What must be seen, and of whom.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The plan's series.
    pub spec: &'a SeriesSpec,
    /// Only the proof of the allocator is wanted, not the judged series.
    pub proof_only: bool,
    /// The namespace of the pods.
    pub namespace: &'a str,
    /// The workloads whose pods are meant, with the container that is judged.
    pub workloads: &'a BTreeMap<WorkloadId, String>,
    /// Pods that exist now, with the workload that each belongs to, others than those above included.
    pub known: &'a BTreeMap<String, WorkloadId>,
    /// The region's own matchers.
    pub region: &'a BTreeMap<String, String>,
    /// Whether raw queries are allowed for the region.
    pub allow_raw: bool,
    /// From when on, milliseconds since the epoch.
    pub from: i64,
    /// Until when, milliseconds since the epoch.
    pub to: i64,
}

/// One line of samples that is to be read.
pub(super) struct Line {
    /// Where its samples go.
    pub(super) part: Part,
    /// The label that holds the pod's name.
    pub(super) pod_label: String,
    /// Whether it has a label `container` that names the judged one.
    pub(super) by_container: bool,
    /// How several series of one pod become one.
    pub(super) aggregate: Aggregate,
    query: Query,
    form: Form,
    /// How far the times of the answer are moved, milliseconds.
    pub(super) shift: i64,
}

/// Where samples go.
#[derive(Clone)]
pub(super) enum Part {
    /// To one judged series.
    Series(SeriesId),
    /// To the proofs of the allocator.
    Proof,
    /// To the start times.
    Start,
}

/// Stretches of one line that are asked for side by side; the limiter of the Prometheus holds over all lines.
const SIDE_BY_SIDE: usize = 4;

/// How a query is evaluated.
#[derive(Clone, Copy)]
enum Form {
    /// Stored samples.
    Samples,
    /// Values at multiples of a step.
    Points(Duration),
}

/// One look.
pub async fn look(prometheus: &Prometheus, ask: &Ask<'_>) -> Result<Metrics, PrometheusError> {
    if ask.workloads.is_empty() || ask.from >= ask.to {
        return Ok(Metrics::default());
    }
    let lines = lines(ask).map_err(|refused| PrometheusError::Refused {
        region: prometheus.region().to_owned(),
        refused,
    })?;
    let deadline = prometheus.limits().look_deadline;
    let reading = try_join_all(lines.iter().map(|line| read(prometheus, line, ask)));
    let read = tokio::time::timeout(deadline, reading)
        .await
        .map_err(|_| PrometheusError::Deadline {
            who: prometheus.who().to_owned(),
            deadline,
        })??;
    let mut pods: BTreeMap<String, PodSeries> = BTreeMap::new();
    for (line, series) in lines.iter().zip(&read) {
        place(ask, line, series, &mut pods).map_err(|because| PrometheusError::Answer {
            who: prometheus.who().to_owned(),
            because,
        })?;
    }
    Ok(Metrics { pods })
}

fn lines(ask: &Ask<'_>) -> Result<Vec<Line>, Refused> {
    let spec = ask.spec;
    let mut out = vec![
        line(ask, Part::Proof, &spec.proof)?,
        line(ask, Part::Start, &spec.start)?,
    ];
    if ask.proof_only {
        return Ok(out);
    }
    for (id, series) in &spec.judged {
        out.push(line(ask, Part::Series(id.clone()), series)?);
    }
    for (name, guardrail) in &spec.guardrails {
        let part = Part::Series(SeriesId::Guardrail(name.clone()));
        match guardrail {
            Guardrail::Quantile { buckets, quantile } => {
                let pod = Label::new(&buckets.pod_label)?;
                let query = vector(ask, buckets)?
                    .rate(spec.block)
                    .sum_by(&[&pod, &Label::new("le")?])
                    .quantile(*quantile);
                out.push(by_block(part, buckets, query, spec.block));
            }
            Guardrail::Quotient {
                numerator,
                denominator,
            } => {
                let pod = Label::new(&numerator.pod_label)?;
                let above = rates(ask, numerator)?.sum_by(&[&pod]);
                let below = rates(ask, denominator)?
                    .renamed(&Label::new(&denominator.pod_label)?, &pod)
                    .sum_by(&[&pod]);
                let query = above.over(&below);
                out.push(by_block(part, numerator, query, spec.block));
            }
            Guardrail::Count { events, per } => {
                out.push(line(ask, part, events)?);
                if let Some(per) = per {
                    let part = Part::Series(SeriesId::Guardrail(exposure_of(name)));
                    out.push(line(ask, part, per)?);
                }
            }
        }
    }
    Ok(out)
}

/// Rates of a counter over one block.
fn rates(ask: &Ask<'_>, series: &Series) -> Result<Query, Refused> {
    let (vector, block) = (vector(ask, series)?, ask.spec.block);
    Ok(match &series.source {
        Source::Metric(_) => vector.rate(block),
        Source::Raw(_) => vector.rate_of_points(block, raw_step(block)),
    })
}

fn line(ask: &Ask<'_>, part: Part, series: &Series) -> Result<Line, Refused> {
    Ok(Line {
        part,
        pod_label: series.pod_label.clone(),
        by_container: series.by_container,
        aggregate: series.aggregate,
        query: vector(ask, series)?,
        form: match &series.source {
            Source::Metric(_) => Form::Samples,
            Source::Raw(_) => Form::Points(raw_step(ask.spec.block)),
        },
        shift: 0,
    })
}

/// A value per pod and block: what a block's end shows belongs to the block, whose middle it is given.
fn by_block(part: Part, series: &Series, query: Query, block: Duration) -> Line {
    Line {
        part,
        pod_label: series.pod_label.clone(),
        by_container: false,
        aggregate: Aggregate::Max,
        query,
        form: Form::Points(block),
        shift: -(millis(block) / 2),
    }
}

fn vector(ask: &Ask<'_>, series: &Series) -> Result<Query, Refused> {
    let pods: Vec<Pattern> = ask.workloads.keys().map(Pattern::pods_of).collect();
    let mut matchers = Matchers::default()
        .is(&Label::new("namespace")?, ask.namespace)
        .like(&Label::new(&series.pod_label)?, &pods);
    if series.by_container {
        let containers: BTreeSet<Pattern> = ask
            .workloads
            .values()
            .map(|name| Pattern::literal(name))
            .collect();
        let containers: Vec<Pattern> = containers.into_iter().collect();
        matchers = matchers.like(&Label::new("container")?, &containers);
    }
    for (label, value) in ask.region.iter().chain(&series.matchers) {
        matchers = matchers.is(&Label::new(label)?, value);
    }
    match &series.source {
        Source::Metric(metric) => Ok(Query::select(metric, &matchers)),
        Source::Raw(text) if ask.allow_raw => Ok(Query::raw(text, &matchers)),
        Source::Raw(_) => Err(Refused::new(
            "spec.prometheus.allowRawQueries",
            "false",
            "the policy has a raw promql query",
            "name a metric in the policy, or have raw queries allowed for the region",
        )),
    }
}

/// All samples of a line, newest stretch first: it tells how long the others may be.
async fn read(
    prometheus: &Prometheus,
    line: &Line,
    ask: &Ask<'_>,
) -> Result<Vec<RawSeries>, PrometheusError> {
    let limits = prometheus.limits();
    let edge = (ask.to - FIRST).max(ask.from);
    let newest = stretch(prometheus, line, edge, ask.to).await?;
    let seen: usize = newest.iter().map(|series| series.samples.len()).sum();
    let length = stretch_length(seen, ask.to - edge, limits.points);
    let mut cuts = Vec::new();
    let mut end = edge;
    while end > ask.from {
        let start = (end - length).max(ask.from);
        cuts.push((start, end));
        end = start;
    }
    let older = iter(cuts)
        .map(|(start, end)| stretch(prometheus, line, start, end))
        .buffer_unordered(SIDE_BY_SIDE);
    let mut all = Joined::new(prometheus.who(), limits.most);
    all.add(newest)?;
    let all = older
        .try_fold(all, async |mut all, part| all.add(part).map(|()| all))
        .await?;
    Ok(all.finish())
}

/// How long a stretch may be, so that it holds about `points` samples.
fn stretch_length(seen: usize, over: i64, points: usize) -> i64 {
    let seen = i64::try_from(seen).unwrap_or(i64::MAX);
    let points = i64::try_from(points).unwrap_or(i64::MAX);
    match seen {
        0 => LONGEST,
        seen => (points.saturating_mul(over) / seen).clamp(1_000, LONGEST),
    }
}

async fn stretch(
    prometheus: &Prometheus,
    line: &Line,
    from: i64,
    to: i64,
) -> Result<Vec<RawSeries>, PrometheusError> {
    let window = Duration::from_millis(u64::try_from(to - from).unwrap_or_default());
    let query = match line.form {
        Form::Samples => line.query.samples(window),
        Form::Points(step) => line.query.points(window, step),
    };
    prometheus.matrix(&query, to).await
}

/// Stretches put together by series; a sample on the edge of two counts once.
struct Joined<'a> {
    who: &'a str,
    most: usize,
    count: usize,
    series: BTreeMap<BTreeMap<String, String>, BTreeMap<i64, f64>>,
}

impl<'a> Joined<'a> {
    fn new(who: &'a str, most: usize) -> Self {
        Self {
            who,
            most,
            count: 0,
            series: BTreeMap::new(),
        }
    }

    fn add(&mut self, part: Vec<RawSeries>) -> Result<(), PrometheusError> {
        for one in part {
            self.count += one.samples.len();
            self.series
                .entry(one.labels)
                .or_default()
                .extend(one.samples);
        }
        if self.count > self.most {
            return Err(PrometheusError::Answer {
                who: self.who.to_owned(),
                because: format!(
                    "more than {} samples of one series; shorten spec.analysis.baseline or scrape less often",
                    self.most
                ),
            });
        }
        Ok(())
    }

    fn finish(self) -> Vec<RawSeries> {
        let series = self.series.into_iter();
        series
            .map(|(labels, samples)| RawSeries {
                labels,
                samples: samples.into_iter().collect(),
            })
            .collect()
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
