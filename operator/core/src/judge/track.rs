//! One pod's samples to its blocks: value, peak, and what it lacks where a block does not count (§3, §4, reading 6).
//! Samples of one pod in, cells out; must never look at another pod, nor past the last block asked for.

use super::constants as k;
use super::hygiene;
use super::input::{Capacity, Pod, Seen};
use super::num;

/// Time cut into blocks since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Length of a block, milliseconds.
    pub block_ms: i64,
    /// Time between scrapes, milliseconds.
    pub scrape_ms: i64,
}

impl Grid {
    /// The block that holds an instant (milliseconds).
    pub fn at(self, ms: i64) -> i64 {
        ms.div_euclid(self.block_ms)
    }
    /// First instant of a block.
    pub fn start(self, block: i64) -> i64 {
        block.saturating_mul(self.block_ms)
    }
    /// First block that starts at or after an instant.
    pub fn first_from(self, ms: i64) -> i64 {
        ms.saturating_add(self.block_ms - 1)
            .div_euclid(self.block_ms)
    }
    /// Middle of a block, seconds.
    pub fn middle(self, block: i64) -> f64 {
        (num::real_signed(block) + 0.5) * num::real_signed(self.block_ms) / 1000.0
    }
    /// Scrapes expected in a block.
    pub fn expected(self) -> f64 {
        num::real_signed(self.block_ms) / num::real_signed(self.scrape_ms.max(1))
    }
}

/// Blocks [from, to).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First block.
    pub from: i64,
    /// First block after it.
    pub to: i64,
}

impl Window {
    /// Number of blocks.
    pub fn len(self) -> usize {
        num::span(self.from, self.to)
    }
    /// No block at all.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
    /// Place of a block in it.
    pub fn place(self, block: i64) -> Option<usize> {
        (block >= self.from && block < self.to).then(|| num::span(self.from, block))
    }
}

/// The first thing that a pod's block lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// Fewer than half of the expected scrapes.
    Samples,
    /// The exporter stands still.
    Stuck,
    /// A process start in it, or none known.
    Start,
    /// No proof of the arm's allocator.
    Verified,
    /// The cache is not full.
    Full,
    /// Nothing was evicted lately.
    Evicting,
}

/// One pod's block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Block number.
    pub block: i64,
    /// Number of the process, from 0.
    pub incarnation: u32,
    /// What it lacks first; `None`: valid.
    pub lack: Option<Lack>,
    /// It is proved to run its arm's allocator.
    pub verified: bool,
    /// Its cache was full throughout.
    pub full: bool,
    /// It evicted lately, or nobody asked.
    pub evicting: bool,
    /// Mean of ln(RSS/cache); 0 without samples.
    pub mean: f64,
    /// Maximum of the same.
    pub peak: f64,
    /// Mean RSS, bytes.
    pub rss: f64,
    /// Mean cache, bytes.
    pub cache: f64,
    /// Requests per second.
    pub load: Option<f64>,
    /// Turnovers since first full, at the end of the block.
    pub turnovers: f64,
}

/// What a pod must show in this period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demands {
    /// The allocator that its arm should run; `None`: not asked (before the change).
    pub allocator: Option<bool>,
    /// Evictions are declared.
    pub evictions: bool,
    /// The capacity is declared.
    pub capacity: bool,
    /// Without a capacity: the baseline median of the arm's cache, bytes.
    pub cache_median: Option<f64>,
}

/// One pod over a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// The pod's name.
    pub name: String,
    /// Its version; `None`: unknown.
    pub version: Option<String>,
    /// It is gone, so that nobody knows its version any more.
    pub gone: bool,
    /// Blocks with at least one clean sample, ascending.
    pub cells: Vec<Cell>,
    /// Start of its last process, seconds.
    pub started: Option<f64>,
}

impl Track {
    /// The cell of a block.
    pub fn cell(&self, block: i64) -> Option<&Cell> {
        self.cells
            .binary_search_by_key(&block, |c| c.block)
            .ok()
            .and_then(|i| self.cells.get(i))
    }
    /// First and last block with samples.
    pub fn life(&self) -> Option<(i64, i64)> {
        Some((self.cells.first()?.block, self.cells.last()?.block))
    }
}

/// The running increase of a counter at an instant: of the last sample at or before it.
pub fn counter_at(counter: &[(i64, f64)], ms: i64) -> Option<f64> {
    let i = counter.partition_point(|(t, _)| *t <= ms);
    counter.get(i.checked_sub(1)?).map(|(_, v)| *v)
}

/// Events per second between the first and the last sample in [from, to).
pub fn rate(counter: &[(i64, f64)], from: i64, to: i64) -> Option<f64> {
    let a = counter.partition_point(|(t, _)| *t < from);
    let b = counter.partition_point(|(t, _)| *t < to);
    let (first, last) = (counter.get(a)?, counter.get(b.checked_sub(1)?)?);
    (last.0 > first.0).then(|| (last.1 - first.1) * 1000.0 / num::real_signed(last.0 - first.0))
}

/// Cuts one pod's samples into the cells of a window.
pub fn track(pod: &Pod, grid: Grid, window: Window, demands: &Demands) -> Track {
    let until = grid.start(window.to).saturating_sub(1);
    let rss = hygiene::gauge(&pod.rss, grid.block_ms, until);
    let cache = hygiene::gauge(&pod.cache, grid.block_ms, until);
    let scrapes = k::STUCK_SCRAPES * num::real_signed(grid.scrape_ms) / 1000.0;
    let hold = num::millis(scrapes.max(k::STUCK_SECONDS));
    let stuck = hygiene::stuck_flags(&rss, hold.unwrap_or(i64::MAX));
    let paired = hygiene::pair(&rss, &cache, grid.scrape_ms / 2);
    let mut starts: Vec<i64> = pod.starts.iter().filter_map(|s| num::millis(*s)).collect();
    starts.retain(|s| *s <= until);
    starts.sort_unstable();
    starts.dedup();
    let capacity = match &pod.capacity {
        Capacity::Series(s) => hygiene::gauge(s, grid.block_ms, until),
        Capacity::Fixed(v) if v.is_finite() && *v > 0.0 => vec![(i64::MIN, *v)],
        Capacity::Fixed(_) | Capacity::Unknown => Vec::new(),
    };
    let facts = Facts {
        grid,
        demands,
        starts: &starts,
        capacity: &capacity,
        evictions: &hygiene::counter(&pod.evictions, until),
        requests: &hygiene::counter(&pod.requests, until),
        verified_since: verified_since(pod, demands.allocator),
    };
    let mut walk = Walk::default();
    let mut cells = Vec::new();
    let mut rest = paired.as_slice();
    let mut flags = stuck.as_slice();
    while let Some((t, _, _)) = rest.first() {
        let at = grid.at(*t);
        let end = grid.start(at + 1);
        let (here, later) = rest.split_at(rest.partition_point(|(t, _, _)| *t < end));
        rest = later;
        let (flagged, later) = flags.split_at(flags.partition_point(|(t, _)| *t < end));
        flags = later;
        let cell = walk.cell(&facts, at, here, flagged);
        if at >= window.from {
            cells.push(cell);
        }
    }
    Track {
        name: pod.name.clone(),
        version: pod.version.clone(),
        gone: !pod.exists && pod.version.is_none(),
        cells,
        started: starts.last().map(|s| num::real_signed(*s) / 1000.0),
    }
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

/// What does not change while walking through a pod's blocks.
struct Facts<'a> {
    grid: Grid,
    demands: &'a Demands,
    starts: &'a [i64],
    capacity: &'a [(i64, f64)],
    evictions: &'a [(i64, f64)],
    requests: &'a [(i64, f64)],
    verified_since: Option<i64>,
}

/// What does.
#[derive(Default)]
struct Walk {
    incarnation: usize,
    full: bool,
    first_full: Option<i64>,
    /// Mean cache of the blocks of this incarnation, for the growth test.
    sizes: Vec<(i64, f64)>,
}

impl Walk {
    fn cell(
        &mut self,
        facts: &Facts<'_>,
        at: i64,
        paired: &[hygiene::Paired],
        stuck: &[(i64, bool)],
    ) -> Cell {
        let (start, end) = (facts.grid.start(at), facts.grid.start(at + 1));
        let begun = facts.starts.partition_point(|s| *s < end);
        if begun != self.incarnation {
            *self = Self {
                incarnation: begun,
                ..Self::default()
            };
        }
        let restarted = facts.starts.iter().any(|s| *s >= start && *s < end) || begun == 0;
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
        let block = hygiene::block(&moving, start, facts.grid.block_ms, facts.grid.expected());
        let rss: Vec<f64> = paired.iter().map(|p| p.1).collect();
        let cache: Vec<f64> = paired.iter().map(|p| p.2).collect();
        let cache = num::mean(&cache);
        let full = self.fill(facts, at, &moving, cache);
        let evicting = !facts.demands.evictions || Self::evicted(facts, end) > 0.0;
        let verified = facts.verified_since.is_some_and(|s| s <= start);
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
            load: rate(facts.requests, start, end),
            turnovers: self.turnovers(facts, end),
        }
    }

    /// Steps through the block's samples; was the cache full at all of them?
    fn fill(&mut self, facts: &Facts<'_>, at: i64, paired: &[hygiene::Paired], cache: f64) -> bool {
        if !facts.demands.capacity {
            return self.fill_without_capacity(facts, at, cache);
        }
        let mut all = !paired.is_empty();
        for (t, _, cache) in paired {
            let stale = k::STALE * facts.grid.block_ms;
            let i = facts.capacity.partition_point(|(c, _)| c <= t);
            let capacity = i
                .checked_sub(1)
                .and_then(|i| facts.capacity.get(i))
                .filter(|(c, _)| *c == i64::MIN || t - c <= stale)
                .or_else(|| {
                    facts
                        .capacity
                        .get(i)
                        .filter(|(c, _)| c - t <= facts.grid.scrape_ms / 2)
                });
            let fill = capacity.map_or(0.0, |(_, c)| cache / c);
            self.full = super::gates::is_full(fill, self.full);
            all &= self.full;
            if self.full {
                self.first_full.get_or_insert(*t);
            }
        }
        all
    }

    fn fill_without_capacity(&mut self, facts: &Facts<'_>, at: i64, cache: f64) -> bool {
        let reference = self
            .sizes
            .partition_point(|(b, _)| *b <= at - k::FULL_GROWTH_BLOCKS);
        let before = reference
            .checked_sub(1)
            .and_then(|i| self.sizes.get(i))
            .copied();
        self.sizes.push((at, cache));
        let large = facts
            .demands
            .cache_median
            .is_some_and(|m| cache >= k::FULL_OF_BASELINE * m);
        let flat = before.is_some_and(|(b, size)| {
            let hours = num::real_signed(at - b) / num::real(k::HOUR);
            (cache / size - 1.0) / hours < k::FULL_GROWTH
        });
        self.full = large && flat;
        if self.full {
            self.first_full.get_or_insert_with(|| facts.grid.start(at));
        }
        self.full
    }

    /// Bytes evicted over the evicting window that ends at `end`.
    fn evicted(facts: &Facts<'_>, end: i64) -> f64 {
        let from = end.saturating_sub(k::EVICTING * facts.grid.block_ms);
        let last = counter_at(facts.evictions, end - 1);
        let first = counter_at(facts.evictions, from - 1)
            .or_else(|| facts.evictions.first().map(|(_, v)| *v));
        match (first, last) {
            (Some(a), Some(b)) => b - a,
            _ => 0.0,
        }
    }

    /// Turnovers of the capacity since first full.
    fn turnovers(&self, facts: &Facts<'_>, end: i64) -> f64 {
        let Some(since) = self.first_full else {
            return 0.0;
        };
        let i = facts.capacity.partition_point(|(c, _)| *c < end);
        let capacity = i
            .checked_sub(1)
            .and_then(|i| facts.capacity.get(i))
            .map(|(_, v)| *v)
            .or_else(|| self.sizes.last().map(|(_, v)| *v));
        let first =
            counter_at(facts.evictions, since).or_else(|| facts.evictions.first().map(|(_, v)| *v));
        match (first, counter_at(facts.evictions, end - 1), capacity) {
            (Some(a), Some(b), Some(c)) if c > 0.0 => (b - a) / c,
            _ => 0.0,
        }
    }
}
