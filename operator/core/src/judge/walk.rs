//! One pod's samples to the cells of its blocks (§3, §4, reading 6), from its first sample or on from where an earlier walk
//! came to. Samples of one pod in, cells out; must never look at another pod, nor past the last block asked for.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::constants as k;
use super::hygiene;
use super::input::{Capacity, Pod, Seen, Series};
use super::num;
use super::running::Broken;
use super::track::{Cell, Demands, Grid, Lack, Lived, Track, Window, counter_at, rate};

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

    fn counter(&self) -> Option<(f64, f64)> {
        let [.., total] = self.evictions.1;
        (!self.evictions.0.is_nan()).then_some((self.evictions.0, total))
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

/// Cuts one pod's samples into the cells of a window.
pub(super) fn track(pod: &Pod, grid: Grid, window: Window, demands: &Demands) -> Track {
    let clean = Clean::new(pod, grid, window, demands, None, i64::MIN);
    let mut walk = Walk::default();
    let cells = clean.cells(&mut walk, window.from, i64::MAX);
    clean.track(pod, cells, None)
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
    let since = if first {
        i64::MIN
    } else {
        grid.start(window.from)
    };
    if [&pod.evictions, &pod.requests].into_iter().any(several) {
        return Err(Broken::Replicas);
    }
    if past.lived.is_some() && told(pod, demands, grid, window.from) != past.told {
        return Err(Broken::Told);
    }
    let mut clean = Clean::new(pod, grid, window, demands, Some(past), since);
    clean.carry_starts(past, since)?;
    let mut walk = Walk {
        incarnation: num::span(0, i64::from(past.begun)),
        full: past.full,
        evicted_full: (!past.evicted_full.is_nan()).then_some(past.evicted_full),
        sizes: past.sizes.to_vec(),
    };
    let mut cells = clean.cells(&mut walk, window.from, settled);
    let next = clean.past(&walk, past, pod, settled, &cells);
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

/// Since when the pod is proved to run what its arm should; everything when it is not asked.
fn verified_since(pod: &Pod, wanted: Option<bool>) -> Option<i64> {
    let Some(target) = wanted else {
        return Some(i64::MIN);
    };
    let good = match pod.allocator.seen {
        Seen::Target => target,
        Seen::Source => !target,
        Seen::Other(_) | Seen::Unknown => false,
    };
    if good {
        num::millis(pod.allocator.since)
    } else {
        None
    }
}

/// One pod's clean samples: what does not change while walking through its blocks.
struct Clean<'a> {
    grid: Grid,
    demands: &'a Demands,
    rss: Vec<(i64, f64)>,
    stuck: Vec<(i64, bool)>,
    paired: Vec<hygiene::Paired>,
    /// Processes that began before the first of `starts`.
    begun: usize,
    starts: Vec<i64>,
    capacity: Vec<(i64, f64)>,
    /// The evictions' raw values, and their running increase.
    counted: Vec<(i64, f64)>,
    evictions: Vec<(i64, f64)>,
    requests: Vec<(i64, f64)>,
    verified_since: Option<i64>,
}

/// Without the samples before an instant.
fn from(mut samples: Vec<(i64, f64)>, since: i64) -> Vec<(i64, f64)> {
    samples.drain(..samples.partition_point(|(t, _)| *t < since));
    samples
}

impl<'a> Clean<'a> {
    fn new(
        pod: &Pod,
        grid: Grid,
        window: Window,
        demands: &'a Demands,
        past: Option<&Past>,
        since: i64,
    ) -> Self {
        let until = grid.start(window.to).saturating_sub(1);
        let rss = from(hygiene::gauge(&pod.rss, grid.block_ms, until), since);
        // The first RSS sample may be paired with a cache sample before it.
        let cache = hygiene::gauge(&pod.cache, grid.block_ms, until);
        let scrapes = k::STUCK_SCRAPES * num::real_signed(grid.scrape_ms) / 1000.0;
        let hold = num::millis(scrapes.max(k::STUCK_SECONDS));
        let stands = past.map(|p| p.stands).filter(|s| !s.1.is_nan());
        let stuck = hygiene::stuck_flags(stands, &rss, hold.unwrap_or(i64::MAX));
        let paired = hygiene::pair(&rss, &cache, grid.scrape_ms / 2);
        let mut starts: Vec<i64> = pod.starts.iter().filter_map(|s| num::millis(*s)).collect();
        starts.retain(|s| *s <= until);
        starts.sort_unstable();
        starts.dedup();
        let mut capacity = match &pod.capacity {
            Capacity::Series(s) => from(hygiene::gauge(s, grid.block_ms, until), since),
            Capacity::Fixed(v) if v.is_finite() && *v > 0.0 => vec![(i64::MIN, *v)],
            Capacity::Fixed(_) | Capacity::Unknown => Vec::new(),
        };
        if let Some(known) = past.map(|p| p.capacity)
            && !(known.1.is_nan() || matches!(pod.capacity, Capacity::Fixed(_)))
        {
            capacity.insert(0, known);
        }
        let counted = from(hygiene::counted(&pod.evictions, until), since);
        let mut evictions = hygiene::running(&counted, past.and_then(Past::counter));
        if let Some(past) = past.filter(|p| p.counter().is_some()) {
            let ends = (0..k::EVICTING).rev().zip(past.evictions.1);
            let at = |back: i64| grid.start(window.from - back) - 1;
            evictions.splice(0..0, ends.map(|(back, total)| (at(back), total)));
        }
        Self {
            grid,
            demands,
            stuck,
            paired,
            begun: 0,
            starts,
            capacity,
            evictions,
            counted,
            requests: hygiene::counter(&pod.requests, until),
            verified_since: verified_since(pod, demands.allocator),
            rss,
        }
    }

    /// Takes the processes that were known before instead of what is told of that time now: the start of a process is only
    /// told while it is scraped.
    fn carry_starts(&mut self, past: &Past, since: i64) -> Result<(), Broken> {
        if past.begun == 0 {
            let late = self.starts.iter().any(|s| *s < since);
            return if late && past.lived.is_some() {
                Err(Broken::Told)
            } else {
                Ok(())
            };
        }
        let near = |s: i64| (s - past.started).abs() < SAME_START;
        let others = self.starts.iter().filter(|s| !near(**s));
        let (old, new): (Vec<i64>, Vec<i64>) = others.partition(|s| **s < since);
        let late = old.iter().any(|s| *s > past.started);
        if late || old.len() >= num::span(0, i64::from(past.begun)) {
            return Err(Broken::Told);
        }
        self.begun = num::span(1, i64::from(past.begun));
        self.starts = std::iter::once(past.started).chain(new).collect();
        Ok(())
    }

    /// Cells of the blocks up to `to`, less those before `from`, through which it walks all the same.
    fn cells(&self, walk: &mut Walk, from: i64, to: i64) -> Vec<Cell> {
        let mut cells = self.walk(walk, i64::MIN, to);
        cells.retain(|c| c.block >= from);
        cells
    }

    /// Cells of the blocks from one on.
    fn cells_from(&self, walk: &mut Walk, from: i64) -> Vec<Cell> {
        self.walk(walk, from, i64::MAX)
    }

    fn walk(&self, walk: &mut Walk, from: i64, to: i64) -> Vec<Cell> {
        let place = |block: i64| {
            let start = self.grid.start(block);
            self.paired.partition_point(|(t, _, _)| *t < start)
        };
        let mut rest = self.paired.get(place(from)..place(to)).unwrap_or_default();
        let mut flags = self.stuck.as_slice();
        let mut cells = Vec::new();
        while let Some((t, _, _)) = rest.first() {
            let at = self.grid.at(*t);
            let end = self.grid.start(at + 1);
            let (here, later) = rest.split_at(rest.partition_point(|(t, _, _)| *t < end));
            rest = later;
            let (flagged, later) = flags.split_at(flags.partition_point(|(t, _)| *t < end));
            flags = later;
            cells.push(walk.cell(self, at, here, flagged));
        }
        cells
    }

    /// What is left of the blocks before `to`, up to which `walk` came.
    fn past(&self, walk: &Walk, before: &Past, pod: &Pod, to: i64, cells: &[Cell]) -> Past {
        let end = self.grid.start(to);
        let begun = self.starts.partition_point(|s| *s < end);
        let last = begun.checked_sub(1).and_then(|i| self.starts.get(i));
        let begun = self.begun + begun;
        let fresh = Walk::default();
        let walk = if begun == walk.incarnation {
            walk
        } else {
            &fresh
        };
        let stands = Some(before.stands).filter(|s| !s.1.is_nan());
        let samples = self.rss.iter().take_while(|(t, _)| *t < end);
        let stands = samples.fold(stands, |s, sample| Some(hygiene::standing(s, *sample)));
        let raw = self.counted.iter().take_while(|(t, _)| *t < end).last();
        let raw = raw.map_or(before.evictions.0, |(_, v)| *v);
        let at =
            |back: i64| counter_at(&self.evictions, self.grid.start(to - back) - 1).unwrap_or(0.0);
        let capacity = self.capacity.iter().take_while(|(t, _)| *t < end).last();
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
            told: told(pod, self.demands, self.grid, to),
        }
    }

    fn track(&self, pod: &Pod, cells: Vec<Cell>, before: Option<Lived>) -> Track {
        Track {
            name: pod.name.clone(),
            version: pod.version.clone(),
            gone: !pod.exists && pod.version.is_none(),
            cells,
            started: self.starts.last().map(|s| num::real_signed(*s) / 1000.0),
            before,
        }
    }
}

/// What does change.
#[derive(Default)]
struct Walk {
    incarnation: usize,
    full: bool,
    /// Running evictions when the cache first was full.
    evicted_full: Option<f64>,
    /// Mean cache of the blocks of this incarnation, for the growth test.
    sizes: Vec<(i64, f64)>,
}

impl Walk {
    fn cell(
        &mut self,
        clean: &Clean<'_>,
        at: i64,
        paired: &[hygiene::Paired],
        stuck: &[(i64, bool)],
    ) -> Cell {
        let (start, end) = (clean.grid.start(at), clean.grid.start(at + 1));
        let begun = clean.begun + clean.starts.partition_point(|s| *s < end);
        if begun != self.incarnation {
            *self = Self {
                incarnation: begun,
                ..Self::default()
            };
        }
        let restarted = clean.starts.iter().any(|s| *s >= start && *s < end) || begun == 0;
        let moving: Vec<hygiene::Paired> = if stuck.iter().any(|(_, s)| *s) {
            let still = |t: i64| {
                stuck
                    .binary_search_by_key(&t, |(t, _)| *t)
                    .is_ok_and(|i| stuck.get(i).is_some_and(|(_, s)| *s))
            };
            paired
                .iter()
                .filter(|(t, _, _)| !still(*t))
                .copied()
                .collect()
        } else {
            paired.to_vec()
        };
        let block = hygiene::block(&moving, start, clean.grid.block_ms, clean.grid.expected());
        let rss: Vec<f64> = paired.iter().map(|p| p.1).collect();
        let cache: Vec<f64> = paired.iter().map(|p| p.2).collect();
        let cache = num::mean(&cache);
        let full = self.fill(clean, at, &moving, cache);
        let evicting = !clean.demands.evictions || Self::evicted(clean, end) > 0.0;
        let verified = clean.verified_since.is_some_and(|s| s <= start);
        let lack = if !block.valid && moving.len() < paired.len() {
            Some(Lack::Stuck)
        } else if !block.valid {
            Some(Lack::Samples)
        } else if restarted {
            Some(Lack::Start)
        } else if !verified {
            Some(Lack::Verified)
        } else if !full {
            Some(Lack::Full)
        } else if !evicting {
            Some(Lack::Evicting)
        } else {
            None
        };
        Cell {
            block: at,
            incarnation: u32::try_from(begun).unwrap_or(u32::MAX),
            lack,
            verified,
            full,
            evicting,
            mean: block.mean.unwrap_or(0.0),
            peak: block.peak.unwrap_or(0.0),
            rss: num::mean(&rss),
            cache,
            load: rate(&clean.requests, start, end),
            turnovers: self.turnovers(clean, end),
        }
    }

    /// Steps through the block's samples; was the cache full at all of them?
    fn fill(&mut self, clean: &Clean<'_>, at: i64, paired: &[hygiene::Paired], cache: f64) -> bool {
        if !clean.demands.capacity {
            return self.fill_without_capacity(clean, at, cache);
        }
        let mut all = !paired.is_empty();
        for (t, _, cache) in paired {
            let stale = k::STALE * clean.grid.block_ms;
            let i = clean.capacity.partition_point(|(c, _)| c <= t);
            let capacity = i
                .checked_sub(1)
                .and_then(|i| clean.capacity.get(i))
                .filter(|(c, _)| *c == i64::MIN || t - c <= stale)
                .or_else(|| {
                    clean
                        .capacity
                        .get(i)
                        .filter(|(c, _)| c - t <= clean.grid.scrape_ms / 2)
                });
            let fill = capacity.map_or(0.0, |(_, c)| cache / c);
            self.full = super::gates::is_full(fill, self.full);
            all &= self.full;
            if self.full {
                self.first_full(clean, *t);
            }
        }
        all
    }

    fn fill_without_capacity(&mut self, clean: &Clean<'_>, at: i64, cache: f64) -> bool {
        let reference = self
            .sizes
            .partition_point(|(b, _)| *b <= at - k::FULL_GROWTH_BLOCKS);
        let before = reference
            .checked_sub(1)
            .and_then(|i| self.sizes.get(i))
            .copied();
        self.sizes.push((at, cache));
        let large = clean
            .demands
            .cache_median
            .is_some_and(|m| cache >= k::FULL_OF_BASELINE * m);
        let flat = before.is_some_and(|(b, size)| {
            let hours = num::real_signed(at - b) / num::real(k::HOUR);
            (cache / size - 1.0) / hours < k::FULL_GROWTH
        });
        self.full = large && flat;
        if self.full {
            self.first_full(clean, clean.grid.start(at));
        }
        self.full
    }

    /// The cache is full at an instant.
    fn first_full(&mut self, clean: &Clean<'_>, at: i64) {
        if self.evicted_full.is_none() {
            self.evicted_full = Some(counter_at(&clean.evictions, at).unwrap_or(0.0));
        }
    }

    /// Bytes evicted over the evicting window that ends at `end`.
    fn evicted(clean: &Clean<'_>, end: i64) -> f64 {
        let from = end.saturating_sub(k::EVICTING * clean.grid.block_ms);
        let last = counter_at(&clean.evictions, end - 1);
        let first = counter_at(&clean.evictions, from - 1)
            .or_else(|| clean.evictions.first().map(|(_, v)| *v));
        match (first, last) {
            (Some(a), Some(b)) => b - a,
            _ => 0.0,
        }
    }

    /// Turnovers of the capacity since first full.
    fn turnovers(&self, clean: &Clean<'_>, end: i64) -> f64 {
        let Some(first) = self.evicted_full else {
            return 0.0;
        };
        let i = clean.capacity.partition_point(|(c, _)| *c < end);
        let capacity = i
            .checked_sub(1)
            .and_then(|i| clean.capacity.get(i))
            .map(|(_, v)| *v)
            .or_else(|| self.sizes.last().map(|(_, v)| *v));
        match (counter_at(&clean.evictions, end - 1), capacity) {
            (Some(last), Some(c)) if c > 0.0 => (last - first) / c,
            _ => 0.0,
        }
    }
}
