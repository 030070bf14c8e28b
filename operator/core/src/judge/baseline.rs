//! The baseline of one metric (§5, reading 4): centres, profile, ω² and the lottery sums, fitted once and frozen.
//! Panels of the time before the change in, a [`FrozenMetric`] out; must never see the time after it.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::constants as k;
use super::difference::{arm_mean, control_mean};
use super::noise;
use super::num;
use super::panel::{Panel, PanelPod, Point};
use super::rule::Rule;
use super::settings::Identity;
use super::track::Window;

/// What an arm's values are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Centre {
    /// Each pod with its own baseline.
    Pods(BTreeMap<String, f64>),
    /// All pods with the arm's.
    Arm(f64),
}

impl Centre {
    /// The centre of one pod; `None` for a pod without a baseline.
    pub fn of(&self, pod: &str) -> Option<f64> {
        match self {
            Self::Pods(pods) => pods.get(pod).copied(),
            Self::Arm(centre) => Some(*centre),
        }
    }
}

/// One metric's fitted baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FrozenMetric {
    /// The metric.
    pub metric: String,
    /// Profile: constant, then cosine and sine of 24 h and of 12 h.
    pub profile: Vec<f64>,
    /// Accepted blocks it was fitted on, M.
    pub accepted: usize,
    /// ω²₀.
    pub omega2: f64,
    /// The baseline's half of the noise ratio.
    pub lagged: f64,
    /// Centres by region.
    pub centres: BTreeMap<String, Centre>,
    /// Lottery sums H and h.
    pub lottery: (f64, f64),
}

impl FrozenMetric {
    /// Are the stored numbers fit to judge by?
    pub fn is_sound(&self) -> bool {
        // Logarithms of floats stay far below these, and what is computed from such numbers stays finite.
        let log = |v: &f64| v.abs() <= 1e4;
        let square = |v: f64| (0.0..=1e12).contains(&v);
        let centres = |c: &Centre| match c {
            Centre::Pods(pods) => pods.values().all(log),
            Centre::Arm(centre) => log(centre),
        };
        square(self.omega2)
            && self.omega2 >= k::OMEGA2_FLOOR
            && self.accepted > 0
            && matches!(self.profile.len(), 1 | 3 | 5)
            && self.profile.iter().all(log)
            && self.centres.values().all(centres)
            && [self.lagged, self.lottery.0, self.lottery.1]
                .into_iter()
                .all(square)
    }

    /// The profile at a time of day (seconds since the epoch).
    pub fn at(&self, seconds: f64) -> f64 {
        design(seconds, self.profile.len())
            .iter()
            .zip(&self.profile)
            .map(|(x, b)| x * b)
            .sum()
    }
}

/// One row of the profile's design: 1, then cosine and sine of each harmonic.
fn design(seconds: f64, terms: usize) -> Vec<f64> {
    let w = 2.0 * PI * (seconds.rem_euclid(86_400.0)) / 86_400.0;
    [1.0, w.cos(), w.sin(), (2.0 * w).cos(), (2.0 * w).sin()]
        .into_iter()
        .take(terms)
        .collect()
}

/// Least squares by Householder-free normal equations: the harmonics are all but orthogonal, so that they are well
/// conditioned. `None` when they are not (a singular design).
fn least_squares(rows: &[Vec<f64>], y: &[f64]) -> Option<Vec<f64>> {
    let p = rows.first()?.len();
    let mut a: Vec<Vec<f64>> = vec![vec![0.0; p + 1]; p];
    for (row, v) in rows.iter().zip(y) {
        for (line, ri) in a.iter_mut().zip(row) {
            for (cell, rj) in line.iter_mut().zip(row.iter().chain(std::iter::once(v))) {
                *cell += ri * rj;
            }
        }
    }
    for i in 0..p {
        let pivot = (i..p).max_by(|x, y| {
            let of = |r: &usize| a.get(*r).and_then(|l| l.get(i)).map_or(0.0, |v| v.abs());
            of(x).total_cmp(&of(y))
        })?;
        a.swap(i, pivot);
        let line = a.get(i)?.clone();
        let head = *line.get(i)?;
        if head.abs() < 1e-9 * num::real(rows.len()) {
            return None;
        }
        for (r, other) in a.iter_mut().enumerate() {
            if r != i {
                let factor = other.get(i)? / head;
                for (cell, v) in other.iter_mut().zip(&line) {
                    *cell -= factor * v;
                }
            }
        }
    }
    (0..p)
        .map(|i| {
            let line = a.get(i)?;
            Some(line.get(p)? / line.get(i)?)
        })
        .collect()
}

/// One arm's baseline, centred per process.
struct Centred {
    panel: Panel,
    /// Without identity: the arm's own value in each column, else nothing.
    arm: Vec<Option<f64>>,
    /// With identity: each pod's centre.
    pods: BTreeMap<String, f64>,
    lottery: (f64, f64),
}

impl Centred {
    /// What later values are compared with; an arm by its mean over the accepted columns.
    fn centre(&self, identity: Identity, accepted: &[usize]) -> Centre {
        if identity == Identity::Stable {
            return Centre::Pods(self.pods.clone());
        }
        let at = |i: &usize| self.arm.get(*i).copied().flatten();
        Centre::Arm(num::mean(
            &accepted.iter().filter_map(at).collect::<Vec<_>>(),
        ))
    }
}

/// The values of one process of a pod.
struct Process<'a> {
    points: Vec<&'a Point>,
    mean: f64,
}

/// A pod's processes with enough blocks.
fn processes(points: &[Point], least: usize) -> Vec<Process<'_>> {
    let mut by: BTreeMap<u32, Vec<&Point>> = BTreeMap::new();
    for p in points {
        by.entry(p.incarnation).or_default().push(p);
    }
    by.into_values()
        .filter(|points| points.len() >= least)
        .map(|points| {
            let values: Vec<f64> = points.iter().map(|p| p.y).collect();
            Process {
                mean: num::mean(&values),
                points,
            }
        })
        .collect()
}

/// A pod's values, each less the mean of its process where `shift` says so.
fn values(pod: &PanelPod, runs: &[Process<'_>], shift: bool) -> PanelPod {
    let of = |r: &Process<'_>, p: &Point| Point {
        y: if shift { p.y - r.mean } else { p.y },
        ..*p
    };
    let points = runs
        .iter()
        .flat_map(|r| r.points.iter().map(move |p| of(r, p)))
        .collect();
    PanelPod {
        name: pod.name.clone(),
        points,
    }
}

/// Mean of a pod's processes; short ones weigh less (§5).
fn own_mean(runs: &[Process<'_>], least: usize) -> Option<f64> {
    let weight = |r: &Process<'_>| {
        let m = num::real(r.points.len());
        m / (m + 3.0 * num::real(least))
    };
    let total: f64 = runs.iter().map(weight).sum();
    (total > 0.0).then(|| runs.iter().map(|r| weight(r) * r.mean).sum::<f64>() / total)
}

/// Centres one arm's baseline per process and sums up what its restarts drew.
fn centre(panel: &Panel, identity: Identity, least: usize, window: Window) -> Centred {
    let all: Vec<(&PanelPod, Vec<Process<'_>>)> = panel
        .pods
        .iter()
        .map(|p| (p, processes(&p.points, least)))
        .collect();
    let build = |shift: bool| Panel {
        region: panel.region.clone(),
        pods: all
            .iter()
            .map(|(pod, runs)| values(pod, runs, shift))
            .collect(),
    };
    let (mut sum, mut df) = (0.0, 0.0);
    if identity == Identity::Stable {
        let mut pods = BTreeMap::new();
        for (pod, runs) in &all {
            if let Some(mean) = own_mean(runs, least) {
                pods.insert(pod.name.clone(), mean);
            }
            let means: Vec<f64> = runs.iter().map(|r| r.mean).collect();
            if let Some(v) = num::variance(&means) {
                let own = num::real(means.len() - 1);
                sum += 2.0 * v * own;
                df += own;
            }
        }
        return Centred {
            panel: build(true),
            arm: Vec::new(),
            pods,
            lottery: (sum, df),
        };
    }
    let columns = build(false).columns(window, |_| true);
    let arm: Vec<Option<f64>> = columns.iter().map(|v| arm_mean(v)).collect();
    let lottery = drawn(&all, &columns, &arm, window);
    Centred {
        panel: build(true),
        arm,
        pods: BTreeMap::new(),
        lottery,
    }
}

/// H and h of an arm whose pods have no identity (reading 4): every process is one draw, measured against its arm in the
/// same blocks. A process among n pods brings 1 − 1/n degrees of freedom, in one generation of pods the number of
/// processes less one. Pods that are alone in their arm are measured against each other; restarts inside one pod tell
/// nothing of how the next pod will differ.
fn drawn(
    all: &[(&PanelPod, Vec<Process<'_>>)],
    columns: &[Vec<f64>],
    arm: &[Option<f64>],
    window: Window,
) -> (f64, f64) {
    let (mut sum, mut df, mut alone) = (0.0, 0.0, Vec::new());
    for (_, runs) in all {
        let mut single = Vec::new();
        for run in runs {
            let places: Vec<usize> = run
                .points
                .iter()
                .filter_map(|p| window.place(p.column))
                .collect();
            let beside = places
                .iter()
                .filter_map(|i| columns.get(*i))
                .map(|c| num::real(c.len()));
            let pods = num::mean(&beside.collect::<Vec<_>>());
            let arm = places.iter().filter_map(|i| arm.get(*i).copied().flatten());
            let arm = num::mean(&arm.collect::<Vec<_>>());
            if pods < 1.5 {
                single.push(run.mean);
            } else {
                sum += 2.0 * (run.mean - arm).powi(2);
                df += 1.0 - 1.0 / pods;
            }
        }
        if !single.is_empty() {
            alone.push(num::mean(&single));
        }
    }
    if let Some(v) = num::variance(&alone) {
        sum += 2.0 * v * num::real(alone.len() - 1);
        df += num::real(alone.len() - 1);
    }
    (sum, df)
}

/// The time before the change, as one metric sees it.
pub struct Before<'a> {
    /// The canary.
    pub canary: &'a Panel,
    /// The control regions.
    pub controls: &'a [Panel],
    /// Columns.
    pub window: Window,
    /// Pods needed in each column: canary, then each control region.
    pub quorum: &'a [Vec<usize>],
    /// Middle of each column, seconds.
    pub times: &'a [f64],
    /// Length of the baseline, seconds.
    pub seconds: f64,
    /// Fewest accepted columns.
    pub least: usize,
    /// Whether pods keep their identity.
    pub identity: Identity,
}

/// Fits one metric's baseline; `None` when too few columns are accepted.
pub fn freeze(rule: &Rule, before: &Before<'_>) -> Option<FrozenMetric> {
    let arms = std::iter::once(before.canary).chain(before.controls);
    let centred: Vec<Centred> = arms
        .map(|panel| centre(panel, before.identity, rule.incarnation, before.window))
        .collect();
    let means: Vec<Vec<Option<f64>>> = centred
        .iter()
        .zip(before.quorum)
        .map(|(c, quorum)| c.panel.means(before.window, quorum))
        .collect();
    let (mut d, mut times, mut accepted) = (Vec::new(), Vec::new(), Vec::new());
    for (i, t) in before.times.iter().enumerate() {
        let mut column = means.iter().map(|m| m.get(i).copied().flatten());
        let canary = column.next().flatten();
        let control = control_mean(&column.collect::<Vec<_>>());
        if let (Some(c), Some(k)) = (canary, control) {
            d.push(c - k);
            times.push(*t);
            accepted.push(i);
        }
    }
    if d.len() < before.least.max(1) {
        return None;
    }
    let long_enough =
        |(seconds, blocks): (f64, usize)| before.seconds >= seconds && d.len() >= blocks;
    let terms = if long_enough(k::HARMONICS_2) {
        5
    } else if long_enough(k::HARMONICS_1) {
        3
    } else {
        1
    };
    let profile = [terms, 1].into_iter().find_map(|p| {
        let rows: Vec<Vec<f64>> = times.iter().map(|t| design(*t, p)).collect();
        least_squares(&rows, &d)
    })?;
    let fitted = |t: f64| -> f64 {
        design(t, profile.len())
            .iter()
            .zip(&profile)
            .map(|(x, b)| x * b)
            .sum()
    };
    let residuals: Vec<f64> = d.iter().zip(&times).map(|(d, t)| d - fitted(*t)).collect();
    let lottery = centred
        .iter()
        .fold((0.0, 0.0), |s, c| (s.0 + c.lottery.0, s.1 + c.lottery.1));
    Some(FrozenMetric {
        metric: rule.name.clone(),
        omega2: noise::long_run(&residuals, rule.cosine_divisor).used,
        lagged: noise::lagged(&residuals, rule.lag.0).unwrap_or(0.0),
        accepted: d.len(),
        profile,
        centres: centred
            .iter()
            .map(|c| (c.panel.region.clone(), c.centre(before.identity, &accepted)))
            .collect(),
        lottery,
    })
}
