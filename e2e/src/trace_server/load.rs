//! Takes a shape, gives worker threads that read and fill the cache at a rate; must never allocate in a pattern other
//! than the one described here, because the pattern is what is measured.

use super::args::Args;
use super::cache::{Cache, Entry, Inserted};
use super::metrics::Counters;
use super::turns::Turns;
use anyhow::Context as _;
use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Stack of a worker.
const STACK_BYTES: usize = 256 << 10;
/// A worker compares itself with the clock after so many requests.
const PACE_EVERY: u64 = 32;
/// Longest nap of a worker, after which it works on even if it is ahead.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// The checked shape of the load.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Capacity of the cache, bytes.
    pub cache_bytes: u64,
    /// Expected accounted bytes of an entry.
    pub mean_entry_bytes: u64,
    /// Keys that are asked for, three times as many as fit (hit rate about 0.32).
    keys: u64,
    groups: u32,
    threads: u32,
    rot: u32,
    budget: u64,
    min: f64,
    /// `max / min`.
    span: f64,
    chunks: u64,
    rate: u32,
    tmp: usize,
    burst: u64,
    burst_bytes: u64,
    burst_slots: usize,
    seed: u64,
}

impl Shape {
    /// Checks the flags.
    ///
    /// # Errors
    /// A sentence that names the flag, when a number is zero or too large, or when a shard cannot hold an entry.
    pub fn new(args: &Args) -> Result<Self, String> {
        let (cache, min, max) = (args.cache.0, args.min.0, args.max.0);
        for (flag, value, highest) in [
            ("groups", args.groups, 256),
            ("threads", args.threads, 256),
            ("fills", args.fills, 100_000),
            ("chunks", args.chunks, 64),
            ("burst-slots", args.burst_slots, 64),
        ] {
            if value == 0 || value > highest {
                return Err(format!(
                    "--{flag} must be between 1 and {highest}, not {value}"
                ));
            }
        }
        if args.tmp > 16 {
            return Err(format!("--tmp must be at most 16, not {}", args.tmp));
        }
        if args.burst_size.0 < 2 || args.burst_size.0 > 1 << 30 {
            return Err("--burst-size must be between 2 and 1024M".into());
        }
        if min == 0 || max < min || max > 1 << 30 {
            return Err("--min must be at least 1, --max at least --min and at most 1024M".into());
        }
        let chunks = u64::from(args.chunks);
        if cache > 1 << 40 || cache / 16 < chunks * (max + 256) {
            return Err(format!(
                "--cache must be at most 2^40 and at least 16 x --chunks x (--max + 256) = {} bytes",
                16 * chunks * (max + 256)
            ));
        }
        let span = to_f64(max) / to_f64(min);
        let mean_block = if max == min {
            to_f64(max)
        } else {
            to_f64(max - min) / span.ln()
        };
        let mean_entry_bytes = to_u64(mean_block * to_f64(1 + chunks) / 2.0) + 120;
        Ok(Self {
            cache_bytes: cache,
            mean_entry_bytes,
            keys: (cache / mean_entry_bytes * 3).max(1),
            groups: args.groups,
            threads: args.threads,
            rot: args.rot,
            budget: cache / 100 * u64::from(args.fills),
            min: to_f64(min),
            span,
            chunks,
            rate: args.rate,
            tmp: usize::try_from(args.tmp).unwrap_or(0),
            burst: u64::from(args.burst),
            burst_bytes: args.burst_size.0,
            burst_slots: usize::try_from(args.burst_slots).unwrap_or(1),
            seed: u64::from(args.seed),
        })
    }
}

/// Starts the workers; they end with the process.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn start(
    shape: Shape,
    cache: &Arc<Cache>,
    counters: &Arc<Counters>,
) -> anyhow::Result<()> {
    let turns = Arc::new(Turns::new(
        shape.groups,
        shape.threads,
        shape.rot,
        shape.budget,
    ));
    for id in 0..shape.groups * shape.threads {
        let mut worker = Worker {
            random: Random::new(shape.seed * 1000 + u64::from(id) + 1),
            shape,
            cache: Arc::clone(cache),
            counters: Arc::clone(counters),
            turns: Arc::clone(&turns),
            scratch: Vec::with_capacity(16),
            to_free: Vec::with_capacity(1024),
        };
        thread::Builder::new()
            .name(format!("worker-{id}"))
            .stack_size(STACK_BYTES)
            .spawn(move || worker.work_for_ever(id / worker.shape.threads))
            .context("start a worker thread")?;
    }
    Ok(())
}

struct Worker {
    shape: Shape,
    cache: Arc<Cache>,
    counters: Arc<Counters>,
    turns: Arc<Turns>,
    random: Random,
    scratch: Vec<Vec<u8>>,
    to_free: Vec<Entry>,
}

impl Worker {
    fn work_for_ever(&mut self, group: u32) {
        drop(black_box(filled(16, 1))); // takes the arena of this thread
        for round in 0.. {
            self.turns.wait_for(group, round);
            self.work_a_turn();
            self.turns.finish();
        }
    }

    fn work_a_turn(&mut self) {
        let mut big: Vec<Vec<u8>> = vec![Vec::new(); self.shape.burst_slots];
        let begin = Instant::now();
        let mut requests = 0;
        while self.turns.goes_on() {
            let start = Instant::now();
            self.request();
            self.counters.request(start.elapsed());
            requests += 1;
            if self.shape.burst > 0 && requests % self.shape.burst == 0 {
                let at = self.random.below(to_u64_len(big.len()));
                if let Some(slot) = usize::try_from(at).ok().and_then(|at| big.get_mut(at)) {
                    *slot = Vec::new(); // the old one is freed before the new one is allocated
                    let bytes =
                        self.shape.burst_bytes / 2 + self.random.below(self.shape.burst_bytes);
                    *slot = black_box(filled(bytes, 1));
                }
            }
            if requests % PACE_EVERY == 0 {
                self.pace(begin, requests);
            }
        }
    }

    /// One request: scratch blocks; then a hit, or a new entry and the evictions that it needs.
    fn request(&mut self) {
        let key = self.random.below(self.shape.keys);
        for _ in 0..self.shape.tmp {
            let bytes = 100 + self.random.below(4000);
            let mut block = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
            block.resize(usize::try_from(bytes.min(256)).unwrap_or(0), 1);
            self.scratch.push(black_box(block));
        }
        if self.cache.touch(key) {
            self.counters.hit();
        } else {
            let entry = self.new_entry();
            let bytes = entry.accounted();
            match self.cache.insert(key, entry, &mut self.to_free) {
                Inserted::Stored {
                    evictions,
                    evicted_bytes,
                } => {
                    self.counters.evicted(evictions, evicted_bytes);
                    self.turns.note(bytes);
                }
                Inserted::Present => self.counters.hit(),
                Inserted::TooLarge => {}
            }
            self.to_free.clear();
        }
        self.scratch.clear();
    }

    fn new_entry(&mut self) -> Entry {
        let count = 1 + self.random.below(self.shape.chunks);
        let mut blocks = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let name = filled(24 + self.random.below(40), b'k').into_boxed_slice();
        for _ in 0..count {
            let bytes = to_u64(self.shape.min * self.shape.span.powf(self.random.unit()));
            blocks.push(filled(bytes, 7).into_boxed_slice());
        }
        Entry::new(name, blocks)
    }

    fn pace(&self, begin: Instant, requests: u64) {
        if self.shape.rate == 0 {
            return;
        }
        let per_worker = f64::from(self.shape.rate) / f64::from(self.shape.threads);
        let due = Duration::from_secs_f64(to_f64(requests) / per_worker);
        let ahead = due.saturating_sub(begin.elapsed());
        if ahead > Duration::from_micros(500) {
            thread::sleep(ahead.min(LONGEST_NAP));
        }
    }
}

/// A block of exactly `bytes`, all of it written; `malloc` of that size, never `calloc` or `realloc`.
fn filled(bytes: u64, with: u8) -> Vec<u8> {
    vec![with; usize::try_from(bytes).unwrap_or(0)]
}

/// Xorshift (Marsaglia 2003, triple 13, 7, 17): needs no allocation and no system call.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut new = Self(0x0123_4567_u64.wrapping_mul(seed).wrapping_add(99) | 1);
        for _ in 0..20 {
            new.next();
        }
        new
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound` (at least 1); the bias of the remainder does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// A number in [0, 1).
    fn unit(&mut self) -> f64 {
        to_f64(self.next() >> 11) / to_f64(1 << 53)
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "sizes and counts here are below 2^53, where the conversion is exact"
)]
fn to_f64(n: u64) -> f64 {
    n as f64
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive, and the conversion saturates"
)]
fn to_u64(x: f64) -> u64 {
    x as u64
}

fn to_u64_len(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn shape(flags: &[&str]) -> Result<Shape, String> {
        Shape::new(&Args::parse_from([&["trace-server"], flags].concat()))
    }

    #[test]
    fn shape_q_has_the_documented_figures() {
        let q = shape(&[]).unwrap();
        // Mean of a log-uniform size: (4096 - 64) / ln 64 = 969.5; two and a half of them and 120.
        assert_eq!(q.mean_entry_bytes, 2543);
        assert_eq!(q.keys, 67_108_864 / 2543 * 3);
        assert_eq!(q.budget, 67_108_800);
    }

    #[test]
    fn impossible_shapes_are_refused_by_flag() {
        for (flags, names) in [
            (["--groups", "0"], "--groups"),
            (["--threads", "257"], "--threads"),
            (["--tmp", "17"], "--tmp"),
            (["--max", "32"], "--max"),
            (["--cache", "64k"], "--cache"),
            (["--burst-size", "1"], "--burst-size"),
        ] {
            let error = shape(&flags).unwrap_err();
            assert!(error.contains(names), "{error}");
        }
    }

    #[test]
    fn equal_block_sizes_are_possible() {
        let one = shape(&["--min", "512", "--max", "512", "--chunks", "1"]).unwrap();
        assert_eq!(one.mean_entry_bytes, 632);
    }

    #[test]
    fn random_numbers_stay_in_range_and_differ_by_seed() {
        let (mut a, mut b) = (Random::new(1001), Random::new(1002));
        let mut same = 0;
        for _ in 0..1000 {
            assert!(a.below(10) < 10);
            assert!((0.0..1.0).contains(&a.unit()));
            same += u32::from(a.next() == b.next());
        }
        assert_eq!(same, 0);
    }

    #[test]
    fn a_turn_fills_the_cache_and_counts_every_eviction() {
        let shape = shape(&[
            "--cache",
            "1M",
            "--groups",
            "1",
            "--threads",
            "1",
            "--rate",
            "0",
        ])
        .unwrap();
        let cache = Arc::new(Cache::new(shape.cache_bytes, shape.mean_entry_bytes));
        let mut worker = Worker {
            shape,
            cache: Arc::clone(&cache),
            counters: Arc::default(),
            turns: Arc::new(Turns::new(1, 1, 0, 3 * shape.budget)),
            random: Random::new(7),
            scratch: Vec::new(),
            to_free: Vec::new(),
        };
        worker.work_a_turn();
        assert!(!worker.turns.goes_on());
        assert!(cache.accounted() <= cache.capacity());
        assert!(cache.accounted() > cache.capacity() * 9 / 10);
        assert!(worker.counters.evicted_bytes() > 2 * shape.budget / 2);
    }
}
