//! Guardrails (§9): the samples of one guardrail to its values per pod and block, or to its events. Must only give a
//! value where the pod's block counts.

use super::counts::Tally;
use super::hygiene;
use super::input::{Arm, GuardrailSeries, Pod, Sample, Series};
use super::num;
use super::panel::{Panel, PanelPod, Point};
use super::track::{Grid, Track, Window, counter_at};

/// A guardrail's clean samples.
enum Clean {
    Gauge(Vec<(i64, f64)>),
    Histogram(f64, Vec<(f64, Vec<(i64, f64)>)>),
    Quotient(Vec<(i64, f64)>, Vec<(i64, f64)>),
    None,
}

fn clean(series: &GuardrailSeries, grid: Grid, until: i64) -> Clean {
    match series {
        GuardrailSeries::Gauge(s) => Clean::Gauge(hygiene::gauge(s, grid.block_ms, until)),
        GuardrailSeries::Histogram { quantile, buckets } => {
            let mut clean: Vec<(f64, Vec<(i64, f64)>)> = buckets
                .iter()
                .filter(|(bound, _)| !bound.is_nan())
                .map(|(bound, s)| (*bound, hygiene::counter(s, until)))
                .collect();
            clean.sort_by(|a, b| a.0.total_cmp(&b.0));
            Clean::Histogram(*quantile, clean)
        }
        GuardrailSeries::Quotient {
            numerator,
            denominator,
        } => Clean::Quotient(
            hygiene::counter(numerator, until),
            hygiene::counter(denominator, until),
        ),
        GuardrailSeries::Count { .. } => Clean::None,
    }
}

/// Increase of a running counter over [from, to).
fn grown(counter: &[(i64, f64)], from: i64, to: i64) -> Option<f64> {
    let last = counter_at(counter, to - 1)?;
    let first = counter_at(counter, from - 1).or_else(|| counter.first().map(|(_, v)| *v))?;
    Some((last - first).max(0.0))
}

impl Clean {
    /// ln of the value in [from, to).
    fn value(&self, from: i64, to: i64) -> Option<f64> {
        let value = match self {
            Self::Gauge(samples) => {
                let a = samples.partition_point(|(t, _)| *t < from);
                let b = samples.partition_point(|(t, _)| *t < to);
                let logs: Vec<f64> = samples.get(a..b)?.iter().map(|(_, v)| v.ln()).collect();
                return (!logs.is_empty()).then(|| num::mean(&logs));
            }
            Self::Histogram(q, buckets) => {
                let grown: Vec<(f64, f64)> = buckets
                    .iter()
                    .filter_map(|(bound, c)| grown(c, from, to).map(|v| (*bound, v)))
                    .collect();
                quantile(*q, &grown)?
            }
            Self::Quotient(above, below) => grown(above, from, to)? / grown(below, from, to)?,
            Self::None => return None,
        };
        (value.is_finite() && value > 0.0).then(|| value.ln())
    }
}

/// The quantile of cumulative bucket counts by linear interpolation, as Prometheus computes it; `None` without events,
/// without a last infinite bucket or for a quantile out of range.
pub fn quantile(q: f64, buckets: &[(f64, f64)]) -> Option<f64> {
    let (top, total) = *buckets.last()?;
    if !(top.is_infinite() && top > 0.0 && total > 0.0 && q > 0.0 && q < 1.0) {
        return None;
    }
    let rank = q * total;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        // Scrapes of single buckets may be torn: counts never fall from one bucket to the next.
        let count = count.max(below);
        if count >= rank {
            if bound.is_infinite() {
                return Some(lower);
            }
            let lower = if *bound <= 0.0 { *bound } else { lower };
            let inside = count - below;
            return Some(if inside > 0.0 {
                lower + (bound - lower) * (rank - below) / inside
            } else {
                *bound
            });
        }
        (lower, below) = (*bound, count);
    }
    None
}

/// The panel of a continuous guardrail and whether it is measured per arm. `open` says which blocks of the window an
/// arm-wide value counts in.
pub fn panel(
    name: &str,
    arm: &Arm,
    tracks: &[Track],
    grid: Grid,
    window: Window,
    open: &[bool],
) -> (Panel, bool) {
    let until = grid.start(window.to).saturating_sub(1);
    if let Some(series) = arm.guardrails.get(name) {
        let clean = clean(series, grid, until);
        let points = (window.from..window.to)
            .zip(open)
            .filter(|(_, open)| **open)
            .filter_map(|(column, _)| {
                let y = clean.value(grid.start(column), grid.start(column + 1))?;
                Some(Point {
                    column,
                    incarnation: 0,
                    y,
                })
            })
            .collect();
        let pod = PanelPod {
            name: arm.region.clone(),
            points,
        };
        return (
            Panel {
                region: arm.region.clone(),
                pods: vec![pod],
            },
            true,
        );
    }
    let pods = arm
        .pods
        .iter()
        .zip(tracks)
        .map(|(pod, track)| {
            let clean = pod
                .guardrails
                .get(name)
                .map_or(Clean::None, |s| clean(s, grid, until));
            let points = track
                .cells
                .iter()
                .filter(|c| c.lack.is_none())
                .filter_map(|c| {
                    let y = clean.value(grid.start(c.block), grid.start(c.block + 1))?;
                    Some(Point {
                        column: c.block,
                        incarnation: c.incarnation,
                        y,
                    })
                })
                .collect();
            PanelPod {
                name: pod.name.clone(),
                points,
            }
        })
        .collect();
    (
        Panel {
            region: arm.region.clone(),
            pods,
        },
        false,
    )
}

/// Events and exposure of one arm in the given blocks, and the events of each; `None` where no series is there.
pub fn tally(name: &str, arm: &Arm, grid: Grid, blocks: &[i64]) -> Option<(Tally, Vec<f64>)> {
    let until = blocks.last().map(|b| grid.start(b + 1) - 1)?;
    let empty = Series::default();
    let of_pod = |pod: &Pod, series: &GuardrailSeries| {
        let GuardrailSeries::Count { events, exposure } = series else {
            return None;
        };
        let exposure = exposure
            .as_ref()
            .or_else(|| has_samples(&pod.requests).then_some(&pod.requests));
        Some((
            hygiene::counter(events, until),
            exposure.map(|s| hygiene::counter(s, until)),
            hygiene::gauge(&pod.rss, grid.block_ms, until),
        ))
    };
    let mut sources: Vec<_> = arm
        .pods
        .iter()
        .filter_map(|pod| pod.guardrails.get(name).and_then(|s| of_pod(pod, s)))
        .collect();
    if let Some(GuardrailSeries::Count { events, exposure }) = arm.guardrails.get(name) {
        let exposure = exposure.as_ref().unwrap_or(&empty);
        sources = vec![(
            hygiene::counter(events, until),
            has_samples(exposure).then(|| hygiene::counter(exposure, until)),
            Vec::new(),
        )];
    }
    sources.retain(|(events, _, _)| !events.is_empty());
    if sources.is_empty() {
        return None;
    }
    let seconds = num::real_signed(grid.block_ms) / 1000.0;
    let mut per_block = vec![0.0; blocks.len()];
    let mut exposure = 0.0;
    for (events, exposed, alive) in &sources {
        for (block, count) in blocks.iter().zip(&mut per_block) {
            let (from, to) = (grid.start(*block), grid.start(block + 1));
            *count += grown(events, from, to).unwrap_or(0.0);
            exposure += exposed.as_ref().map_or_else(
                || {
                    let i = alive.partition_point(|(t, _)| *t < from);
                    let here = alive.is_empty() || alive.get(i).is_some_and(|(t, _)| *t < to);
                    if here { seconds } else { 0.0 }
                },
                |c| grown(c, from, to).unwrap_or(0.0),
            );
        }
    }
    let events = per_block.iter().sum();
    Some((
        Tally {
            events,
            exposure,
            blocks: blocks.len(),
        },
        per_block,
    ))
}

fn has_samples(series: &Series) -> bool {
    series.replicas.iter().any(|r: &Vec<Sample>| !r.is_empty())
}
