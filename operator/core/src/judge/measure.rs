//! Measures every metric and count of one look (§5 to §9): a period and what was frozen in, runs and weighed counts out.
//! Must never decide.

use super::bake::{self, After, Run};
use super::baseline::FrozenMetric;
use super::carried::Frozen;
use super::constants as k;
use super::counts as tallies;
use super::facts;
use super::guardrails;
use super::look::Context;
use super::num;
use super::outcome::CountNumbers;
use super::panel::Panel;
use super::period::Period;
use super::rule::{self, Rule};
use super::track::Window;
use super::verdict::CountWeighed;

/// Every metric that the settings ask for; the peak only where its baseline is long enough or it is declared.
pub(super) fn metrics(
    context: &Context<'_>,
    period: &Period<'_>,
    frozen: &Frozen,
    open: &[bool],
) -> Vec<(Rule, Option<Run>)> {
    let mut out = Vec::new();
    for rule in rule::rules(context.settings, frozen.sigma0) {
        let Some(metric) = frozen.metric(&rule.name) else {
            if rule.name != "peak" || context.settings.declared.peak {
                out.push((rule, None));
            }
            continue;
        };
        let scene = Scene {
            context,
            period,
            frozen,
            open,
        };
        let run = if rule.name == "peak" {
            scene.peak(&rule, metric)
        } else if rule.name == "ratio" {
            let panels: Vec<Panel> = period
                .arms
                .iter()
                .map(|a| Panel::ratio(a.region(), &a.tracks))
                .collect();
            scene.blocks(&rule, metric, &panels, &period.quorum())
        } else {
            scene.guardrail(&rule, metric)
        };
        out.push((rule, run));
    }
    out
}

/// What the metrics of one look share.
struct Scene<'a, 'b> {
    context: &'b Context<'a>,
    period: &'b Period<'a>,
    frozen: &'b Frozen,
    open: &'b [bool],
}

impl Scene<'_, '_> {
    fn blocks(
        &self,
        rule: &Rule,
        metric: &FrozenMetric,
        panels: &[Panel],
        quorum: &[Vec<usize>],
    ) -> Option<Run> {
        let (canary, controls) = panels.split_first()?;
        let window = self.period.window;
        let times: Vec<f64> = (window.from..window.to)
            .map(|b| self.context.grid.middle(b))
            .collect();
        Some(bake::run(
            rule,
            metric,
            &After {
                canary,
                controls,
                window,
                quorum,
                times: &times,
                open: self.open,
                identity: self.frozen.identity(),
                min_gain: self.context.settings.min_gain,
            },
        ))
    }

    fn guardrail(&self, rule: &Rule, metric: &FrozenMetric) -> Option<Run> {
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
        self.blocks(rule, metric, &panels, &quorum)
    }

    fn peak(&self, rule: &Rule, metric: &FrozenMetric) -> Option<Run> {
        let blocks = self.period.window;
        let windows = (blocks.to - blocks.from).div_euclid(k::WINDOW);
        let admitted = |b: i64| {
            blocks
                .place(b)
                .and_then(|i| self.open.get(i).copied())
                .unwrap_or(false)
        };
        let panels: Vec<Panel> = self
            .period
            .arms
            .iter()
            .map(|a| Panel::peak(a.region(), &a.tracks, blocks.from, admitted))
            .collect();
        let (canary, controls) = panels.split_first()?;
        let quorum: Vec<Vec<usize>> = self
            .period
            .quorum()
            .iter()
            .map(|list| {
                let step = num::span(0, k::WINDOW);
                list.chunks_exact(step)
                    .filter_map(|c| c.last().copied())
                    .collect()
            })
            .collect();
        let grid = self.context.grid;
        let half = num::real_signed(k::WINDOW * grid.block_ms) / 2000.0;
        let times: Vec<f64> = (0..windows)
            .map(|w| num::real_signed(grid.start(blocks.from + w * k::WINDOW)) / 1000.0 + half)
            .collect();
        let open = vec![true; times.len()];
        Some(bake::run(
            rule,
            metric,
            &After {
                canary,
                controls,
                window: Window {
                    from: 0,
                    to: windows,
                },
                quorum: &quorum,
                times: &times,
                open: &open,
                identity: self.frozen.identity(),
                min_gain: self.context.settings.min_gain,
            },
        ))
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
