//! A small made world: two regions whose pods scrape RSS, cache, evictions and requests, a change, and a matched restart.

use heapfleet_core::judge::{
    Arm, Capacity, Change, Declared, Guardrail, GuardrailKind, GuardrailSeries, Identity,
    LookInput, Pod, Proof, Sample, Seen, Series, Settings,
};

/// Length of a block, seconds.
pub(crate) const BLOCK: f64 = 60.0;
/// Time between scrapes, seconds.
pub(crate) const SCRAPE: f64 = 15.0;
/// Where the world begins: a multiple of a day.
pub(crate) const ORIGIN: f64 = 1_790_035_200.0;
const CAPACITY: f64 = 4e9;

/// Deterministic numbers (splitmix64).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let high = u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or(0);
        (f64::from(high) + 0.5) / 4_294_967_296.0
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) canary: u32,
    pub(crate) control: u32,
    /// Blocks before and after the change.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// Change of ln(RSS/cache) of the canary.
    pub(crate) effect: f64,
    /// Standard deviation of the noise of one scrape.
    pub(crate) noise: f64,
    pub(crate) identity: Identity,
    /// A p99 guardrail is asked for and measured.
    pub(crate) latency: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            seed: 1,
            canary: 3,
            control: 3,
            before: 60,
            after: 60,
            effect: 0.0,
            noise: 0.01,
            identity: Identity::Stable,
            latency: false,
        }
    }
}

impl World {
    pub(crate) fn settings(&self) -> Settings {
        let latency = Guardrail {
            name: "p99".to_owned(),
            kind: GuardrailKind::P99,
            max_increase: 0.15,
            dry_run: false,
        };
        Settings {
            block_seconds: BLOCK,
            scrape_seconds: SCRAPE,
            delay_seconds: 30.0,
            baseline_seconds: BLOCK * f64::from(self.before),
            min_bake_blocks: 24,
            max_bake_blocks: 1000,
            restart_noise: Some(0.015),
            identity: self.identity,
            declared: Declared {
                capacity: true,
                evictions: true,
                requests: true,
                peak: false,
            },
            guardrails: if self.latency {
                vec![latency]
            } else {
                Vec::new()
            },
            ..Settings::default()
        }
    }

    /// When the restart began, and when the pods were full and evicting again.
    pub(crate) fn change(&self) -> Change {
        let began = ORIGIN + BLOCK * f64::from(self.before);
        Change {
            began,
            ended: began + 4.0 * BLOCK,
        }
    }

    pub(crate) fn input(&self) -> LookInput {
        let when = self.change();
        let mut chance = Chance(self.seed);
        let ore = self.arm("ore", self.canary, true, &mut chance);
        let fra = self.arm("fra", self.control, false, &mut chance);
        LookInput {
            now: when.ended + BLOCK * f64::from(self.after) + 31.0,
            change: Some(when),
            canary: ore,
            controls: vec![fra],
        }
    }

    fn arm(&self, region: &str, pods: u32, target: bool, chance: &mut Chance) -> Arm {
        let when = self.change();
        let mut out = Arm {
            region: region.to_owned(),
            ..Arm::default()
        };
        for i in 0..pods {
            let level = 0.1 + 0.02 * chance.normal();
            let effect = if target { self.effect } else { 0.0 };
            let after = level + effect + 0.005 * chance.normal();
            let end = when.ended + BLOCK * f64::from(self.after) + 31.0;
            let old = (ORIGIN, when.began, level);
            let new = (when.began + 1.0, end, after);
            if self.identity == Identity::Stable {
                let mut pod = self.pod(&format!("{region}-{i}"), &[old, new], chance);
                pod.exists = true;
                prove(&mut pod, target, when.began + 1.0);
                out.pods.push(pod);
            } else {
                let mut before = self.pod(&format!("{region}-old-{i}"), &[old], chance);
                prove(&mut before, false, ORIGIN - 1e6);
                let mut pod = self.pod(&format!("{region}-new-{i}"), &[new], chance);
                pod.exists = true;
                prove(&mut pod, target, when.began + 1.0);
                out.pods.extend([before, pod]);
            }
        }
        out
    }

    /// A pod with one process per (start, end, level).
    fn pod(&self, name: &str, lives: &[(f64, f64, f64)], chance: &mut Chance) -> Pod {
        let (mut rss, mut cache, mut evictions, mut requests, mut p99) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (start, end, level) in lives {
            let mut t = (start / SCRAPE).ceil() * SCRAPE + 0.5;
            while t < *end {
                let age = t - start;
                let size = CAPACITY * (0.99 + 0.005 * chance.uniform());
                cache.push((t, size));
                rss.push((t, size * (level + self.noise * chance.normal()).exp()));
                evictions.push((t, 1e7 * age));
                requests.push((t, 100.0 * age));
                p99.push((t, 0.02 * (0.02 * chance.normal()).exp()));
                t += SCRAPE;
            }
        }
        let mut pod = Pod {
            name: name.to_owned(),
            // Before the world began the processes were up for long.
            starts: lives
                .iter()
                .map(|(s, _, _)| if *s <= ORIGIN { *s - 1e6 } else { *s })
                .collect(),
            ready_at: lives.last().map(|(s, _, _)| *s),
            version: Some("sha256:a".to_owned()),
            capacity: Capacity::Fixed(CAPACITY),
            rss: rss.into(),
            cache: cache.into(),
            evictions: evictions.into(),
            requests: requests.into(),
            ..Pod::default()
        };
        if self.latency {
            pod.guardrails
                .insert("p99".to_owned(), GuardrailSeries::Gauge(p99.into()));
        }
        pod
    }
}

fn prove(pod: &mut Pod, target: bool, since: f64) {
    pod.allocator = Proof {
        seen: if target { Seen::Target } else { Seen::Source },
        since,
    };
}

/// Every pod of an input.
pub(crate) fn pods(input: &mut LookInput) -> impl Iterator<Item = &mut Pod> {
    input
        .canary
        .pods
        .iter_mut()
        .chain(input.controls.iter_mut().flat_map(|a| &mut a.pods))
}

/// Changes every sample of a series.
pub(crate) fn map(series: &mut Series, change: impl Fn(Sample) -> Sample) {
    for sample in series.replicas.iter_mut().flatten() {
        *sample = change(*sample);
    }
}

/// All series of a pod that a look reads.
pub(crate) fn all_series(pod: &mut Pod) -> Vec<&mut Series> {
    let mut out = vec![
        &mut pod.rss,
        &mut pod.cache,
        &mut pod.evictions,
        &mut pod.requests,
    ];
    for guardrail in pod.guardrails.values_mut() {
        if let GuardrailSeries::Gauge(series) = guardrail {
            out.push(series);
        }
    }
    out
}

/// Multiplies the canary's RSS after the change.
pub(crate) fn scale_canary(input: &mut LookInput, factor: f64) {
    let since = input.change.map_or(0.0, |c| c.began);
    for pod in &mut input.canary.pods {
        map(&mut pod.rss, |(t, v)| {
            (t, if t > since { factor * v } else { v })
        });
    }
}
