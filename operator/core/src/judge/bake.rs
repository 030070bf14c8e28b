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

/// What one look sees of the pods and of the control regions.
pub(super) struct Now {
    /// Each pod's mean, per arm.
    pub(super) effects: Vec<Vec<Option<f64>>>,
    /// How far each control region moved.
    pub(super) regions: Vec<f64>,
}

/// What a metric is judged by, whenever one looks.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) rule: &'a Rule,
    pub(super) frozen: &'a FrozenMetric,
    pub(super) identity: Identity,
    pub(super) min_gain: f64,
}

impl Terms<'_> {
    /// Everything but R4, which needs the values of the pods.
    pub(super) fn judge(&self, columns: Vec<i64>, d: Vec<f64>, now: &Now) -> Run {
        let omega2 = self.frozen.omega2 * noise::inflation(&d, self.frozen.lagged, self.rule.lag);
        let (tau2, pooled) = self.one_off(now, Without::default());
        let weighed = verdict::weigh(self.rule, &d, omega2, tau2, self.min_gain);
        Run {
            columns,
            d,
            omega2,
            tau2,
            pooled,
            weighed,
        }
    }

    /// τ² and the pooled variance, without the pods that are left out.
    fn one_off(&self, now: &Now, without: Without) -> (f64, (f64, f64)) {
        let of = |arm: usize| -> Vec<f64> {
            let dropped = |i: usize| match arm.checked_sub(1) {
                None => without.canary == Some(i),
                Some(region) => without.control == Some((region, i)),
            };
            now.effects
                .get(arm)
                .into_iter()
                .flatten()
                .enumerate()
                .filter(|(i, _)| !dropped(*i))
                .filter_map(|(_, e)| *e)
                .collect()
        };
        let controls: Vec<Vec<f64>> = (1..now.effects.len()).map(of).collect();
        let canary = of(0);
        let one = OneOff {
            canary: &canary,
            controls: &controls,
            draws: if self.identity == Identity::Stable {
                1.0
            } else {
                2.0
            },
            omega2: self.frozen.omega2,
            terms: self.frozen.profile.len(),
            baseline: self.frozen.accepted,
            moved: num::mean(&now.regions).abs(),
            spread: num::variance(&now.regions).map_or(0.0, f64::sqrt),
            lottery: self.frozen.lottery,
        };
        let (s2, weight) = noise::pooled(&self.rule.prior, &one);
        (
            noise::one_off(&self.rule.prior, &one),
            (s2, weight - self.rule.prior.nu0),
        )
    }
}

/// One pod's centred values as running sums.
struct PodSums {
    columns: Vec<i64>,
    sums: Vec<f64>,
}

impl PodSums {
    fn of(pod: &PanelPod) -> Self {
        let mut sum = 0.0;
        let mut running = |p: &Point| {
            sum += p.y;
            sum
        };
        Self {
            sums: pod.points.iter().map(&mut running).collect(),
            columns: pod.points.iter().map(|p| p.column).collect(),
        }
    }

    /// Sum and number of its values in the columns before `to`.
    fn upto(&self, to: i64) -> (f64, usize) {
        let n = self.columns.partition_point(|c| *c < to);
        let sum = n.checked_sub(1).and_then(|i| self.sums.get(i));
        (sum.copied().unwrap_or(0.0), n)
    }

    /// Its mean over them.
    fn mean(&self, to: i64) -> Option<f64> {
        let (sum, n) = self.upto(to);
        (n > 0).then(|| sum / num::real(n))
    }
}

/// One metric's whole bake: everything that does not depend on when one looks.
pub struct Bake<'a> {
    rule: &'a Rule,
    frozen: &'a FrozenMetric,
    after: &'a After<'a>,
    /// Centred arms, the canary first.
    arms: Vec<Panel>,
    pods: Vec<Vec<PodSums>>,
    columns: Vec<i64>,
    d: Vec<f64>,
    /// Values of each control region in the accepted columns.
    moved: Vec<Vec<f64>>,
}

/// Judges one metric at the end of its window.
pub fn run(rule: &Rule, frozen: &FrozenMetric, after: &After<'_>) -> Run {
    Bake::new(rule, frozen, after).at(after.window.to)
}

impl<'a> Bake<'a> {
    /// Centres the arms and takes their difference.
    pub fn new(rule: &'a Rule, frozen: &'a FrozenMetric, after: &'a After<'a>) -> Self {
        let arms: Vec<Panel> = std::iter::once(after.canary)
            .chain(after.controls)
            .map(|panel| centred(panel, frozen))
            .collect();
        let means: Vec<Vec<Option<f64>>> = arms
            .iter()
            .zip(after.quorum)
            .map(|(panel, quorum)| panel.means(after.window, quorum))
            .collect();
        let (mut columns, mut d) = (Vec::new(), Vec::new());
        let mut moved = vec![Vec::new(); after.controls.len()];
        for (i, (open, t)) in after.open.iter().zip(after.times).enumerate() {
            let mut column = means.iter().map(|m| m.get(i).copied().flatten());
            let canary = column.next().flatten();
            let controls: Vec<Option<f64>> = column.collect();
            let (Some(c), Some(k), true) = (canary, control_mean(&controls), *open) else {
                continue;
            };
            columns.push(after.window.from + num::signed(i));
            d.push(c - k - frozen.at(*t));
            for (list, value) in moved.iter_mut().zip(&controls) {
                list.extend(*value);
            }
        }
        let pods = arms
            .iter()
            .map(|a| a.pods.iter().map(PodSums::of).collect())
            .collect();
        Self {
            rule,
            frozen,
            after,
            arms,
            pods,
            columns,
            d,
            moved,
        }
    }

    /// The look after the last column before `to`; later ones do not exist for it.
    pub fn at(&self, to: i64) -> Run {
        let m = self.columns.partition_point(|c| *c < to);
        let columns = self.columns.get(..m).unwrap_or_default();
        let d = self.d.get(..m).unwrap_or_default();
        let now = Now {
            effects: self
                .pods
                .iter()
                .map(|a| a.iter().map(|p| p.mean(to)).collect())
                .collect(),
            regions: self
                .moved
                .iter()
                .map(|r| num::mean(r.get(..m).unwrap_or_default()))
                .collect(),
        };
        let mut run = self.terms().judge(columns.to_vec(), d.to_vec(), &now);
        if run.weighed.crosses {
            run.weighed.survives = self.survives(columns, &now, run.omega2);
        }
        run
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            rule: self.rule,
            frozen: self.frozen,
            identity: self.after.identity,
            min_gain: self.after.min_gain,
        }
    }

    /// Sum and number of each pod's values before a column, per arm.
    pub(super) fn pod_sums(&self, to: i64) -> Vec<Vec<(f64, usize)>> {
        let arm = |pods: &Vec<PodSums>| pods.iter().map(|p| p.upto(to)).collect();
        self.pods.iter().map(arm).collect()
    }

    /// First column after the window.
    pub(super) fn end(&self) -> i64 {
        self.after.window.to
    }

    /// D of the accepted columns.
    pub(super) fn differences_so_far(&self) -> (&[i64], &[f64]) {
        (&self.columns, &self.d)
    }

    /// Values of each control region in them.
    pub(super) fn moved(&self) -> &[Vec<f64>] {
        &self.moved
    }

    /// The accepted columns of the whole window.
    pub fn columns(&self) -> &[i64] {
        &self.columns
    }

    /// R4: drops the canary pod that is highest and the control pod that is lowest in the last hour.
    fn survives(&self, columns: &[i64], now: &Now, omega2: f64) -> bool {
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
        let (tau2, _) = self.terms().one_off(now, without);
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
