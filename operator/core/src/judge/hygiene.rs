//! Raw samples to clean ones (§3.1 to §3.6): what is kept, why the rest is dropped, counters, stuck exporters.
//! Takes samples of one pod, gives values that are finite, positive, sorted and not from the future; must never
//! average two replicas.

use super::constants::BLOCK_SHARE;
use super::input::Series;
use super::num;

/// A paired sample: milliseconds, RSS bytes, cache bytes.
pub type Paired = (i64, f64, f64);

/// How many samples were dropped, each for the first reason that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Not in the block.
    pub outside: usize,
    /// NaN or infinite (this covers stale markers).
    pub nonfinite: usize,
    /// Zero or below.
    pub nonpositive: usize,
    /// The time of a sample that was kept before.
    pub duplicate: usize,
}

/// One pod's block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Block {
    /// Samples kept.
    pub count: usize,
    /// At least half of the expected ones.
    pub valid: bool,
    /// Samples dropped.
    pub dropped: Dropped,
    /// Mean of ln(RSS/cache), when valid.
    pub mean: Option<f64>,
    /// Maximum of ln(RSS/cache), when valid.
    pub peak: Option<f64>,
}

/// Cleans the block [start, start + length) (milliseconds) for `expected` scrapes.
pub fn block(samples: &[Paired], start: i64, length: i64, expected: f64) -> Block {
    let mut out = Block::default();
    let mut kept: Vec<i64> = Vec::with_capacity(samples.len());
    let (mut sum, mut peak, mut latest) = (0.0, f64::NEG_INFINITY, i64::MIN);
    for &(t, rss, cache) in samples {
        if t < start || t >= start.saturating_add(length) {
            out.dropped.outside += 1;
        } else if !(rss.is_finite() && cache.is_finite()) {
            out.dropped.nonfinite += 1;
        } else if rss <= 0.0 || cache <= 0.0 {
            out.dropped.nonpositive += 1;
        } else if t <= latest && kept.contains(&t) {
            out.dropped.duplicate += 1;
        } else {
            kept.push(t);
            latest = latest.max(t);
            let y = (rss / cache).ln();
            sum += y;
            peak = peak.max(y);
        }
    }
    out.count = kept.len();
    // A quotient of two finite numbers may still leave the range of floats; such a block has no value.
    out.valid = out.count > 0
        && out.count >= num::ceil(BLOCK_SHARE * expected)
        && sum.is_finite()
        && peak.is_finite();
    if out.valid {
        out.mean = Some(sum / num::real(out.count));
        out.peak = Some(peak);
    }
    out
}

/// What a counter did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Increase {
    /// Sum of positive differences; after a drop the new value counts.
    pub increase: f64,
    /// Number of drops.
    pub resets: usize,
}

/// The increase of a counter over its values in order; non-finite and negative values are skipped.
pub fn increase(values: impl IntoIterator<Item = f64>) -> Increase {
    let mut out = Increase::default();
    let mut previous: Option<f64> = None;
    for v in values.into_iter().filter(|v| v.is_finite() && *v >= 0.0) {
        if let Some(p) = previous {
            if v >= p {
                out.increase += v - p;
            } else {
                out.increase += v;
                out.resets += 1;
            }
        }
        previous = Some(v);
    }
    out
}

/// Since when a value stands still, and which: after one more sample.
pub fn standing(before: Option<(i64, f64)>, sample: (i64, f64)) -> (i64, f64) {
    before
        .filter(|(_, last)| last.total_cmp(&sample.1).is_eq())
        .unwrap_or(sample)
}

/// For each finite sample, in order: its time, and whether the value has stood still for at least `hold`
/// milliseconds then. `before` is how it stood before the first.
pub fn stuck_flags(
    before: Option<(i64, f64)>,
    samples: &[(i64, f64)],
    hold: i64,
) -> Vec<(i64, bool)> {
    let mut stands = before;
    let mut out = Vec::with_capacity(samples.len());
    for &(t, v) in samples.iter().filter(|(_, v)| v.is_finite()) {
        let now = standing(stands, (t, v));
        stands = Some(now);
        out.push((t, t.saturating_sub(now.0) >= hold));
    }
    out
}

/// Has the newest finite value stood still for at least `hold` milliseconds?
pub fn is_stuck(samples: &[(i64, f64)], hold: i64) -> bool {
    stuck_flags(None, samples, hold)
        .last()
        .is_some_and(|(_, stuck)| *stuck)
}

/// The finite samples up to `until` (milliseconds) that `good` admits, sorted, the first of each time.
fn admitted(samples: &[(f64, f64)], until: i64, good: impl Fn(f64) -> bool) -> Vec<(i64, f64)> {
    // Nearly all of them are good: one allocation.
    let mut out: Vec<(i64, f64)> = Vec::with_capacity(samples.len());
    out.extend(
        samples
            .iter()
            .filter(|(_, v)| v.is_finite() && good(*v))
            .filter_map(|(t, v)| num::millis(*t).map(|t| (t, *v)))
            .filter(|(t, _)| *t <= until),
    );
    if !out.is_sorted_by_key(|(t, _)| *t) {
        out.sort_by_key(|(t, _)| *t);
    }
    out.dedup_by_key(|(t, _)| *t);
    out
}

/// A gauge's clean samples: positive, sorted, and in each block those of the replica that has more of them (ties: the
/// earlier, then the larger first sample).
pub fn gauge(series: &Series, block_ms: i64, until: i64) -> Vec<(i64, f64)> {
    let mut replicas = series
        .replicas
        .iter()
        .map(|r| admitted(r, until, |v| v > 0.0));
    let Some(first) = replicas.next() else {
        return Vec::new();
    };
    let mut best = first;
    for other in replicas {
        best = better_of(&best, &other, block_ms);
    }
    best
}

/// Block by block the fuller one of two replicas.
fn better_of(a: &[(i64, f64)], b: &[(i64, f64)], block_ms: i64) -> Vec<(i64, f64)> {
    let by_block = |samples: &[(i64, f64)]| -> Vec<(i64, Vec<(i64, f64)>)> {
        let mut out: Vec<(i64, Vec<(i64, f64)>)> = Vec::new();
        for s in samples {
            let at = s.0.div_euclid(block_ms);
            match out.last_mut() {
                Some((block, list)) if *block == at => list.push(*s),
                _ => out.push((at, vec![*s])),
            }
        }
        out
    };
    let mut blocks: std::collections::BTreeMap<i64, Vec<(i64, f64)>> =
        by_block(a).into_iter().collect();
    for (at, list) in by_block(b) {
        let rank = |l: &[(i64, f64)]| (l.len(), l.first().map(|(t, v)| (-*t, v.to_bits())));
        match blocks.get(&at) {
            Some(held) if rank(held) >= rank(&list) => {}
            _ => {
                blocks.insert(at, list);
            }
        }
    }
    blocks.into_values().flatten().collect()
}

/// A counter's clean samples, of the replica with the most of them (ties: the earlier first sample).
pub fn counted(series: &Series, until: i64) -> Vec<(i64, f64)> {
    series
        .replicas
        .iter()
        .map(|r| admitted(r, until, |v| v >= 0.0))
        .max_by_key(|r| (r.len(), r.first().map(|(t, v)| (-*t, v.to_bits()))))
        .unwrap_or_default()
}

/// A counter's clean samples as its running increase, which goes on from the last sample before them and the increase
/// up to there.
pub fn running(samples: &[(i64, f64)], before: Option<(f64, f64)>) -> Vec<(i64, f64)> {
    let (mut previous, mut total) = (before.map(|b| b.0), before.map_or(0.0, |b| b.1));
    samples
        .iter()
        .map(|(t, v)| {
            if let Some(p) = previous {
                total += if *v >= p { v - p } else { *v };
            }
            previous = Some(*v);
            (*t, total)
        })
        .collect()
}

/// A counter as its running increase.
pub fn counter(series: &Series, until: i64) -> Vec<(i64, f64)> {
    running(&counted(series, until), None)
}

/// Pairs RSS with the cache sample of the same time, else the nearest within `slack` milliseconds; both sorted.
pub fn pair(rss: &[(i64, f64)], cache: &[(i64, f64)], slack: i64) -> Vec<Paired> {
    let mut at = 0_usize;
    let mut out = Vec::with_capacity(rss.len());
    for &(t, r) in rss {
        while cache.get(at + 1).is_some_and(|(next, _)| *next <= t) {
            at += 1;
        }
        let candidates = [cache.get(at), cache.get(at + 1)];
        let nearest = candidates
            .into_iter()
            .flatten()
            .min_by_key(|(c, _)| (c - t).abs())
            .filter(|(c, _)| (c - t).abs() <= slack);
        if let Some((_, c)) = nearest {
            out.push((t, r, *c));
        }
    }
    out
}
