//! One pod's blocks: value, peak, and what it lacks where a block does not count (§3, §4, reading 6). Plain data that
//! [`walk`](super::walk) makes of samples; must never look at another pod.

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
    /// What is left of its blocks before the window, where they are not walked through again.
    pub before: Option<Lived>,
}

/// What is left of a pod's blocks once they are settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lived {
    /// First block with samples.
    pub first: i64,
    /// Last block with samples.
    pub last: i64,
    /// Turnovers at the end of the last one.
    pub turnovers: f64,
    /// Mean RSS of the last block but one (of time, not of the pod; NaN without samples) and of the last.
    pub rss: (f64, f64),
    /// RSS that was reached in as many blocks in a row as the memory limit asks for; 0 for never.
    pub sustained: f64,
}

impl Lived {
    /// With one more block.
    pub(super) fn and(before: Option<Self>, cell: &Cell) -> Self {
        let Some(old) = before else {
            return Self {
                first: cell.block,
                last: cell.block,
                turnovers: cell.turnovers,
                rss: (f64::NAN, cell.rss),
                sustained: 0.0,
            };
        };
        let rss = if old.last + 1 == cell.block {
            (old.rss.1, cell.rss)
        } else {
            (f64::NAN, cell.rss)
        };
        let run = old.rss.0.min(rss.0).min(rss.1);
        let three = old.last + 1 == cell.block && !old.rss.0.is_nan();
        Self {
            first: old.first,
            last: cell.block,
            turnovers: cell.turnovers,
            rss,
            sustained: if three {
                old.sustained.max(run)
            } else {
                old.sustained
            },
        }
    }
}

impl Track {
    /// The cell of a block.
    pub fn cell(&self, block: i64) -> Option<&Cell> {
        self.cells
            .binary_search_by_key(&block, |c| c.block)
            .ok()
            .and_then(|i| self.cells.get(i))
    }
    /// What its blocks before `to` come to.
    pub fn lived(&self, to: i64) -> Option<Lived> {
        let cells = self.cells.iter().take_while(|c| c.block < to);
        cells.fold(self.before, |before, cell| Some(Lived::and(before, cell)))
    }
    /// First and last block with samples.
    pub fn life(&self) -> Option<(i64, i64)> {
        let first = self.before.map(|b| b.first);
        let last = self.before.map(|b| b.last);
        Some((
            first.or_else(|| self.cells.first().map(|c| c.block))?,
            self.cells.last().map(|c| c.block).or(last)?,
        ))
    }
    /// Turnovers at the end of its last block with samples.
    pub fn turnovers(&self) -> Option<f64> {
        let last = self.cells.last().map(|c| c.turnovers);
        last.or_else(|| self.before.map(|b| b.turnovers))
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
