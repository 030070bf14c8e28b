//! What a look costs: from all samples since the change against one from the running state, and a fleet looked at once. Made
//! regions in, times, their ratio and the size of a state out; says what is wanted, fails nobody.
//!
//! Both looks are given their samples; fetching them is not part of it.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use heapfleet_core::judge::{
    Arm, Capacity, Change, Declared, Frozen, Guardrail, GuardrailKind, GuardrailSeries, Interim,
    LookInput, Pod, Proof, Running, Sample, Seen, Series, Settings, look,
};

const BLOCK: f64 = 300.0;
const SCRAPE: f64 = 15.0;
/// A multiple of a day.
const ORIGIN: f64 = 1_790_035_200.0;
/// Blocks of the baseline (a day) and of the bake, and those that the restart took.
const BASELINE: u32 = 288;
const BAKE: u32 = 288;
const RESTART: u32 = 2;
const CAPACITY: f64 = 4e9;

/// Deterministic numbers (splitmix64) in (0, 1).
struct Chance(u64);

impl Chance {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (f64::from(u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or(0)) + 0.5) / 4_294_967_296.0
    }
}

/// A region's bake: pods per arm, and gauges guarded besides ratio and peak.
#[derive(Clone, Copy)]
struct Region {
    pods: usize,
    guardrails: usize,
    /// Capacity and evictions are declared.
    declared: bool,
}

impl Region {
    fn names(self) -> impl Iterator<Item = String> {
        (0..self.guardrails).map(|i| format!("latency-{i}"))
    }

    fn settings(self) -> Settings {
        let guardrail = |name| Guardrail {
            name,
            kind: GuardrailKind::P99,
            max_increase: 0.08,
            dry_run: false,
        };
        Settings {
            baseline_seconds: BLOCK * f64::from(BASELINE),
            // The bake is looked at while it goes on.
            min_bake_blocks: 2 * BAKE,
            max_bake_blocks: 4 * BAKE,
            restart_noise: Some(0.015),
            declared: Declared {
                capacity: self.declared,
                evictions: self.declared,
                requests: true,
                peak: true,
            },
            guardrails: self.names().map(guardrail).collect(),
            ..Settings::default()
        }
    }

    /// Everything since `from`, seen after `blocks` of the bake; the baseline at none.
    fn input(self, seed: u64, from: f64, blocks: u32) -> LookInput {
        let change = change();
        let now = change.ended + BLOCK * f64::from(blocks) + 61.0;
        let arm = |region: &str, target: bool| {
            // As from the caller: after the change, pods of the time before it are no part of the arm.
            let life = if blocks > 0 {
                (change.began + 1.0, now, target)
            } else {
                (ORIGIN, change.began, false)
            };
            let pods = (0..self.pods).map(|i| self.pod(region, i, seed, (from, now), life));
            let expected = u32::try_from(self.pods).unwrap_or(u32::MAX);
            Arm {
                region: region.to_owned(),
                expected: vec![(ORIGIN, expected)],
                pods: pods.collect(),
                ..Arm::default()
            }
        };
        LookInput {
            now,
            change: Some(change),
            canary: arm("ore", true),
            controls: vec![arm("fra", false)],
        }
    }

    /// One pod of a Deployment from its begin to its end.
    fn pod(
        self,
        region: &str,
        place: usize,
        seed: u64,
        (from, now): (f64, f64),
        (begin, end, target): (f64, f64, bool),
    ) -> Pod {
        let exists = begin > ORIGIN;
        // Each scrape has its numbers, whatever was asked for.
        let key = seed ^ (u64::try_from(place).unwrap_or(0) << 40) ^ u64::from(target);
        let level = 0.1 + 0.02 * Chance(key).uniform();
        let mut t = (begin.max(from) / SCRAPE).ceil() * SCRAPE + 0.5;
        let mut out: [Vec<Sample>; 4] = [const { Vec::new() }; 4];
        let mut latencies = vec![Vec::new(); self.guardrails];
        while t < end.min(now) {
            let mut chance = Chance(key ^ t.to_bits());
            let size = CAPACITY * (0.99 + 0.005 * chance.uniform());
            let noise = 0.04 * (chance.uniform() - 0.5);
            for (series, v) in out.iter_mut().zip([
                size * (level + noise).exp(),
                size,
                1e6 * (t - begin),
                100.0 * (t - begin),
            ]) {
                series.push((t, v));
            }
            for series in &mut latencies {
                series.push((t, 0.02 * (0.1 * (chance.uniform() - 0.5)).exp()));
            }
            t += SCRAPE;
        }
        let [rss, cache, evictions, requests] = out.map(Series::from);
        let guardrails = self.names().zip(latencies);
        let kind = if exists { "7d9c6b5f4d" } else { "5b8f7c6d9e" };
        Pod {
            name: format!("cache-server-{region}-{kind}-{place:05}"),
            starts: vec![if exists { begin } else { begin - 1e6 }],
            exists,
            ready_at: Some(begin),
            version: Some("sha256:a".to_owned()),
            allocator: Proof {
                seen: if target { Seen::Target } else { Seen::Source },
                since: begin,
            },
            memory_limit: Some(8e9),
            rss,
            cache,
            capacity: if self.declared {
                Capacity::Fixed(CAPACITY)
            } else {
                Capacity::Unknown
            },
            evictions,
            requests,
            guardrails: guardrails
                .map(|(name, samples)| (name, GuardrailSeries::Gauge(samples.into())))
                .collect(),
            ..Pod::default()
        }
    }

    /// The baseline as it was frozen, and the state after `BAKE` blocks.
    fn begun(self, seed: u64) -> Option<(Settings, Frozen, LookInput, Running)> {
        let settings = self.settings();
        let before = LookInput {
            now: change().began + 61.0,
            change: None,
            ..self.input(seed, 0.0, 0)
        };
        let frozen = look(&settings, None, &before).frozen?;
        let input = self.input(seed, change().ended - settings.lead(), BAKE);
        let state = Running::new(&settings, &frozen, &input).ok()?;
        Some((settings, frozen, input, state))
    }
}

fn change() -> Change {
    let began = ORIGIN + BLOCK * f64::from(BASELINE);
    Change {
        began,
        ended: began + BLOCK * f64::from(RESTART),
    }
}

/// Times `run`, which says how long it took, and keeps the shortest.
fn times(c: &mut Criterion, name: &str, elements: u64, mut run: impl FnMut() -> Duration) -> f64 {
    let least = Cell::new(f64::INFINITY);
    let mut group = c.benchmark_group("judge");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(elements));
    group.bench_function(name, |b| {
        b.iter_custom(|n| {
            let all = (0..n).map(|_| run());
            all.inspect(|t| least.set(least.get().min(t.as_secs_f64())))
                .sum()
        });
    });
    group.finish();
    least.get()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let out = run();
    (begun.elapsed(), out)
}

/// One region with a hundred pods a side.
fn one(c: &mut Criterion) -> Option<Vec<String>> {
    let region = Region {
        pods: 100,
        guardrails: 0,
        declared: true,
    };
    let (settings, frozen, _, state) = region.begun(1)?;
    let whole = region.input(1, change().ended - settings.lead(), BAKE + 1);
    let short = region.input(1, state.since(), BAKE + 1);
    let full = times(c, "full look, 100 + 100 pods, 288 blocks", 1, || {
        timed(|| black_box(look(&settings, Some(&frozen), &whole))).0
    });
    let mut open = true;
    let running = times(c, "running look, 100 + 100 pods, 288 blocks", 1, || {
        let mut state = state.clone();
        let (time, seen) = timed(|| black_box(state.look(&settings, &frozen, &short)));
        open &= matches!(seen, Interim::Open(_));
        time
    });
    Some(vec![
        format!("running look: {:.3} ms, wanted below 1", 1e3 * running),
        format!("full look: {:.1} ms", 1e3 * full),
        format!("ratio {:.0}, wanted 20", full / running),
        format!("every running look stood for the full one: {open}"),
    ])
}

/// A fleet of a thousand regions.
fn fleet(c: &mut Criterion) -> Option<Vec<String>> {
    const REGIONS: usize = 1000;
    /// Regions with samples of their own.
    const SEEDS: u64 = 50;
    let region = Region {
        pods: 10,
        guardrails: 6,
        declared: true,
    };
    let begun: Option<Vec<_>> = (0..SEEDS).map(|seed| region.begun(seed)).collect();
    let begun = begun?;
    let inputs: Vec<LookInput> = (0..SEEDS)
        .zip(&begun)
        .map(|(seed, (_, _, _, state))| region.input(seed, state.since(), BAKE + 1))
        .collect();
    let metrics = look(
        &begun.first()?.0,
        Some(&begun.first()?.1),
        &begun.first()?.2,
    );
    let mut open = true;
    let all = times(c, "1000 regions x 8 metrics, 10 + 10 pods", 1000, || {
        let mut states: Vec<_> = begun
            .iter()
            .zip(&inputs)
            .cycle()
            .take(REGIONS)
            .map(|((settings, frozen, _, state), input)| (settings, frozen, input, state.clone()))
            .collect();
        let look = || {
            states
                .iter_mut()
                .fold(true, |open, (settings, frozen, input, state)| {
                    open & matches!(state.look(settings, frozen, input), Interim::Open(_))
                })
        };
        let (time, all) = timed(look);
        open &= all;
        time
    });
    Some(vec![
        format!(
            "1000 regions x {} metrics, 10 + 10 pods each: {all:.3} s, wanted below 1",
            metrics.numbers.len()
        ),
        format!("every running look stood for the full one: {open}"),
    ])
}

/// Bytes of states.
fn sizes() -> Option<Vec<String>> {
    let of = |guardrails, declared| {
        let region = Region {
            pods: 100,
            guardrails,
            declared,
        };
        let (.., state) = region.begun(1)?;
        Some(format!(
            "state of 100 + 100 pods, 288 blocks, {} metrics, capacity {}: {:.1} KiB, wanted below 64",
            2 + guardrails,
            if declared { "declared" } else { "not declared" },
            f64::from(u32::try_from(state.bytes()).ok()?) / 1024.0
        ))
    };
    [(0, true), (6, true), (0, false)]
        .into_iter()
        .map(|(guardrails, declared)| of(guardrails, declared))
        .collect()
}

#[expect(clippy::print_stdout, reason = "a benchmark says what it measured")]
fn main() {
    let mut c = Criterion::default().configure_from_args();
    let said = [one(&mut c), fleet(&mut c), sizes()];
    c.final_summary();
    for lines in said {
        for line in lines.unwrap_or_else(|| vec!["a region could not be made".to_owned()]) {
            println!("{line}");
        }
    }
}
