//! Takes all series that Prometheus holds of one pod under one name, gives one line of samples. Adds up only what one
//! process exported in one scrape; never adds up or averages what two scrapers saw of the same thing.

use std::collections::BTreeMap;

use super::answer::RawSeries;
use crate::observe::series::Aggregate;

/// Labels that tell scrapes of one thing apart: another target, another scraper, another life of the pod.
const SCRAPE: [&str; 7] = [
    "job",
    "instance",
    "replica",
    "prometheus_replica",
    "prometheus",
    "uid",
    "endpoint",
];
/// Labels that name what was scraped. Of two such things at one time only one can be meant.
const TARGET: [&str; 2] = ["instance", "container"];
/// So many samples on both sides make two targets stand side by side; fewer are the edge of a handover.
const SIDE_BY_SIDE: usize = 3;
/// A gap of so many usual distances ends a run of samples.
const GAP: i64 = 5;

/// One line of samples: seconds since the epoch, value, ascending. Where two scrapes overlap in time, the longer run of
/// samples is taken and the other fills what it leaves out.
pub(super) fn one_line<'a>(
    series: impl IntoIterator<Item = &'a RawSeries>,
    aggregate: Aggregate,
) -> Vec<(f64, f64)> {
    let mut scrapes: BTreeMap<Vec<Option<&str>>, BTreeMap<i64, f64>> = BTreeMap::new();
    for one in series {
        let key = SCRAPE
            .iter()
            .map(|label| one.labels.get(*label).map(String::as_str))
            .collect();
        let line = scrapes.entry(key).or_default();
        for (at, value) in &one.samples {
            line.entry(*at)
                .and_modify(|held| {
                    *held = match aggregate {
                        Aggregate::Sum => *held + value,
                        Aggregate::Max => held.max(*value),
                    };
                })
                .or_insert(*value);
        }
    }
    let mut runs: Vec<Vec<(i64, f64)>> = scrapes.into_values().flat_map(runs).collect();
    // The longest first; of equals the earliest, so that the outcome does not hang on the order of the answer.
    runs.sort_by_key(|run| (std::cmp::Reverse(run.len()), run.first().map(|(at, _)| *at)));
    let mut spans: Vec<(i64, i64)> = Vec::new();
    let mut line: BTreeMap<i64, f64> = BTreeMap::new();
    for run in runs {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
            continue;
        };
        let span = (*first, *last);
        let taken = |at: i64| spans.iter().any(|(from, to)| (*from..=*to).contains(&at));
        line.extend(run.iter().filter(|(at, _)| !taken(*at)).copied());
        spans.push(span);
    }
    line.into_iter()
        .map(|(at, value)| (seconds(at), value))
        .collect()
}

/// The first two targets, as label and value, that were scraped side by side; `None` where each instant has one. Several
/// series of one target are what the aggregate is for, several scrapers of one target are [`one_line`]'s affair, and targets
/// that follow each other are lives of one name.
pub(super) fn two_targets<'a>(
    series: impl IntoIterator<Item = &'a RawSeries>,
) -> Option<(String, String)> {
    let mut targets: BTreeMap<[&str; 2], BTreeMap<i64, f64>> = BTreeMap::new();
    for one in series {
        let key = TARGET.map(|label| one.labels.get(label).map_or("", String::as_str));
        let line = targets.entry(key).or_default();
        line.extend(one.samples.iter().copied());
    }
    if targets.len() < 2 {
        return None;
    }
    let stretches: Vec<_> = targets
        .into_iter()
        .flat_map(|(key, line)| runs(line).into_iter().map(move |run| (key, run)))
        .collect();
    let (a, b) = stretches.iter().enumerate().find_map(|(i, (a, mine))| {
        let later = stretches.iter().skip(i + 1);
        later
            .filter(|(b, _)| a != b)
            .find(|(_, other)| within(mine, other) && within(other, mine))
            .map(|(b, _)| (a, b))
    })?;
    let told = |one: &[&str; 2], other: &[&str; 2]| {
        let apart = TARGET.iter().zip(one.iter().zip(other));
        apart
            .filter(|(_, (mine, theirs))| mine != theirs)
            .map(|(label, (mine, _))| format!("{label}={mine:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    Some((told(a, b), told(b, a)))
}

/// Whether enough of the samples lie in the time of the other run.
fn within(samples: &[(i64, f64)], run: &[(i64, f64)]) -> bool {
    let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
        return false;
    };
    let inside = samples
        .iter()
        .filter(|(at, _)| (*first..=*last).contains(at));
    inside.count() >= SIDE_BY_SIDE
}

/// Stretches without a gap.
fn runs(line: BTreeMap<i64, f64>) -> Vec<Vec<(i64, f64)>> {
    let samples: Vec<(i64, f64)> = line.into_iter().collect();
    let mut distances: Vec<i64> = samples
        .iter()
        .zip(samples.iter().skip(1))
        .map(|((a, _), (b, _))| b - a)
        .collect();
    distances.sort_unstable();
    let usual = distances
        .get(distances.len() / 2)
        .copied()
        .unwrap_or(1)
        .max(1);
    let mut out: Vec<Vec<(i64, f64)>> = Vec::new();
    for sample in samples {
        let joins = out
            .last()
            .and_then(|run| run.last())
            .is_some_and(|(before, _)| sample.0 - before <= usual.saturating_mul(GAP));
        match out.last_mut() {
            Some(run) if joins => run.push(sample),
            Some(_) | None => out.push(vec![sample]),
        }
    }
    out
}

/// Milliseconds as seconds: exact to the millisecond for all times that Prometheus knows.
pub(super) fn seconds(millis: i64) -> f64 {
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "times are far below 2^53 ms"
    )]
    let millis = millis as f64;
    millis / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> RawSeries {
        RawSeries {
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            samples: samples.to_vec(),
        }
    }

    #[test]
    fn caches_of_one_process_are_added_up_by_scrape() {
        let a = series(
            &[("instance", "i"), ("cache", "a")],
            &[(1_000, 1.0), (2_000, 2.0)],
        );
        let b = series(
            &[("instance", "i"), ("cache", "b")],
            &[(1_000, 10.0), (2_000, 20.0)],
        );
        assert_eq!(
            one_line([&a, &b], Aggregate::Sum),
            [(1.0, 11.0), (2.0, 22.0)]
        );
        assert_eq!(
            one_line([&a, &b], Aggregate::Max),
            [(1.0, 10.0), (2.0, 20.0)]
        );
    }

    #[test]
    fn two_scrapers_of_one_pod_are_never_added_up() {
        let full: Vec<(i64, f64)> = (0..10).map(|i| (i * 1_000, 5.0)).collect();
        // Offset by 0 and by 400 ms; the second saw fewer.
        for offset in [0, 400] {
            let half: Vec<(i64, f64)> = (2..6).map(|i| (i * 1_000 + offset, 7.0)).collect();
            let a = series(&[("replica", "a")], &full);
            let b = series(&[("replica", "b")], &half);
            let line = one_line([&b, &a], Aggregate::Sum);
            assert_eq!(line.len(), 10);
            assert!(line.iter().all(|(_, value)| (*value - 5.0).abs() < 1e-9));
        }
    }

    #[test]
    fn the_other_scraper_fills_a_gap() {
        let gappy: Vec<(i64, f64)> = (0..10).chain(40..50).map(|i| (i * 1_000, 5.0)).collect();
        let short: Vec<(i64, f64)> = (20..25).map(|i| (i * 1_000, 6.0)).collect();
        let a = series(&[("prometheus_replica", "0")], &gappy);
        let b = series(&[("prometheus_replica", "1")], &short);
        assert_eq!(one_line([&a, &b], Aggregate::Sum).len(), 25);
    }

    #[test]
    fn two_lives_of_one_name_follow_each_other() {
        let a = series(
            &[("uid", "1"), ("instance", "10.0.0.1")],
            &[(1_000, 1.0), (2_000, 1.0)],
        );
        let b = series(
            &[("uid", "2"), ("instance", "10.0.0.2")],
            &[(60_000, 2.0), (61_000, 2.0)],
        );
        assert_eq!(
            one_line([&b, &a], Aggregate::Sum),
            [(1.0, 1.0), (2.0, 1.0), (60.0, 2.0), (61.0, 2.0)]
        );
    }

    #[test]
    fn only_targets_side_by_side_are_two() {
        let every = |from: i64, count: i64| -> Vec<(i64, f64)> {
            (0..count).map(|i| ((from + i) * 1_000, 5.0)).collect()
        };
        let of = |labels: &[(&str, &str)], from, count| series(labels, &every(from, count));
        let one = of(&[("instance", "10.0.0.1:80"), ("container", "a")], 0, 100);
        for (other, labels) in [
            // The same target twice, by two scrapers or two jobs.
            (
                0,
                [
                    ("instance", "10.0.0.1:80"),
                    ("container", "a"),
                    ("replica", "b"),
                ],
            ),
            (
                0,
                [
                    ("instance", "10.0.0.1:80"),
                    ("container", "a"),
                    ("job", "c"),
                ],
            ),
            // The next life of the name, at another address; a handover may overlap by a scrape.
            (
                98,
                [("instance", "10.0.0.2:80"), ("container", "a"), ("job", "")],
            ),
        ] {
            assert_eq!(two_targets([&one, &of(&labels, other, 100)]), None);
        }
        let elsewhere = of(&[("instance", "10.0.0.1:90"), ("container", "a")], 90, 100);
        assert_eq!(
            two_targets([&one, &elsewhere]),
            Some((
                "instance=\"10.0.0.1:80\"".to_owned(),
                "instance=\"10.0.0.1:90\"".to_owned()
            ))
        );
        // Whole pods beside their containers, as the kubelet has them.
        let pod = of(&[("instance", "10.0.0.1:80")], 0, 100);
        assert_eq!(
            two_targets([&one, &pod]),
            Some(("container=\"\"".to_owned(), "container=\"a\"".to_owned()))
        );
        // Between the two lives of one address another one had the name: each instant has one target.
        let mut twice = every(0, 100);
        twice.extend(every(300, 100));
        let back = series(&[("instance", "10.0.0.1:80")], &twice);
        assert_eq!(
            two_targets([&back, &of(&[("instance", "10.0.0.2:80")], 150, 100)]),
            None
        );
        assert_eq!(two_targets([]), None);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(one_line([], Aggregate::Sum), []);
        assert_eq!(one_line([&series(&[], &[])], Aggregate::Sum), []);
    }
}
