//! One metric after the change (§5 to §8): D of the accepted columns, ω² and τ² of now, the weighed evidence with R4.
//! A frozen baseline and panels in, numbers out; must never look past the last column.

use super::baseline::FrozenMetric;
use super::difference::{arm_mean, control_mean};
use super::noise::{self, OneOff};
use super::num;
use super::panel::{Panel, PanelPod, Point};
use super::rule::Rule;
use super::settings::Identity;
use super::track::Window;
use super::verdict::{self, Weighed};

/// The time after the change, as one metric sees it.
pub struct After<'a> {
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
    /// Which columns the gates admit.
    pub open: &'a [bool],
    /// Whether pods keep their identity.
    pub identity: Identity,
    /// The gain asked for, fraction.
    pub min_gain: f64,
}

/// One metric's state at one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The accepted columns.
    pub columns: Vec<i64>,
    /// D of each.
    pub d: Vec<f64>,
    /// ω² now.
    pub omega2: f64,
    /// τ² now.
    pub tau2: f64,
    /// Pooled variance of one pod's change and its degrees of freedom without the prior.
    pub pooled: (f64, f64),
    /// The evidence.
    pub weighed: Weighed,
}

/// Values less their pods' centres; pods without a centre drop out.
fn centred(panel: &Panel, frozen: &FrozenMetric) -> Panel {
    let centre = frozen.centres.get(&panel.region);
    let pods = panel
        .pods
        .iter()
        .map(|pod| PanelPod {
            name: pod.name.clone(),
            points: centre
                .and_then(|c| c.of(&pod.name))
                .map_or_else(Vec::new, |c| {
                    pod.points
                        .iter()
                        .map(|p| Point { y: p.y - c, ..*p })
                        .collect()
                }),
        })
        .collect();
    Panel {
        region: panel.region.clone(),
        pods,
    }
}

/// Which pod of which arm is left out (R4).
#[derive(Clone, Copy, Default)]
struct Without {
    canary: Option<usize>,
    control: Option<(usize, usize)>,
}

/// Judges one metric.
pub fn run(rule: &Rule, frozen: &FrozenMetric, after: &After<'_>) -> Run {
    let arms: Vec<Panel> = std::iter::once(after.canary)
        .chain(after.controls)
        .map(|panel| centred(panel, frozen))
        .collect();
    let means: Vec<Vec<Option<f64>>> = arms
        .iter()
        .zip(after.quorum)
        .map(|(panel, quorum)| panel.means(after.window, quorum))
        .collect();
    let (mut columns, mut d, mut moved) = (Vec::new(), Vec::new(), vec![Vec::new(); arms.len()]);
    for (i, open) in after.open.iter().enumerate() {
        let column: Vec<Option<f64>> = means.iter().map(|m| m.get(i).copied().flatten()).collect();
        let (Some((canary, controls)), Some(t), true) =
            (column.split_first(), after.times.get(i), *open)
        else {
            continue;
        };
        let (Some(c), Some(k)) = (*canary, control_mean(controls)) else {
            continue;
        };
        columns.push(after.window.from + num::signed(i));
        d.push(c - k - frozen.at(*t));
        for (list, value) in moved.iter_mut().zip(&column) {
            list.extend(*value);
        }
    }
    let omega2 = frozen.omega2 * noise::inflation(&d, frozen.lagged, rule.lag);
    let regions: Vec<f64> = moved.iter().skip(1).map(|m| num::mean(m)).collect();
    let scene = Scene {
        rule,
        frozen,
        after,
        arms: &arms,
        regions: &regions,
    };
    let effects: Vec<Vec<Option<f64>>> = arms.iter().map(Panel::effects).collect();
    let (tau2, pooled) = scene.one_off(&effects, Without::default());
    let mut weighed = verdict::weigh(rule, &d, omega2, tau2, after.min_gain);
    if weighed.crosses {
        weighed.survives = scene.survives(&columns, &effects, omega2);
    }
    Run {
        columns,
        d,
        omega2,
        tau2,
        pooled,
        weighed,
    }
}

/// What both the whole look and the one without the loudest pod are computed from.
struct Scene<'a> {
    rule: &'a Rule,
    frozen: &'a FrozenMetric,
    after: &'a After<'a>,
    /// Centred arms, the canary first.
    arms: &'a [Panel],
    /// How far each control region moved.
    regions: &'a [f64],
}

impl Scene<'_> {
    /// τ² and the pooled variance, without the pods that are left out.
    fn one_off(&self, effects: &[Vec<Option<f64>>], without: Without) -> (f64, (f64, f64)) {
        let of = |arm: usize| -> Vec<f64> {
            let dropped = |i: usize| match arm.checked_sub(1) {
                None => without.canary == Some(i),
                Some(region) => without.control == Some((region, i)),
            };
            effects
                .get(arm)
                .into_iter()
                .flatten()
                .enumerate()
                .filter(|(i, _)| !dropped(*i))
                .filter_map(|(_, e)| *e)
                .collect()
        };
        let controls: Vec<Vec<f64>> = (1..effects.len()).map(of).collect();
        let canary = of(0);
        let one = OneOff {
            canary: &canary,
            controls: &controls,
            draws: if self.after.identity == Identity::Stable {
                1.0
            } else {
                2.0
            },
            omega2: self.frozen.omega2,
            terms: self.frozen.profile.len(),
            baseline: self.frozen.accepted,
            moved: num::mean(self.regions).abs(),
            spread: num::variance(self.regions).map_or(0.0, f64::sqrt),
            lottery: self.frozen.lottery,
        };
        let (s2, weight) = noise::pooled(&self.rule.prior, &one);
        (
            noise::one_off(&self.rule.prior, &one),
            (s2, weight - self.rule.prior.nu0),
        )
    }

    /// R4: drops the canary pod that is highest and the control pod that is lowest in the last hour.
    fn survives(&self, columns: &[i64], effects: &[Vec<Option<f64>>], omega2: f64) -> bool {
        let recent = columns
            .get(columns.len().saturating_sub(self.rule.recent)..)
            .unwrap_or(columns);
        let several =
            |panel: &Panel| panel.pods.iter().filter(|p| !p.points.is_empty()).count() > 1;
        let mut without = Without::default();
        let Some((canary, controls)) = self.arms.split_first() else {
            return false;
        };
        let loudest = |panel: &Panel, sign: f64| {
            panel
                .pod_means(recent)
                .into_iter()
                .enumerate()
                .filter_map(|(i, m)| m.map(|m| (i, sign * m)))
                .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        };
        if several(canary) {
            without.canary = loudest(canary, 1.0).map(|(i, _)| i);
        }
        without.control = controls
            .iter()
            .enumerate()
            .filter(|(_, panel)| several(panel))
            .filter_map(|(r, panel)| loudest(panel, -1.0).map(|(i, m)| ((r, i), m)))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
            .map(|(at, _)| at);
        if without.canary.is_none() && without.control.is_none() {
            return true;
        }
        let d = self.differences(columns, without);
        let (tau2, _) = self.one_off(effects, without);
        verdict::survives(self.rule, &d, omega2, tau2)
    }

    /// D of the same columns without the pods that are left out; columns where nobody remains drop out.
    fn differences(&self, columns: &[i64], without: Without) -> Vec<f64> {
        let means: Vec<Vec<Option<f64>>> = self
            .arms
            .iter()
            .enumerate()
            .map(|(arm, panel)| {
                let keep = |i: usize| match arm.checked_sub(1) {
                    None => without.canary != Some(i),
                    Some(region) => without.control != Some((region, i)),
                };
                panel
                    .columns(self.after.window, keep)
                    .iter()
                    .map(|values| arm_mean(values))
                    .collect()
            })
            .collect();
        columns
            .iter()
            .filter_map(|column| {
                let i = self.after.window.place(*column)?;
                let mut at = means.iter().map(|m| m.get(i).copied().flatten());
                let canary = at.next().flatten()?;
                let control = control_mean(&at.collect::<Vec<_>>())?;
                Some(canary - control - self.frozen.at(*self.after.times.get(i)?))
            })
            .collect()
    }
}
