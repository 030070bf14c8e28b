//! One pod's samples to the cells of its blocks (§3, §4, reading 6), from its first sample or on from where an earlier walk
//! came to. Samples of one pod in, cells out; must never look at another pod, nor past the last block asked for.

use super::constants as k;
use super::hygiene;
use super::input::{Capacity, Pod, Seen};
use super::num;
use super::track::{Cell, Demands, Grid, Lack, Lived, Track, Window, counter_at, rate};

/// Cuts one pod's samples into the cells of a window.
pub(super) fn track(pod: &Pod, grid: Grid, window: Window, demands: &Demands) -> Track {
    let clean = Clean::new(pod, grid, window, demands, &Carried::default());
    let mut walk = Walk::default();
    let cells = clean.cells(&mut walk, window.from, i64::MAX);
    clean.track(pod, cells, None)
}

/// Since when the pod is proved to run what its arm should; everything when it is not asked.
pub(super) fn verified_since(pod: &Pod, wanted: Option<bool>) -> Option<i64> {
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

/// What the samples before an instant leave for the walk that goes on from there.
pub(super) struct Carried {
    /// The instant, milliseconds; earlier samples are dropped.
    pub(super) since: i64,
    /// Since when RSS stands still, and at what.
    pub(super) stands: Option<(i64, f64)>,
    /// Last sample of a measured capacity.
    pub(super) capacity: Option<(i64, f64)>,
    /// The evictions' last raw value and running increase.
    pub(super) evictions: Option<(f64, f64)>,
    /// Their running increase at earlier instants that an evicting window may begin at.
    pub(super) evicted: Vec<(i64, f64)>,
}

impl Default for Carried {
    fn default() -> Self {
        Self {
            since: i64::MIN,
            stands: None,
            capacity: None,
            evictions: None,
            evicted: Vec::new(),
        }
    }
}

/// One pod's clean samples: what does not change while walking through its blocks.
pub(super) struct Clean<'a> {
    pub(super) grid: Grid,
    pub(super) demands: &'a Demands,
    pub(super) rss: Vec<(i64, f64)>,
    pub(super) stuck: Vec<(i64, bool)>,
    pub(super) paired: Vec<hygiene::Paired>,
    /// Processes that began before the first of `starts`.
    pub(super) begun: usize,
    pub(super) starts: Vec<i64>,
    pub(super) capacity: Vec<(i64, f64)>,
    /// The evictions' raw values, and their running increase.
    pub(super) counted: Vec<(i64, f64)>,
    pub(super) evictions: Vec<(i64, f64)>,
    pub(super) requests: Vec<(i64, f64)>,
    pub(super) verified_since: Option<i64>,
}

/// Without the samples before an instant.
fn from(mut samples: Vec<(i64, f64)>, since: i64) -> Vec<(i64, f64)> {
    samples.drain(..samples.partition_point(|(t, _)| *t < since));
    samples
}

impl<'a> Clean<'a> {
    pub(super) fn new(
        pod: &Pod,
        grid: Grid,
        window: Window,
        demands: &'a Demands,
        carried: &Carried,
    ) -> Self {
        let since = carried.since;
        let until = grid.start(window.to).saturating_sub(1);
        let rss = from(hygiene::gauge(&pod.rss, grid.block_ms, until), since);
        // The first RSS sample may be paired with a cache sample before it.
        let cache = hygiene::gauge(&pod.cache, grid.block_ms, until);
        let scrapes = k::STUCK_SCRAPES * num::real_signed(grid.scrape_ms) / 1000.0;
        let hold = num::millis(scrapes.max(k::STUCK_SECONDS));
        let stuck = hygiene::stuck_flags(carried.stands, &rss, hold.unwrap_or(i64::MAX));
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
        if !matches!(pod.capacity, Capacity::Fixed(_)) {
            capacity.splice(0..0, carried.capacity);
        }
        let counted = from(hygiene::counted(&pod.evictions, until), since);
        let mut evictions = hygiene::running(&counted, carried.evictions);
        evictions.splice(0..0, carried.evicted.iter().copied());
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

    /// Cells of the blocks up to `to`, less those before `from`, through which it walks all the same.
    pub(super) fn cells(&self, walk: &mut Walk, from: i64, to: i64) -> Vec<Cell> {
        let mut cells = self.walk(walk, i64::MIN, to);
        cells.retain(|c| c.block >= from);
        cells
    }

    /// Cells of the blocks from one on.
    pub(super) fn cells_from(&self, walk: &mut Walk, from: i64) -> Vec<Cell> {
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

    pub(super) fn track(&self, pod: &Pod, cells: Vec<Cell>, before: Option<Lived>) -> Track {
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
pub(super) struct Walk {
    pub(super) incarnation: usize,
    pub(super) full: bool,
    /// Running evictions when the cache first was full.
    pub(super) evicted_full: Option<f64>,
    /// Mean cache of the blocks of this incarnation, for the growth test.
    pub(super) sizes: Vec<(i64, f64)>,
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
