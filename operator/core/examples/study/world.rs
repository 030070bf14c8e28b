//! Traces of part B1 of the specification: two regions, a week of baseline and a day of bake, scraped every 15 s, cut into
//! blocks of 5 min.

use std::f64::consts::PI;

use heapfleet_core::judge::num::{real, signed};
use heapfleet_core::judge::panel::{Panel, PanelPod, Point};

use crate::blocks::{cut, latency};
use crate::chance::Chance;
use crate::faults::{restarts, stuck};

/// Seconds between scrapes, scrapes per block, blocks per hour.
pub(crate) const SCRAPE: f64 = 15.0;
pub(crate) const PER_BLOCK: usize = 20;
const HOUR: usize = 12;

/// What a world is made of; standard deviations in log units, times in minutes unless named otherwise.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) pods: usize,
    pub(crate) control_pods: usize,
    pub(crate) baseline_hours: usize,
    pub(crate) bake_hours: usize,
    pub(crate) region_shift: f64,
    pub(crate) lottery: f64,
    pub(crate) memory_pod: f64,
    pub(crate) memory_region: f64,
    pub(crate) noise_region: f64,
    pub(crate) diurnal: (f64, f64),
    pub(crate) restarts_per_day: f64,
    /// Pods after the change are others than before.
    pub(crate) replaced: bool,
    pub(crate) effect: Effect,
}

/// What the change does to the canary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Effect {
    /// Level, log units, and from which hour on.
    pub(crate) level: f64,
    pub(crate) onset: f64,
    /// Drift per hour.
    pub(crate) slope: f64,
    /// A gain that fades over twelve hours.
    pub(crate) fade: f64,
    /// In bursts only.
    pub(crate) peak: f64,
    /// On p99.
    pub(crate) p99: f64,
    /// Both arms climb a staircase.
    pub(crate) staircase: bool,
    /// The true gain: both arms restart from 2.5, the canary stays flat, the control climbs.
    pub(crate) gain: bool,
}

impl World {
    pub(crate) fn new(pods: usize) -> Self {
        Self {
            pods,
            control_pods: pods,
            baseline_hours: 168,
            bake_hours: 24,
            region_shift: 0.003,
            lottery: 0.01,
            memory_pod: 10.0,
            memory_region: 30.0,
            noise_region: 0.005,
            diurnal: (0.01, 0.02),
            restarts_per_day: 1.0 / 7.0,
            replaced: false,
            effect: Effect::default(),
        }
    }

    /// Blocks of baseline.
    pub(crate) fn before(&self) -> usize {
        self.baseline_hours * HOUR
    }

    /// Blocks of the bake.
    pub(crate) fn after(&self) -> usize {
        self.bake_hours * HOUR
    }
}

/// One arm's panels over baseline and bake; block 0 is the first of the baseline.
pub(crate) struct Arm {
    pub(crate) ratio: Panel,
    pub(crate) peak: Panel,
    pub(crate) p99: Panel,
}

/// First-order autoregression with a standard deviation and a memory in minutes, one step per `step` seconds.
pub(crate) struct Wander {
    pub(crate) keep: f64,
    pub(crate) push: f64,
    pub(crate) now: f64,
}

impl Wander {
    fn new(sd: f64, minutes: f64, step: f64, chance: &mut Chance) -> Self {
        let keep = if minutes > 0.0 {
            (-step / (60.0 * minutes)).exp()
        } else {
            0.0
        };
        Self {
            keep,
            push: sd * (1.0 - keep * keep).sqrt(),
            now: sd * chance.normal(),
        }
    }

    pub(crate) fn next(&mut self, chance: &mut Chance) -> f64 {
        let here = self.now;
        self.now = self.keep * here + self.push * chance.normal();
        here
    }
}

/// What all pods of a region share, scrape by scrape.
struct Region {
    /// Common log ratio.
    common: Vec<f64>,
    /// In a burst.
    burst: Vec<bool>,
    /// No scrapes at all.
    outage: Vec<bool>,
    base: f64,
    shift: f64,
}

fn region(world: &World, scrapes: usize, chance: &mut Chance) -> Region {
    let base = 0.08 + 0.03 * chance.normal();
    let amplitude = chance.between(world.diurnal.0, world.diurnal.1);
    let phase = chance.uniform();
    let mut wander = Wander::new(world.noise_region, world.memory_region, SCRAPE, chance);
    let mut common: Vec<f64> = (0..scrapes)
        .map(|i| {
            let day = real(i) * SCRAPE / 86_400.0;
            base + amplitude * (2.0 * PI * (day - phase)).sin() + wander.next(chance)
        })
        .collect();
    let minutes = real(scrapes) * SCRAPE / 60.0;
    let mut high = vec![0.0_f64; scrapes];
    for _ in 0..chance.poisson(minutes / 45.0) {
        let (at, size) = (chance.below(scrapes), 0.05 * (0.3 * chance.normal()).exp());
        for cell in high.iter_mut().skip(at).take(16) {
            *cell = cell.max(size);
        }
    }
    for (cell, burst) in common.iter_mut().zip(&high) {
        *cell += burst;
    }
    let mut outage = vec![false; scrapes];
    for _ in 0..chance.poisson(minutes / 1440.0) {
        let at = chance.below(scrapes);
        let length = heapfleet_core::judge::num::floor(chance.between(20.0, 40.0));
        for cell in outage.iter_mut().skip(at).take(length) {
            *cell = true;
        }
    }
    let shift = world.region_shift * chance.normal();
    Region {
        common,
        burst: high.iter().map(|b| *b > 0.0).collect(),
        outage,
        base,
        shift,
    }
}

/// One pod's scrapes: log ratio, usable, process number per block.
pub(crate) struct Scrapes {
    pub(crate) y: Vec<f64>,
    pub(crate) usable: Vec<bool>,
    /// The cache was full.
    pub(crate) full: Vec<bool>,
    pub(crate) process: Vec<u32>,
}

/// One arm of one world.
pub(crate) fn arm(world: &World, canary: bool, chance: &mut Chance) -> Arm {
    let blocks = world.before() + world.after();
    let scrapes = blocks * PER_BLOCK;
    let pods = if canary {
        world.pods
    } else {
        world.control_pods
    };
    let region = region(world, scrapes, chance);
    let name = if canary { "canary" } else { "control" };
    let mut out = Arm {
        ratio: Panel {
            region: name.to_owned(),
            pods: Vec::new(),
        },
        peak: Panel {
            region: name.to_owned(),
            pods: Vec::new(),
        },
        p99: latency(world, canary, pods, chance),
    };
    let outlier = outlier(world, pods, chance);
    for i in 0..pods {
        let mut seen = pod(world, canary, &region, scrapes, chance);
        if let Some((_, from)) = outlier.filter(|(which, _)| *which == i) {
            for y in seen.y.iter_mut().skip(from) {
                *y += 0.15;
            }
        }
        let pod = format!("{i}");
        let (ratio, peak) = cut(world, &seen);
        out.ratio
            .pods
            .extend(split(world, &pod, ratio, signed(world.before())));
        out.peak
            .pods
            .extend(split(world, &pod, peak, signed(world.before() / 24)));
    }
    out
}

/// Which pod is an outlier, and from which scrape on: 15 % of arms throughout, 5 % from a random hour of the bake.
fn outlier(world: &World, pods: usize, chance: &mut Chance) -> Option<(usize, usize)> {
    let whole = chance.uniform() < 0.15;
    let late = chance.uniform() < 0.05;
    let from = (world.before() + chance.below(world.after())) * PER_BLOCK;
    let which = chance.below(pods);
    if pods < 3 {
        None
    } else if whole {
        Some((which, 0))
    } else {
        late.then_some((which, from))
    }
}

/// A pod that is replaced at the change is two pods.
pub(crate) fn split(world: &World, pod: &str, points: Vec<Point>, change: i64) -> Vec<PanelPod> {
    if !world.replaced {
        return vec![PanelPod {
            name: pod.to_owned(),
            points,
        }];
    }
    let (old, new): (Vec<Point>, Vec<Point>) = points.into_iter().partition(|p| p.column < change);
    vec![
        PanelPod {
            name: format!("old-{pod}"),
            points: old,
        },
        PanelPod {
            name: format!("new-{pod}"),
            points: new,
        },
    ]
}

/// Random steps that only go up, per hour.
fn staircase(rate: f64, scrapes: usize, chance: &mut Chance) -> Vec<f64> {
    let mut steps = vec![0.0; scrapes];
    for _ in 0..chance.poisson(rate * real(scrapes) * SCRAPE / 3600.0) {
        let at = chance.below(scrapes);
        if let Some(cell) = steps.get_mut(at) {
            *cell += chance.exponential(0.01);
        }
    }
    let mut sum = 0.0;
    for cell in &mut steps {
        sum += *cell;
        *cell = sum;
    }
    steps
}

fn pod(
    world: &World,
    canary: bool,
    region: &Region,
    scrapes: usize,
    chance: &mut Chance,
) -> Scrapes {
    let swap = world.before() * PER_BLOCK;
    let (lasting, first) = (0.02 * chance.normal(), world.lottery * chance.normal());
    let second = world.lottery * chance.normal();
    let lasting_after = if world.replaced {
        0.02 * chance.normal()
    } else {
        lasting
    };
    let mut wander = Wander::new(0.015, world.memory_pod, SCRAPE, chance);
    let (phase, period) = (chance.uniform(), 12.0 * 60.0 * chance.between(0.7, 1.3));
    let effect = &world.effect;
    let climbs = match (effect.gain, effect.staircase, canary) {
        (true, _, false) => staircase(4.0, scrapes, chance),
        (_, true, _) => staircase(0.5, scrapes, chance),
        _ => Vec::new(),
    };
    let at_change = climbs.get(swap).copied().unwrap_or(0.0);
    let inflated = 2.5_f64.ln() - region.base;
    let mut y = Vec::with_capacity(scrapes);
    for (i, (common, burst)) in region.common.iter().zip(&region.burst).enumerate() {
        let saw = (real(i) * SCRAPE / period + phase).rem_euclid(1.0) - 0.5;
        let mut v = common + wander.next(chance) + 0.01 * saw + 0.003 * chance.normal();
        let after = i >= swap;
        v += if after {
            lasting_after + second + region.shift
        } else {
            lasting + first
        };
        let climbed = climbs.get(i).copied().unwrap_or(0.0);
        if effect.gain {
            v += match (after, canary) {
                (false, true) => inflated,
                (false, false) => inflated + 0.002 * (climbed - at_change),
                (true, true) => -(1.03_f64.ln()),
                (true, false) => (climbed - at_change).min(2.3_f64.ln()),
            };
        } else {
            v += climbed;
        }
        if after && canary {
            let hours = real(i - swap) * SCRAPE / 3600.0;
            if hours >= effect.onset {
                v += effect.level + effect.slope * (hours - effect.onset);
            }
            v += effect.fade * (1.0 - hours / 12.0).max(0.0);
            v += if *burst { effect.peak } else { 0.0 };
        }
        y.push(v);
    }
    let mut usable: Vec<bool> = region
        .outage
        .iter()
        .map(|o| !o && chance.uniform() >= 0.01)
        .collect();
    let mut full = vec![true; scrapes];
    let process = restarts(
        world,
        (first, second),
        &mut y,
        &mut usable,
        &mut full,
        chance,
    );
    stuck(&mut y, &mut usable, chance);
    Scrapes {
        y,
        usable,
        full,
        process,
    }
}
