//! Any bytes to what a look may be told: a small world that somebody edited, or something made of the bytes alone. Every
//! byte string means something; the end of the bytes reads as zeros.

use std::collections::BTreeMap;

use heapfleet_core::judge::constants::EVIDENCE_BYTES;
use heapfleet_core::judge::{
    AllocatorStats, Arm, Capacity, Change, ControlRestart, ControlRuns, Declared, Frozen,
    Guardrail, GuardrailKind, GuardrailSeries, Identity, LookInput, MetricEvidence, Pod, Proof,
    Sample, Seen, Series, Settings, StoredError, restore, store,
};

use crate::world::{BLOCK, ORIGIN, SCRAPE, World};

/// Numbers that have broken programs before.
const ODD: [f64; 17] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    1e300,
    1e-300,
    1e11,
    -1e11,
    9.2e18,
    4e9,
];

/// Bytes that are read from the front.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// A count below `n`.
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    fn share(&mut self) -> f64 {
        f64::from(self.byte()) / 256.0
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| (word << 8) | u64::from(self.byte()))
    }

    /// Any number: an ordinary one, an odd one, or any bits at all.
    fn number(&mut self) -> f64 {
        match self.byte() % 8 {
            0 | 1 => self.of(&ODD),
            2 => f64::from_bits(self.word()),
            3 => 4e9 * (1.0 + self.share()),
            4 => 60.0 * f64::from(self.byte()),
            _ => 4.0 * self.share(),
        }
    }

    /// A time in or round the world, or any number.
    fn time(&mut self) -> f64 {
        match self.byte() % 16 {
            // A bake of years: rare, since each takes seconds.
            0 => self.number(),
            1..=4 => ORIGIN + 600.0 * (self.share() - 0.5),
            _ => ORIGIN + 160.0 * BLOCK * self.share() + self.share(),
        }
    }

    fn name(&mut self) -> String {
        self.of(&["a", "b", "ore", "fra", "ore-0", "fra-0", ""])
            .to_owned()
    }

    fn seen(&mut self) -> Seen {
        self.of(&[
            Seen::Target,
            Seen::Source,
            Seen::Unknown,
            Seen::Other("x".to_owned()),
        ])
    }
}

/// Settings and input.
pub(crate) fn told(b: &mut Bytes<'_>) -> (Settings, LookInput) {
    let (mut settings, mut input) = if b.below(4) == 0 {
        (World::default().settings(), of_nothing(b))
    } else {
        let world = world(b);
        (world.settings(), world.input())
    };
    for _ in 0..b.below(5) {
        edit(b, &mut input);
    }
    for _ in 0..b.below(4) {
        set(b, &mut settings);
    }
    (settings, input)
}

fn world(b: &mut Bytes<'_>) -> World {
    World {
        seed: u64::from(b.byte()),
        canary: 1 + u32::from(b.byte() % 4),
        control: 1 + u32::from(b.byte() % 4),
        before: b.of(&[60, 60, 60, 40, 3]),
        after: b.of(&[40, 60, 30, 3, 0]),
        effect: b.of(&[-0.4, 0.3, 0.0, 0.05, -0.06]),
        noise: b.of(&[0.01, 0.002, 0.0, 0.1]),
        identity: b.of(&[Identity::Stable, Identity::None]),
        latency: b.flag(),
    }
}

/// Arms of nothing but these bytes.
fn of_nothing(b: &mut Bytes<'_>) -> LookInput {
    let change = b.flag().then(|| Change {
        began: b.time(),
        ended: b.time(),
    });
    let now = b.time();
    let mut arm = |region: &str| Arm {
        region: region.to_owned(),
        expected: Vec::new(),
        pods: (0..b.below(4)).map(|_| pod(b)).collect(),
        guardrails: BTreeMap::new(),
    };
    LookInput {
        now,
        change,
        canary: arm("ore"),
        controls: vec![arm("fra")],
    }
}

fn pod(b: &mut Bytes<'_>) -> Pod {
    Pod {
        name: b.name(),
        starts: (0..b.below(3)).map(|_| b.time()).collect(),
        exists: b.flag(),
        ready_at: b.flag().then(|| b.time()),
        version: b.flag().then(|| b.name()),
        allocator: Proof {
            seen: b.seen(),
            since: b.time(),
        },
        rss: series(b),
        cache: series(b),
        capacity: if b.flag() {
            Capacity::Fixed(b.number())
        } else {
            Capacity::Series(series(b))
        },
        evictions: series(b),
        requests: series(b),
        ..Pod::default()
    }
}

fn series(b: &mut Bytes<'_>) -> Series {
    let replica = |b: &mut Bytes<'_>| -> Vec<Sample> {
        if b.flag() {
            let (value, growth) = (b.number(), b.number());
            return (0..u32::from(b.byte()))
                .map(|i| {
                    let i = f64::from(i);
                    (ORIGIN + SCRAPE * i, value + growth * i)
                })
                .collect();
        }
        (0..b.below(6)).map(|_| (b.time(), b.number())).collect()
    };
    Series {
        replicas: (0..b.below(3)).map(|_| replica(b)).collect(),
    }
}

fn guardrail(b: &mut Bytes<'_>, of: &Series) -> GuardrailSeries {
    match b.byte() % 4 {
        0 => GuardrailSeries::Gauge(of.clone()),
        1 => GuardrailSeries::Histogram {
            quantile: b.number(),
            buckets: (0..b.below(4)).map(|_| (b.number(), of.clone())).collect(),
        },
        2 => GuardrailSeries::Quotient {
            numerator: of.clone(),
            denominator: series(b),
        },
        _ => GuardrailSeries::Count {
            events: of.clone(),
            exposure: b.flag().then(|| of.clone()),
        },
    }
}

/// One edit of what is told.
fn edit(b: &mut Bytes<'_>, input: &mut LookInput) {
    match b.byte() % 16 {
        0 => input.now = b.time(),
        1 => {
            if let Some(change) = &mut input.change {
                change.ended = b.time();
            }
        }
        2 => {
            input.change = b.flag().then(|| Change {
                began: b.time(),
                ended: b.time(),
            });
        }
        3 => input.canary.region = b.name(),
        4 => {
            let mut second = input.controls.first().cloned().unwrap_or_default();
            second.region = b.name();
            input.controls.push(second);
        }
        5 => {
            let at = b.below(2);
            input.controls.truncate(at);
        }
        6 => {
            let (time, number) = (b.time(), u32::from(b.byte() % 8));
            arm(b, input).expected.push((time, number));
        }
        7 => {
            let of = series(b);
            let guardrail = guardrail(b, &of);
            arm(b, input).guardrails.insert("p99".to_owned(), guardrail);
        }
        8..=10 => facts(b, input),
        _ => samples(b, input),
    }
}

fn arm<'a>(b: &mut Bytes<'_>, input: &'a mut LookInput) -> &'a mut Arm {
    let at = b.below(input.controls.len() + 1);
    match at.checked_sub(1) {
        Some(i) => &mut input.controls[i],
        None => &mut input.canary,
    }
}

fn one<'a>(b: &mut Bytes<'_>, input: &'a mut LookInput) -> Option<&'a mut Pod> {
    let pods = &mut arm(b, input).pods;
    let at = b.below(pods.len());
    pods.get_mut(at)
}

/// Edits the facts of one pod.
fn facts(b: &mut Bytes<'_>, input: &mut LookInput) {
    let fresh = pod(b);
    let Some(pod) = one(b, input) else { return };
    match b.byte() % 12 {
        0 => pod.starts.push(b.time()),
        1 => pod.starts.clear(),
        2 => pod.ready_at = b.flag().then(|| b.time()),
        3 => pod.version = b.flag().then(|| b.name()),
        4 => pod.allocator.seen = b.seen(),
        5 => pod.allocator.since = b.time(),
        6 => pod.memory_limit = Some(b.number()),
        7 => pod.oom_killed = true,
        8 => pod.crash_loop = true,
        9 => pod.name = b.name(),
        10 => {
            pod.stats = Some(AllocatorStats {
                allocated: fresh.rss,
                active: fresh.cache,
                ..AllocatorStats::default()
            });
        }
        _ => *pod = fresh,
    }
}

/// Edits a stretch of one series, or of the same one of a whole arm.
fn samples(b: &mut Bytes<'_>, input: &mut LookInput) {
    let whole = b.flag();
    let which = b.below(7);
    let (from, length) = (b.share(), b.share());
    let (how, number) = (b.byte() % 9, b.number());
    let made = guardrail(b, &Series::default());
    let arm = arm(b, input);
    let at = b.below(arm.pods.len());
    let chosen = arm.pods.iter_mut().enumerate();
    for (_, pod) in chosen.filter(|(i, _)| whole || *i == at) {
        let series = match which {
            0 | 1 => &mut pod.rss,
            2 => &mut pod.cache,
            3 => &mut pod.evictions,
            4 => &mut pod.requests,
            5 => {
                pod.capacity = Capacity::Fixed(number);
                return;
            }
            _ => match pod
                .guardrails
                .entry("p99".to_owned())
                .or_insert_with(|| made.clone())
            {
                GuardrailSeries::Gauge(series)
                | GuardrailSeries::Count { events: series, .. }
                | GuardrailSeries::Quotient {
                    denominator: series,
                    ..
                } => series,
                GuardrailSeries::Histogram { .. } => return,
            },
        };
        change(series, from, length, how, number);
    }
}

fn change(series: &mut Series, from: f64, length: f64, how: u8, number: f64) {
    if how == 0 {
        let again = series.replicas.first().cloned().unwrap_or_default();
        series.replicas.push(again);
    }
    let Some(samples) = series.replicas.last_mut() else {
        return;
    };
    let place = |share: f64| {
        let at = share * f64::from(u32::try_from(samples.len()).unwrap_or(u32::MAX));
        (0..samples.len())
            .position(|i| f64::from(u32::try_from(i).unwrap_or(u32::MAX)) >= at)
            .unwrap_or(samples.len())
    };
    let (a, z) = (place(from), place((from + length).min(1.0)));
    let part = &mut samples[a..z];
    match how {
        0 | 1 => part.iter_mut().for_each(|s| s.1 = number),
        2 => part.iter_mut().for_each(|s| s.1 *= number),
        3 => part.iter_mut().for_each(|s| s.0 += number),
        4 => part.iter_mut().for_each(|s| s.1 += number),
        5 => part.reverse(),
        6 => {
            let again = part.to_vec();
            samples.extend(again);
        }
        7 => {
            samples.drain(a..z);
        }
        // A clock that steps by ten minutes.
        _ => part.iter_mut().for_each(|s| s.0 += 600.0 * number.signum()),
    }
}

/// Sets one field of the settings.
fn set(b: &mut Bytes<'_>, settings: &mut Settings) {
    match b.byte() % 16 {
        0 => settings.block_seconds = b.of(&[60.0, 300.0, 15.0, 1.0, f64::NAN, 0.0]),
        1 => settings.scrape_seconds = b.of(&[15.0, 30.0, 0.25, 0.01, 1e9, -1.0]),
        2 => settings.delay_seconds = b.number(),
        3 => settings.baseline_seconds = b.of(&[3600.0, 600.0, 86_400.0, 1e9, -1.0]),
        4 => settings.min_bake_blocks = u32::from(b.byte()),
        5 => settings.max_bake_blocks = u32::from(b.byte()),
        6 => settings.gate_timeout_seconds = b.number(),
        7 => settings.verify_deadline_seconds = b.number(),
        8 => settings.max_regression = b.number(),
        9 => settings.min_gain = b.of(&[0.0, 0.05, 0.99, 1.0, f64::NAN]),
        10 => settings.restart_noise = b.flag().then(|| b.of(&[0.0, 0.04, 1.0, f64::NAN, -1.0])),
        11 => {
            settings.control_restart = b.of(&[ControlRestart::None, ControlRestart::Matched]);
            settings.control_runs = b.of(&[ControlRuns::Target, ControlRuns::Source]);
        }
        12 => settings.identity = b.of(&[Identity::None, Identity::Stable]),
        13 => {
            settings.declared = Declared {
                capacity: b.flag(),
                evictions: b.flag(),
                requests: b.flag(),
                peak: b.flag(),
            };
        }
        14 => settings.guardrails.push(Guardrail {
            name: b.of(&["p99", "q", "ratio"]).to_owned(),
            kind: b.of(&[
                GuardrailKind::P99,
                GuardrailKind::Continuous,
                GuardrailKind::Count,
            ]),
            max_increase: b.of(&[0.08, 0.0, 100.0, f64::NAN]),
            dry_run: b.flag(),
        }),
        _ => {
            settings.ratio_ceiling = b.flag().then(|| b.number());
            settings.workloads = u32::from(b.byte());
        }
    }
}

/// What comes back of what was stored, after somebody was at it, and whether it was left alone.
pub(crate) fn kept(
    b: &mut Bytes<'_>,
    frozen: &Frozen,
    evidence: &[MetricEvidence],
) -> (Result<(Frozen, Vec<MetricEvidence>), StoredError>, bool) {
    let mut stored = match store(frozen, evidence, EVIDENCE_BYTES) {
        Ok(stored) => stored,
        Err(error) => return (Err(error), false),
    };
    match b.byte() % 4 {
        0 | 1 => (restore(&stored), true),
        2 => {
            let text = if b.flag() {
                &mut stored.frozen
            } else {
                &mut stored.evidence
            };
            let mut bytes = std::mem::take(text).into_bytes();
            for _ in 0..=b.below(3) {
                let at = usize::from(b.byte()) * bytes.len() / 256;
                let letter = b.of(b"AQgz09+/=\n");
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = letter;
                }
            }
            *text = String::from_utf8_lossy(&bytes).into_owned();
            if b.flag() {
                stored.version = u32::from(b.byte());
            }
            (restore(&stored), false)
        }
        _ => {
            let mut wrong = frozen.clone();
            let number = b.number();
            let at = b.below(wrong.metrics.len());
            if let Some(metric) = wrong.metrics.get_mut(at) {
                match b.byte() % 7 {
                    0 => metric.omega2 = number,
                    1 => metric.lagged = number,
                    2 => metric.lottery = (number, b.number()),
                    3 => metric.profile = vec![number; b.below(7)],
                    4 => metric.accepted = b.below(3),
                    5 => metric.metric = b.name(),
                    _ => metric.centres.clear(),
                }
            }
            if b.flag() {
                wrong.sigma0 = b.number();
            }
            (Ok((wrong, evidence.to_vec())), false)
        }
    }
}
