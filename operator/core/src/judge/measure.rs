//! Measures every metric and count of one look (§5 to §9): a period and what was frozen in, runs and weighed counts out.
//! Must never decide.

use super::bake::{After, Run};
use super::baseline::FrozenMetric;
use super::carried::Frozen;
use super::constants as k;
use super::counts as tallies;
use super::facts;
use super::guardrails;
use super::look::Context;
use super::num;
use super::outcome::CountNumbers;
use super::panel::{OpenWindow, Panel};
use super::period::Period;
use super::rule::{self, Rule};
use super::track::Window;
use super::verdict::CountWeighed;

/// How one metric's values of a window become its state at this look.
pub(super) type Judge<'j> = dyn FnMut(&Rule, &FrozenMetric, &After<'_>) -> Option<Run> + 'j;

/// Every metric that the settings ask for; the peak only where its baseline is long enough or it is declared.
pub(super) fn metrics(scene: &Scene<'_, '_>, judge: &mut Judge<'_>) -> Vec<(Rule, Option<Run>)> {
    let mut out = Vec::new();
    for rule in rule::rules(scene.context.settings, scene.frozen.sigma0) {
        let Some(metric) = scene.frozen.metric(&rule.name) else {
            if rule.name != "peak" || scene.context.settings.declared.peak {
                out.push((rule, None));
            }
            continue;
        };
        let run = if rule.name == "peak" {
            scene.peak(&rule, metric, judge)
        } else if rule.name == "ratio" {
            let panels: Vec<Panel> = scene
                .period
                .arms
                .iter()
                .map(|a| Panel::ratio(a.region(), &a.tracks))
                .collect();
            scene.blocks(&rule, metric, &panels, &scene.period.quorum(), judge)
        } else {
            scene.guardrail(&rule, metric, judge)
        };
        out.push((rule, run));
    }
    out
}

/// What the metrics of one look share.
pub(super) struct Scene<'a, 'b> {
    pub(super) context: &'b Context<'a>,
    pub(super) period: &'b Period<'a>,
    pub(super) frozen: &'b Frozen,
    pub(super) open: &'b [bool],
    /// First block since the change.
    pub(super) origin: i64,
    /// What there is of the first window of peaks: by arm, then by pod.
    pub(super) begun: &'b dyn Fn(usize, usize) -> Option<(i64, OpenWindow)>,
}

impl Scene<'_, '_> {
    fn blocks(
        &self,
        rule: &Rule,
        metric: &FrozenMetric,
        panels: &[Panel],
        quorum: &[Vec<usize>],
        judge: &mut Judge<'_>,
    ) -> Option<Run> {
        let (canary, controls) = panels.split_first()?;
        let window = self.period.window;
        let times: Vec<f64> = (window.from..window.to)
            .map(|b| self.context.grid.middle(b))
            .collect();
        let after = After {
            canary,
            controls,
            window,
            quorum,
            times: &times,
            open: self.open,
            identity: self.frozen.identity(),
            min_gain: self.context.settings.min_gain,
        };
        judge(rule, metric, &after)
    }

    fn guardrail(&self, rule: &Rule, metric: &FrozenMetric, judge: &mut Judge<'_>) -> Option<Run> {
        let arms = std::iter::once(&self.context.input.canary).chain(&self.context.input.controls);
        let (mut panels, mut quorum) = (Vec::new(), Vec::new());
        for ((arm, view), pods) in arms.zip(&self.period.arms).zip(self.period.quorum()) {
            let (panel, wide) = guardrails::panel(
                &rule.name,
                arm,
                &view.tracks,
                self.context.grid,
                self.period.window,
                self.open,
            );
            quorum.push(if wide { vec![1; pods.len()] } else { pods });
            panels.push(panel);
        }
        self.blocks(rule, metric, &panels, &quorum, judge)
    }

    fn peak(&self, rule: &Rule, metric: &FrozenMetric, judge: &mut Judge<'_>) -> Option<Run> {
        let blocks = self.period.window;
        let complete = |to: i64| (to - self.origin).div_euclid(k::WINDOW);
        let window = Window {
            from: complete(blocks.from),
            to: complete(blocks.to),
        };
        let admitted = |b: i64| {
            blocks
                .place(b)
                .and_then(|i| self.open.get(i).copied())
                .unwrap_or(false)
        };
        let arms = self.period.arms.iter().enumerate();
        let panels: Vec<Panel> = arms
            .map(|(i, a)| {
                let begun = |pod| (self.begun)(i, pod);
                Panel::peak(a.region(), &a.tracks, self.origin, admitted, begun)
            })
            .collect();
        let (canary, controls) = panels.split_first()?;
        let first = |w: i64| self.origin + w * k::WINDOW;
        let last = |list: &Vec<usize>| -> Vec<usize> {
            (window.from..window.to)
                .filter_map(|w| list.get(blocks.place(first(w + 1) - 1)?).copied())
                .collect()
        };
        let quorum: Vec<Vec<usize>> = self.period.quorum().iter().map(last).collect();
        let grid = self.context.grid;
        let half = num::real_signed(k::WINDOW * grid.block_ms) / 2000.0;
        let times: Vec<f64> = (window.from..window.to)
            .map(|w| num::real_signed(grid.start(first(w))) / 1000.0 + half)
            .collect();
        let open = vec![true; times.len()];
        let after = After {
            canary,
            controls,
            window,
            quorum: &quorum,
            times: &times,
            open: &open,
            identity: self.frozen.identity(),
            min_gain: self.context.settings.min_gain,
        };
        judge(rule, metric, &after)
    }
}

/// Every count (§9, reading 8).
pub(super) fn counts(
    context: &Context<'_>,
    period: &Period<'_>,
    frozen: &Frozen,
    blocks: &facts::Blocks,
) -> Vec<(CountWeighed, CountNumbers)> {
    let open = blocks.open_blocks(period.window);
    rule::count_rules(context.settings)
        .into_iter()
        .map(|rule| {
            let found = count_one(context, frozen, &rule, &open);
            let (weighed, numbers) = found.unwrap_or_default();
            let needed = -rule.alpha.ln();
            (
                CountWeighed {
                    name: rule.name.clone(),
                    dry_run: rule.dry_run,
                    log_e_needed: needed,
                    ..weighed
                },
                CountNumbers {
                    metric: rule.name.clone(),
                    dry_run: rule.dry_run,
                    ln_e_needed: needed,
                    ..numbers
                },
            )
        })
        .collect()
}

fn count_one(
    context: &Context<'_>,
    frozen: &Frozen,
    rule: &rule::CountRule,
    open: &[i64],
) -> Option<(CountWeighed, CountNumbers)> {
    let baselines = frozen.counts.get(&rule.name)?;
    let of = |arm: &super::input::Arm| {
        let base = baselines.get(&arm.region)?;
        Some((
            guardrails::tally(&rule.name, arm, context.grid, open)?.0,
            *base,
        ))
    };
    let (canary, base) = of(&context.input.canary)?;
    let controls: Option<Vec<_>> = context.input.controls.iter().map(of).collect();
    let controls = controls.filter(|c| !c.is_empty())?;
    let events: f64 = controls.iter().map(|(t, _)| t.events).sum();
    let exposure: f64 = controls.iter().map(|(t, _)| t.exposure).sum();
    let expected: f64 = controls.iter().map(|(t, b)| t.exposure * b.rate).sum();
    let spread = controls
        .iter()
        .map(|(_, b)| b.dispersion)
        .fold(base.dispersion, f64::max)
        .max(1.0);
    let odds = tallies::expected_odds(
        (base.rate, expected / exposure),
        (canary.exposure, exposure),
        rule.tolerance,
    )?;
    let (x, n) = (canary.events / spread, (canary.events + events) / spread);
    let mut weighed = CountWeighed::of(&rule.name, x, n, odds, rule.alpha);
    let even = odds / (1.0 + rule.tolerance) * (1.0 + rule.margin);
    weighed.above_margin = weighed.log_e > 0.0 && x > even * (n - x);
    let numbers = CountNumbers {
        canary: canary.events,
        total: canary.events + events,
        odds,
        ln_e: weighed.log_e,
        ..CountNumbers::default()
    };
    Some((weighed, numbers))
}
