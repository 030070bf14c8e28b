//! Takes the series that a query found, gives each pod its samples. Never takes a series for a pod that it does not name,
//! nor one of two where only one can be meant.

use std::collections::BTreeMap;

use heapfleet_core::world::{PodSeries, SeriesId};

use super::answer::RawSeries;
use super::look::{Ask, Line, Part};
use super::merge::{one_line, seconds, two_targets};

/// How many of many series are named to a person.
const EXAMPLES: usize = 5;

/// Puts a line's samples to the pods that they are of. Series that are of no pod, and pods with more than one scraped
/// thing at a time, are an error that says how to name the one that is meant: the judge would else judge a part.
pub(super) fn place(
    ask: &Ask<'_>,
    line: &Line,
    all: &[RawSeries],
    pods: &mut BTreeMap<String, PodSeries>,
) -> Result<(), String> {
    let mut by_pod: BTreeMap<&str, Vec<&RawSeries>> = BTreeMap::new();
    let mut of_none: Vec<String> = Vec::new();
    for series in all.iter().filter(|series| !series.samples.is_empty()) {
        let pod = series.labels.get(&line.pod_label);
        let Some(pod) = pod.filter(|pod| !pod.is_empty()) else {
            of_none.push(shown(&series.labels));
            continue;
        };
        if is_meant(ask, line, series, pod) {
            by_pod.entry(pod).or_default().push(series);
        }
    }
    let field = field(&line.part);
    if !of_none.is_empty() {
        return Err(format!(
            "{field}: {} series without the label {}, such as {}; keep the label in the query, as with `by ({})`, or set podLabel",
            of_none.len(),
            line.pod_label,
            examples(&of_none),
            line.pod_label,
        ));
    }
    // The probe tells by container whom it means; two probes of one node are two scrapers of the same process.
    if matches!(line.part, Part::Series(_)) && !line.by_container {
        let doubled: Vec<String> = by_pod
            .iter()
            .filter_map(|(pod, series)| {
                let (one, other) = two_targets(series.iter().copied())?;
                Some(format!("{pod} ({one} and {other})"))
            })
            .collect();
        if !doubled.is_empty() {
            return Err(format!(
                "{field}: {} pods have series of two targets at once: {}; add matchers that leave one",
                doubled.len(),
                examples(&doubled),
            ));
        }
    }
    for (pod, series) in by_pod {
        let into = pods.entry(pod.to_owned()).or_default();
        match &line.part {
            Part::Series(id) => {
                let mut samples = one_line(series, line.aggregate);
                if line.shift != 0 {
                    let shift = seconds(line.shift);
                    for (at, _) in &mut samples {
                        *at += shift;
                    }
                }
                into.series.insert(id.clone(), samples);
            }
            Part::Proof => proofs(&series, &mut into.allocators),
            Part::Start => into.starts = starts(&series),
        }
    }
    Ok(())
}

/// The field of a policy that a part was declared in.
fn field(part: &Part) -> String {
    let name = match part {
        Part::Series(SeriesId::Guardrail(name)) => {
            return format!("spec.analysis.guardrails {name}");
        }
        Part::Series(SeriesId::Rss) => "rss",
        Part::Series(SeriesId::Cache) => "cache",
        Part::Series(SeriesId::Capacity) => "cacheCapacity",
        Part::Series(SeriesId::Evictions) => "evictions",
        Part::Series(SeriesId::Requests) => "requests",
        Part::Proof | Part::Start => return "the node probe".to_owned(),
    };
    format!("spec.analysis.{name}")
}

/// At most so many of a list, and that there are more.
fn examples(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(EXAMPLES).map(String::as_str).collect();
    let more = if all.len() > EXAMPLES { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}

/// Labels as people know them.
fn shown(labels: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}={value:?}"))
        .collect();
    format!("{{{}}}", all.join(","))
}

fn is_meant(ask: &Ask<'_>, line: &Line, series: &RawSeries, pod: &str) -> bool {
    let judged = match ask.known.get(pod) {
        Some(owner) => ask.workloads.get(owner),
        None => ask
            .workloads
            .iter()
            .find(|(id, _)| id.names_pod(pod))
            .map(|(_, name)| name),
    };
    judged.is_some_and(|name| !line.by_container || series.labels.get("container") == Some(name))
}

/// The newest sample of each allocator that was seen in the process.
fn proofs(series: &[&RawSeries], into: &mut BTreeMap<String, f64>) {
    for one in series {
        let Some(allocator) = one.labels.get("allocator") else {
            continue;
        };
        let newest = one
            .samples
            .iter()
            .filter(|(_, value)| *value > 0.5)
            .map(|(at, _)| *at)
            .max();
        if let Some(at) = newest {
            let held = into.entry(allocator.clone()).or_insert(f64::NEG_INFINITY);
            *held = held.max(seconds(at));
        }
    }
}

/// Distinct start times, ascending. The probe reckons them from the boot time and ticks, so that one start can be seen
/// a few hundredths apart; no container restarts that fast.
fn starts(series: &[&RawSeries]) -> Vec<f64> {
    let mut all: Vec<f64> = series
        .iter()
        .flat_map(|one| one.samples.iter().map(|(_, value)| *value))
        .filter(|value| *value > 0.0)
        .collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by(|later, earlier| *later - *earlier < 0.1);
    all
}
