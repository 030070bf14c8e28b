//! One pod's settled blocks: what its walk leaves behind, and the walk from there on. The youngest samples of a pod in, its
//! track and its next past out; must never take what is told now for what was told then.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Broken;
use crate::judge::constants as k;
use crate::judge::hygiene;
use crate::judge::input::{Capacity, Pod, Series};
use crate::judge::num;
use crate::judge::track::{Cell, Demands, Grid, Lived, Track, Window, counter_at};
use crate::judge::walk::{Carried, Clean, Walk, verified_since};

/// How far the start of one process may be told apart from one look to the next, milliseconds.
const SAME_START: i64 = 1000;

/// What a pod's samples before a block leave behind for the blocks from it on. Packed: a region has hundreds of them; NaN
/// stands for what is not known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Past {
    /// Processes that began, and the start of the last one.
    begun: u32,
    started: i64,
    full: bool,
    /// Running evictions when the cache first was full.
    evicted_full: f64,
    /// Since when RSS stands still, and at what.
    stands: (i64, f64),
    /// The evictions' last raw value, and their running increase at the ends of the last blocks, the oldest first.
    evictions: (f64, [f64; EVICTING]),
    /// Last sample of a measured capacity.
    capacity: (i64, f64),
    /// Without a capacity: sizes that the growth test still looks at.
    sizes: Box<[(i64, f64)]>,
    /// Its blocks.
    pub(super) lived: Option<Lived>,
    /// What was told of it that bears upon those.
    told: u64,
}

/// [`k::EVICTING`] as a length.
const EVICTING: usize = 3;

impl Default for Past {
    fn default() -> Self {
        Self {
            begun: 0,
            started: i64::MIN,
            full: false,
            evicted_full: f64::NAN,
            stands: (0, f64::NAN),
            evictions: (f64::NAN, [f64::NAN; EVICTING]),
            capacity: (0, f64::NAN),
            sizes: Box::default(),
            lived: None,
            told: 0,
        }
    }
}

impl Past {
    /// Bytes on the heap.
    pub(super) fn heap(&self) -> usize {
        size_of_val(&*self.sizes)
    }

    /// A pod without samples from now on.
    pub(super) fn gone(&self, name: &str) -> Track {
        Track {
            name: name.to_owned(),
            version: None,
            gone: true,
            cells: Vec::new(),
            started: (self.begun > 0).then(|| num::real_signed(self.started) / 1000.0),
            before: self.lived,
        }
    }

    /// What the samples from a block on are walked through with.
    fn carried(&self, grid: Grid, block: i64) -> Carried {
        let (raw, totals) = self.evictions;
        let [.., total] = totals;
        let known = !raw.is_nan();
        let at = |back: i64| grid.start(block - back) - 1;
        let ends = (0..k::EVICTING).rev().map(at).zip(totals);
        Carried {
            since: grid.start(block),
            stands: Some(self.stands).filter(|s| !s.1.is_nan()),
            capacity: Some(self.capacity).filter(|c| !c.1.is_nan()),
            evictions: known.then_some((raw, total)),
            evicted: ends.filter(|_| known).collect(),
        }
    }
}

/// Which blocks a walk is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Time.
    pub grid: Grid,
    /// The blocks.
    pub window: Window,
    /// Everything before this block is settled.
    pub settled: i64,
}
/// The same on from where an earlier walk came to: `past` holds what was before `stretch.window`, or nothing when
/// `first`. Gives the track and the past of the blocks from `stretch.settled` on.
pub(super) fn resume(
    past: &Past,
    first: bool,
    pod: &Pod,
    stretch: Stretch,
    demands: &Demands,
) -> Result<(Track, Past), Broken> {
    let Stretch {
        grid,
        window,
        settled,
    } = stretch;
    let carried = if first {
        Carried::default()
    } else {
        past.carried(grid, window.from)
    };
    if [&pod.evictions, &pod.requests].into_iter().any(several) {
        return Err(Broken::Replicas);
    }
    if past.lived.is_some() && told(pod, demands, grid, window.from) != past.told {
        return Err(Broken::Told);
    }
    let mut clean = Clean::new(pod, grid, window, demands, &carried);
    carry_starts(&mut clean, past, carried.since)?;
    let mut walk = Walk {
        incarnation: num::span(0, i64::from(past.begun)),
        full: past.full,
        evicted_full: (!past.evicted_full.is_nan()).then_some(past.evicted_full),
        sizes: past.sizes.to_vec(),
    };
    let mut cells = clean.cells(&mut walk, window.from, settled);
    let next = left(&clean, &walk, past, (pod, settled), &cells);
    cells.extend(clean.cells_from(&mut walk, settled));
    Ok((clean.track(pod, cells, past.lived), next))
}

/// More than one replica has samples: which one counts depends on all of them.
pub(super) fn several(series: &Series) -> bool {
    series.replicas.iter().filter(|r| !r.is_empty()).count() > 1
}

/// Digest of what is told of a pod and bears upon its blocks before `to`. For one process only.
fn told(pod: &Pod, demands: &Demands, grid: Grid, to: i64) -> u64 {
    let mut hash = DefaultHasher::new();
    verified_since(pod, demands.allocator)
        .map(|since| grid.first_from(since).min(to))
        .hash(&mut hash);
    pod.version.hash(&mut hash);
    match &pod.capacity {
        Capacity::Fixed(bytes) => bytes.to_bits().hash(&mut hash),
        Capacity::Series(_) | Capacity::Unknown => 0_u64.hash(&mut hash),
    }
    hash.finish()
}

/// Takes the processes that were known before instead of what is told of that time now: the start of a process is only
/// told while it is scraped.
fn carry_starts(clean: &mut Clean<'_>, past: &Past, since: i64) -> Result<(), Broken> {
    if past.begun == 0 {
        let late = clean.starts.iter().any(|s| *s < since);
        return if late && past.lived.is_some() {
            Err(Broken::Told)
        } else {
            Ok(())
        };
    }
    let near = |s: i64| (s - past.started).abs() < SAME_START;
    let others = clean.starts.iter().filter(|s| !near(**s));
    let (old, new): (Vec<i64>, Vec<i64>) = others.partition(|s| **s < since);
    let late = old.iter().any(|s| *s > past.started);
    if late || old.len() >= num::span(0, i64::from(past.begun)) {
        return Err(Broken::Told);
    }
    clean.begun = num::span(1, i64::from(past.begun));
    clean.starts = std::iter::once(past.started).chain(new).collect();
    Ok(())
}

/// What is left of the blocks before `to`, up to which `walk` came.
fn left(
    clean: &Clean<'_>,
    walk: &Walk,
    before: &Past,
    (pod, to): (&Pod, i64),
    cells: &[Cell],
) -> Past {
    let end = clean.grid.start(to);
    let begun = clean.starts.partition_point(|s| *s < end);
    let last = begun.checked_sub(1).and_then(|i| clean.starts.get(i));
    let begun = clean.begun + begun;
    let fresh = Walk::default();
    let walk = if begun == walk.incarnation {
        walk
    } else {
        &fresh
    };
    let stands = Some(before.stands).filter(|s| !s.1.is_nan());
    let samples = clean.rss.iter().take_while(|(t, _)| *t < end);
    let stands = samples.fold(stands, |s, sample| Some(hygiene::standing(s, *sample)));
    let raw = clean.counted.iter().take_while(|(t, _)| *t < end).last();
    let raw = raw.map_or(before.evictions.0, |(_, v)| *v);
    let at =
        |back: i64| counter_at(&clean.evictions, clean.grid.start(to - back) - 1).unwrap_or(0.0);
    let capacity = clean.capacity.iter().take_while(|(t, _)| *t < end).last();
    let measured = !matches!(pod.capacity, Capacity::Fixed(_));
    let kept = walk
        .sizes
        .partition_point(|(b, _)| *b <= to - k::FULL_GROWTH_BLOCKS)
        .saturating_sub(1);
    let lived = cells
        .iter()
        .fold(before.lived, |lived, cell| Some(Lived::and(lived, cell)));
    Past {
        begun: u32::try_from(begun).unwrap_or(u32::MAX),
        started: last.copied().unwrap_or(before.started),
        full: walk.full,
        evicted_full: walk.evicted_full.unwrap_or(f64::NAN),
        stands: stands.unwrap_or((0, f64::NAN)),
        evictions: (raw, [at(2), at(1), at(0)]),
        capacity: capacity
            .filter(|_| measured)
            .copied()
            .unwrap_or((0, f64::NAN)),
        sizes: walk.sizes.get(kept..).unwrap_or_default().into(),
        lived,
        told: told(pod, clean.demands, clean.grid, to),
    }
}
