//! A bake as it is seen look by look: a made world with troubles, samples that come late, and inputs cut to what a look is
//! given.

use heapfleet_core::judge::{
    Arm, Capacity, Frozen, GuardrailSeries, LookInput, Pod, Seen, Series, Settings, look,
};

use crate::world::{BLOCK, Chance, World};

/// What goes wrong in a bake.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each happens or not")]
pub(crate) struct Troubles {
    pub(crate) seed: u64,
    /// A second control region.
    pub(crate) third: bool,
    /// Undeclared: capacity, evictions, requests.
    pub(crate) silent: (bool, bool, bool),
    /// The capacity is measured.
    pub(crate) measured: bool,
    /// A histogram per pod, a quotient per pod, a gauge per arm.
    pub(crate) guardrails: (bool, bool, bool),
    /// The number of pods is told, and changes.
    pub(crate) told: bool,
    /// How many pods restart, have gaps, stand still, evict nothing for a while, are outliers, come late, go early.
    pub(crate) restarts: u32,
    pub(crate) gaps: u32,
    pub(crate) stuck: u32,
    pub(crate) idle: u32,
    pub(crate) outliers: u32,
    pub(crate) born: u32,
    pub(crate) gone: u32,
    /// Caches turn over slowly, so that churn parity is reached in the middle.
    pub(crate) slow: bool,
    /// Caches fill during the first blocks of the bake.
    pub(crate) filling: bool,
    /// Share of samples that come one or two looks late.
    pub(crate) late: f64,
    /// Samples come twice, and some are garbage.
    pub(crate) dirty: bool,
}

/// What happens to a pod at a time; how much of it, in (0, 1).
type Trouble = fn(&mut Pod, f64, f64);

impl Troubles {
    /// How often each happens to some pod.
    fn of_pods(&self) -> [(u32, Trouble); 7] {
        [
            (self.restarts, |pod, at, _| restart(pod, at)),
            (self.gaps, |pod, at, much| {
                let until = at + BLOCK * (1.0 + 8.0 * much);
                for s in series(pod) {
                    s.replicas[0].retain(|(t, _)| *t < at || *t > until);
                }
            }),
            (self.stuck, |pod, at, _| {
                for (t, v) in &mut pod.rss.replicas[0] {
                    if *t > at && *t < at + 20.0 * BLOCK {
                        *v = 4.5e9;
                    }
                }
            }),
            (self.idle, |pod, at, much| {
                let samples = &mut pod.evictions.replicas[0];
                let held = samples.iter().rfind(|(t, _)| *t <= at).map_or(0.0, |s| s.1);
                let until = at + BLOCK * (3.0 + 8.0 * much);
                for (_, v) in samples.iter_mut().filter(|(t, _)| *t > at && *t < until) {
                    *v = held;
                }
            }),
            (self.outliers, |pod, at, _| {
                for (t, v) in &mut pod.rss.replicas[0] {
                    *v *= if *t > at { 1.4 } else { 1.0 };
                }
            }),
            (self.born, |pod, at, _| cut(pod, at, true)),
            (self.gone, |pod, at, _| cut(pod, at, false)),
        ]
    }

    /// What happens to every pod from the change on.
    fn of_all(&self, pod: &mut Pod, since: f64) {
        if self.filling {
            for (t, v) in &mut pod.cache.replicas[0] {
                let share = ((*t - since) / (20.0 * BLOCK)).clamp(0.5, 1.0);
                *v *= if *t > since { share } else { 1.0 };
            }
        }
        if self.slow {
            for (_, v) in &mut pod.evictions.replicas[0] {
                *v *= 0.05;
            }
        }
        if self.measured {
            let samples = &pod.rss.replicas[0];
            let sizes: Vec<_> = samples.iter().step_by(3).map(|(t, _)| (*t, 4e9)).collect();
            pod.capacity = Capacity::Series(sizes.into());
        }
    }
}

/// A second control region.
fn another(arm: &Arm, chance: &mut Chance) -> Arm {
    let mut third = arm.clone();
    "lhr".clone_into(&mut third.region);
    for pod in &mut third.pods {
        pod.name = format!("lhr-{}", pod.name);
        for sample in &mut pod.rss.replicas[0] {
            sample.1 *= (0.01 * chance.normal()).exp();
        }
    }
    third
}

/// A bake.
pub(crate) struct Tale {
    pub(crate) settings: Settings,
    pub(crate) frozen: Frozen,
    whole: LookInput,
    end: f64,
    late: f64,
    seed: u64,
    /// First block of the bake, and the first after it.
    pub(crate) from: i64,
    pub(crate) to: i64,
}

fn all(input: &mut LookInput) -> Vec<&mut Pod> {
    let controls = input.controls.iter_mut().flat_map(|a| &mut a.pods);
    input.canary.pods.iter_mut().chain(controls).collect()
}

/// Every series of a pod or an arm.
fn series(pod: &mut Pod) -> Vec<&mut Series> {
    let mut out = vec![
        &mut pod.rss,
        &mut pod.cache,
        &mut pod.evictions,
        &mut pod.requests,
    ];
    if let Capacity::Series(s) = &mut pod.capacity {
        out.push(s);
    }
    out.extend(pod.guardrails.values_mut().flat_map(of_guardrail));
    out
}

fn of_guardrail(series: &mut GuardrailSeries) -> Vec<&mut Series> {
    match series {
        GuardrailSeries::Gauge(s) => vec![s],
        GuardrailSeries::Histogram { buckets, .. } => buckets.iter_mut().map(|(_, s)| s).collect(),
        GuardrailSeries::Quotient {
            numerator,
            denominator,
        } => vec![numerator, denominator],
        GuardrailSeries::Count { events, exposure } => {
            std::iter::once(events).chain(exposure).collect()
        }
    }
}

impl Tale {
    /// `None` where the baseline does not suffice.
    pub(crate) fn new(world: &World, troubles: &Troubles) -> Option<Self> {
        let mut settings = world.settings();
        let (mut whole, ended) = (world.input(), world.change().ended);
        let end = whole.now;
        let mut chance = Chance(troubles.seed);
        if troubles.third {
            let third = another(&whole.controls[0], &mut chance);
            whole.controls.push(third);
        }
        add_guardrails(troubles, &mut settings, &mut whole, &mut chance);
        let after = |chance: &mut Chance| ended + chance.uniform() * (end - ended);
        for (times, trouble) in troubles.of_pods() {
            for _ in 0..times {
                let at = after(&mut chance);
                let mut pods = all(&mut whole);
                let who = crate::index(chance.uniform(), pods.len());
                trouble(pods[who], at, chance.uniform());
            }
        }
        for pod in all(&mut whole) {
            troubles.of_all(pod, world.change().began);
        }
        if troubles.told {
            let (pods, shift) = (world.canary, after(&mut chance));
            whole.canary.expected = vec![(world.change().began, pods), (shift, pods + 1)];
            whole.controls[0].expected = vec![(shift, world.control)];
        }
        let (capacity, evictions, requests) = troubles.silent;
        settings.declared.capacity = !capacity;
        settings.declared.evictions = !evictions;
        settings.declared.requests = !requests;
        let frozen = look(&settings, None, &whole).frozen?;
        // As the caller does: with a frozen baseline, samples from a little before the bake on.
        let first = ended - settings.lead();
        for pod in all(&mut whole) {
            for s in series(pod) {
                s.replicas[0].retain(|(t, _)| *t >= first);
            }
        }
        if troubles.dirty {
            soil(&mut whole, &mut chance);
        }
        let block = |t: f64| crate::floor(t / BLOCK);
        let mut tale = Self {
            settings,
            frozen,
            whole,
            end,
            late: troubles.late,
            seed: troubles.seed,
            from: block(ended),
            to: block(end - 30.0),
        };
        tale.frozen.failed = None;
        Some(tale)
    }

    /// What a look after a block may see: everything there is by then, or only what came from `since` on.
    pub(crate) fn input(&self, end: i64, since: Option<f64>) -> LookInput {
        let now = crate::real(end) * BLOCK + 31.0;
        let mut out = LookInput {
            now,
            ..self.whole.clone()
        };
        // A pod that goes was there before, and nobody knows its version afterwards.
        for pod in all(&mut out).into_iter().filter(|p| !p.exists) {
            let times = pod.rss.replicas[0].iter().map(|(t, _)| *t);
            let last = times
                .filter(|t| t.is_finite() && *t < self.end)
                .fold(0.0, f64::max);
            pod.exists = last > now;
            pod.version = pod.version.take().filter(|_| pod.exists);
        }
        let first = since.unwrap_or(f64::NEG_INFINITY);
        let mut stream = 0_u64;
        let mut keep = |s: &mut Series| {
            stream += 1;
            s.replicas[0].retain(|(t, _)| {
                let block = crate::floor(*t / BLOCK);
                let mut chance = Chance(self.seed ^ (stream << 32) ^ t.to_bits());
                let mut later = || i64::from(chance.uniform() < self.late);
                let late = later() + later();
                !t.is_finite() || (*t >= first && *t <= now && end > block + late)
            });
        };
        for pod in all(&mut out) {
            series(pod).into_iter().for_each(&mut keep);
        }
        let arms = std::iter::once(&mut out.canary).chain(&mut out.controls);
        for arm in arms {
            arm.guardrails
                .values_mut()
                .flat_map(of_guardrail)
                .for_each(&mut keep);
            told(arm, now, since.is_some());
        }
        out
    }
}

/// What is known of an arm's pods at a time; a short look sees only the processes that it has samples of.
fn told(arm: &mut Arm, now: f64, short: bool) {
    for pod in &mut arm.pods {
        pod.starts.retain(|s| *s <= now);
        if short && let Some(last) = pod.starts.last().copied() {
            pod.starts = vec![last];
        }
        pod.exists &= pod.starts.iter().any(|s| *s <= now);
    }
    arm.pods
        .retain(|p| p.exists || !p.rss.replicas[0].is_empty() || !p.cache.replicas[0].is_empty());
}

fn add_guardrails(
    troubles: &Troubles,
    settings: &mut Settings,
    input: &mut LookInput,
    chance: &mut Chance,
) {
    use heapfleet_core::judge::{Guardrail, GuardrailKind};
    let (histogram, quotient, gauge) = troubles.guardrails;
    let mut ask = |name: &str| {
        settings.guardrails.push(Guardrail {
            name: name.to_owned(),
            kind: GuardrailKind::Continuous,
            max_increase: 0.1,
            dry_run: name == "cpu",
        });
    };
    for (asked, name) in [(histogram, "lookup"), (quotient, "cpu"), (gauge, "wide")] {
        if asked {
            ask(name);
        }
    }
    for pod in all(input) {
        let requests = pod.requests.replicas[0].clone();
        if histogram {
            let share = |s: f64| -> Series {
                let scaled = requests.iter().map(|(t, v)| (*t, (v * s).floor()));
                scaled.collect::<Vec<_>>().into()
            };
            let buckets = vec![
                (0.01, share(0.5)),
                (0.02, share(0.9)),
                (0.05, share(0.995)),
                (f64::INFINITY, share(1.0)),
            ];
            pod.guardrails.insert(
                "lookup".to_owned(),
                GuardrailSeries::Histogram {
                    quantile: 0.99,
                    buckets,
                },
            );
        }
        if quotient {
            let busy = requests
                .iter()
                .map(|(t, v)| (*t, 0.002 * v * (1.0 + 0.01 * chance.uniform())));
            pod.guardrails.insert(
                "cpu".to_owned(),
                GuardrailSeries::Quotient {
                    numerator: busy.collect::<Vec<_>>().into(),
                    denominator: requests.clone().into(),
                },
            );
        }
    }
    if gauge {
        let arms = std::iter::once(&mut input.canary).chain(&mut input.controls);
        for arm in arms {
            let mut t = crate::world::ORIGIN + 3.0;
            let mut samples = Vec::new();
            while t < input.now {
                samples.push((t, 0.02 * (0.05 * chance.normal()).exp()));
                t += 15.0;
            }
            arm.guardrails
                .insert("wide".to_owned(), GuardrailSeries::Gauge(samples.into()));
        }
    }
}

/// The process begins again: counters fall, the cache is empty for a while.
fn restart(pod: &mut Pod, at: f64) {
    pod.starts.push(at);
    pod.starts.sort_by(f64::total_cmp);
    for s in [&mut pod.evictions, &mut pod.requests] {
        let base = s.replicas[0]
            .iter()
            .rfind(|(t, _)| *t < at)
            .map_or(0.0, |s| s.1);
        for (t, v) in &mut s.replicas[0] {
            *v -= if *t >= at { base } else { 0.0 };
        }
    }
    for (t, v) in &mut pod.cache.replicas[0] {
        let share = ((*t - at) / (5.0 * BLOCK)).clamp(0.3, 1.0);
        *v *= if *t >= at { share } else { 1.0 };
    }
}

/// A pod that begins, or ends, at a time.
fn cut(pod: &mut Pod, at: f64, born: bool) {
    for s in series(pod) {
        s.replicas[0].retain(|(t, _)| (*t >= at) == born);
    }
    if born {
        pod.starts = vec![at - 0.5];
        if pod.allocator.seen != Seen::Unknown {
            pod.allocator.since = at - 0.5;
        }
    } else {
        pod.exists = false;
    }
}

fn soil(input: &mut LookInput, chance: &mut Chance) {
    let now = input.now;
    for pod in all(input) {
        for s in series(pod) {
            let replica = &mut s.replicas[0];
            let again: Vec<_> = replica.iter().step_by(7).copied().collect();
            replica.extend(again);
            for value in [f64::NAN, f64::INFINITY, -1.0] {
                replica.push((now - 3000.0 * chance.uniform(), value));
            }
            replica.push((f64::NAN, 1.0));
            let at = crate::index(chance.uniform(), replica.len());
            replica.rotate_left(at);
        }
    }
}
