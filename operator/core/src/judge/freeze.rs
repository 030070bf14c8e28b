//! Freezes the time before the change (§2, §5, §6): all metrics, load, counts and the prior. Input and a window of
//! blocks in, [`Frozen`] out, or nothing where the baseline does not suffice; must never see the time after.

use std::collections::BTreeMap;

use super::baseline::{self, Before, FrozenMetric};
use super::carried::{CountBaseline, Frozen, LoadBaseline};
use super::constants as k;
use super::counts;
use super::facts;
use super::guardrails;
use super::input::LookInput;
use super::noise;
use super::num;
use super::panel::Panel;
use super::period::{self, Period};
use super::rule::{self, Rule};
use super::settings::{Identity, Settings};
use super::track::{Grid, Track, Window};

/// The window clipped to where all arms have samples.
fn clipped(period: &Period<'_>) -> Window {
    let first =
        |arm: &period::ArmView<'_>| arm.tracks.iter().filter_map(Track::life).map(|l| l.0).min();
    let from = period
        .arms
        .iter()
        .map(|a| first(a).unwrap_or(period.window.to))
        .max();
    Window {
        from: from.unwrap_or(period.window.to).max(period.window.from),
        to: period.window.to,
    }
}

/// Median cache bytes of an arm.
fn cache_median(arm: &period::ArmView<'_>) -> Option<f64> {
    let sizes: Vec<f64> = arm
        .tracks
        .iter()
        .flat_map(|t| &t.cells)
        .map(|c| c.cache)
        .filter(|c| *c > 0.0)
        .collect();
    num::median(&sizes)
}

/// Cuts the baseline's period; without a declared capacity in two steps, as full is measured against its own median.
fn cut<'a>(
    settings: &Settings,
    input: &'a LookInput,
    grid: Grid,
    window: Window,
) -> (Period<'a>, BTreeMap<String, f64>) {
    let arms = input.controls.len() + 1;
    let plain = period::demands(settings, arms, false, &[]);
    let first = Period::new(input, grid, window, &plain);
    if settings.declared.capacity {
        return (first, BTreeMap::new());
    }
    let medians: Vec<Option<f64>> = first.arms.iter().map(cache_median).collect();
    let by_region = first
        .arms
        .iter()
        .zip(&medians)
        .filter_map(|(a, m)| m.map(|m| (a.region().to_owned(), m)))
        .collect();
    let told = period::demands(settings, arms, false, &medians);
    (Period::new(input, grid, window, &told), by_region)
}

/// Mean of cache ÷ RSS over both arms' blocks.
fn cache_share(period: &Period<'_>) -> f64 {
    let shares: Vec<f64> = period
        .arms
        .iter()
        .flat_map(|a| &a.tracks)
        .flat_map(|t| &t.cells)
        .filter(|c| c.lack.is_none() && c.rss > 0.0)
        .map(|c| c.cache / c.rss)
        .collect();
    num::mean(&shares)
}

/// σ₀ of ratio and peak, and whether it is the cold-start default (reading 10).
fn sigma0(
    settings: &Settings,
    identity: Identity,
    period: &Period<'_>,
    ratio: &FrozenMetric,
) -> (f64, bool) {
    if let Some(told) = settings.restart_noise {
        return (told, false);
    }
    noise::restart_prior(identity, cache_share(period), ratio.lottery)
}

/// Everything of the baseline that [`freeze`] works through.
struct Scene<'a, 'b> {
    settings: &'b Settings,
    input: &'a LookInput,
    grid: Grid,
    period: &'b Period<'a>,
    window: Window,
    quorum: Vec<Vec<usize>>,
    seconds: f64,
    identity: Identity,
}

impl Scene<'_, '_> {
    fn fit(
        &self,
        rule: &Rule,
        panels: &[Panel],
        quorum: &[Vec<usize>],
        least: usize,
    ) -> Option<FrozenMetric> {
        let (canary, controls) = panels.split_first()?;
        let times: Vec<f64> = (self.window.from..self.window.to)
            .map(|b| self.grid.middle(b))
            .collect();
        baseline::freeze(
            rule,
            &Before {
                canary,
                controls,
                window: self.window,
                quorum,
                times: &times,
                seconds: self.seconds,
                least,
                identity: self.identity,
            },
        )
    }

    fn peak(&self, rule: &Rule) -> Option<FrozenMetric> {
        let to = self.window.to;
        let windows = (to - self.window.from).div_euclid(k::WINDOW);
        let panels: Vec<Panel> = self
            .period
            .arms
            .iter()
            .map(|a| Panel::peak(a.region(), &a.tracks, to, |_| true, |_| None))
            .collect();
        let (canary, controls) = panels.split_first()?;
        let window = Window {
            from: -windows,
            to: 0,
        };
        // A window needs the quorum of its last block.
        let last = |list: &Vec<usize>| -> Vec<usize> {
            (-windows..0)
                .map(|w| {
                    let block = to + (w + 1) * k::WINDOW - 1;
                    self.window
                        .place(block)
                        .and_then(|i| list.get(i).copied())
                        .unwrap_or(1)
                })
                .collect()
        };
        let quorum: Vec<Vec<usize>> = self.quorum.iter().map(last).collect();
        let half = num::real_signed(k::WINDOW * self.grid.block_ms) / 2000.0;
        let times: Vec<f64> = (-windows..0)
            .map(|w| num::real_signed(self.grid.start(to + w * k::WINDOW)) / 1000.0 + half)
            .collect();
        baseline::freeze(
            rule,
            &Before {
                canary,
                controls,
                window,
                quorum: &quorum,
                times: &times,
                seconds: self.seconds,
                least: k::BASELINE_WINDOWS,
                identity: self.identity,
            },
        )
    }

    fn guardrail(&self, rule: &Rule) -> Option<FrozenMetric> {
        let arms = std::iter::once(&self.input.canary).chain(&self.input.controls);
        let (mut panels, mut quorum) = (Vec::new(), Vec::new());
        for ((arm, view), pods) in arms.zip(&self.period.arms).zip(&self.quorum) {
            let open = self.covered(view, pods);
            let (panel, wide) =
                guardrails::panel(&rule.name, arm, &view.tracks, self.grid, self.window, &open);
            quorum.push(if wide {
                vec![1; pods.len()]
            } else {
                pods.clone()
            });
            panels.push(panel);
        }
        self.fit(rule, &panels, &quorum, k::BASELINE_BLOCKS)
    }

    /// Blocks in which an arm has its quorum of valid pods.
    fn covered(&self, view: &period::ArmView<'_>, quorum: &[usize]) -> Vec<bool> {
        let panel = Panel::ratio(view.region(), &view.tracks);
        panel
            .columns(self.window, |_| true)
            .iter()
            .zip(quorum)
            .map(|(values, least)| values.len() >= *least)
            .collect()
    }

    fn load(&self) -> BTreeMap<String, LoadBaseline> {
        let of = |view: &period::ArmView<'_>| {
            let load = view.load(self.window);
            let known: Vec<f64> = load.iter().flatten().copied().collect();
            let mut hours: BTreeMap<u8, Vec<f64>> = BTreeMap::new();
            if self.seconds >= k::BASELINE_ENOUGH_S {
                for (block, load) in (self.window.from..self.window.to).zip(&load) {
                    if let Some(load) = load {
                        hours
                            .entry(hour_of(self.grid, block))
                            .or_default()
                            .push(*load);
                    }
                }
            }
            let base = LoadBaseline {
                mean: num::mean(&known),
                hours: hours.into_iter().map(|(h, v)| (h, num::mean(&v))).collect(),
            };
            // Sums of finite numbers may leave the range of floats, and what is not finite cannot be stored.
            let finite = base
                .hours
                .values()
                .chain([&base.mean])
                .all(|v| v.is_finite());
            (!known.is_empty() && finite).then_some(base)
        };
        let arms = self.period.arms.iter();
        arms.filter_map(|a| of(a).map(|l| (a.region().to_owned(), l)))
            .collect()
    }

    fn counts(&self) -> BTreeMap<String, BTreeMap<String, CountBaseline>> {
        let covered: Vec<Vec<bool>> = self
            .period
            .arms
            .iter()
            .zip(&self.quorum)
            .map(|(view, quorum)| self.covered(view, quorum))
            .collect();
        let blocks: Vec<i64> = (self.window.from..self.window.to)
            .enumerate()
            .filter(|(i, _)| covered.iter().all(|c| c.get(*i).copied().unwrap_or(false)))
            .map(|(_, b)| b)
            .collect();
        let mut out: BTreeMap<String, BTreeMap<String, CountBaseline>> = BTreeMap::new();
        for rule in rule::count_rules(self.settings) {
            let arms = std::iter::once(&self.input.canary).chain(&self.input.controls);
            for arm in arms {
                if let Some((tally, per_block)) =
                    guardrails::tally(&rule.name, arm, self.grid, &blocks)
                {
                    let count = CountBaseline {
                        rate: tally.rate(),
                        dispersion: counts::dispersion(&per_block),
                    };
                    if !(count.rate.is_finite() && count.dispersion.is_finite()) {
                        continue;
                    }
                    out.entry(rule.name.clone())
                        .or_default()
                        .insert(arm.region.clone(), count);
                }
            }
        }
        out
    }
}

/// Hour of the day (UTC) of a block.
pub fn hour_of(grid: Grid, block: i64) -> u8 {
    let hour = grid.start(block).div_euclid(3_600_000).rem_euclid(24);
    u8::try_from(hour).unwrap_or(0)
}

/// Freezes the baseline in the given blocks; `None` while it does not suffice (§4, reading 2).
pub fn freeze(
    settings: &Settings,
    input: &LookInput,
    grid: Grid,
    window: Window,
) -> Option<Frozen> {
    let (mut period, cache_median) = cut(settings, input, grid, window);
    let clipped = clipped(&period);
    for arm in &mut period.arms {
        let skip = num::span(window.from, clipped.from);
        arm.expected.drain(..skip.min(arm.expected.len()));
        arm.changed.drain(..skip.min(arm.changed.len()));
    }
    period.window = clipped;
    let rules = rule::rules(settings, k::SIGMA0_KNOWN);
    let pods: usize = period.arms.iter().map(|a| a.tracks.len()).sum();
    let scene = Scene {
        identity: if pods * rules.len() > k::MOST_CENTRES {
            Identity::None
        } else {
            settings.identity
        },
        settings,
        input,
        grid,
        window: clipped,
        quorum: period.quorum(),
        seconds: num::real(clipped.len()) * num::real_signed(grid.block_ms) / 1000.0,
        period: &period,
    };
    let panels: Vec<Panel> = period
        .arms
        .iter()
        .map(|a| Panel::ratio(a.region(), &a.tracks))
        .collect();
    let ratio = scene.fit(rules.first()?, &panels, &scene.quorum, k::BASELINE_BLOCKS)?;
    let accepted = num::real(ratio.accepted) * num::real_signed(grid.block_ms) / 1000.0;
    let asked = (k::BASELINE_SHARE * settings.baseline_seconds).min(k::BASELINE_ENOUGH_S);
    if accepted < asked {
        return None;
    }
    let (sigma0, cold) = sigma0(settings, scene.identity, &period, &ratio);
    let mut metrics = vec![ratio];
    for rule in rules.iter().skip(1) {
        let fitted = if rule.name == "peak" {
            scene.peak(rule)
        } else {
            scene.guardrail(rule)
        };
        metrics.extend(fitted);
    }
    Some(Frozen {
        version: k::FROZEN_VERSION,
        window: (clipped.from, clipped.to),
        metrics,
        sigma0,
        cold,
        cache_median,
        load: if settings.declared.requests {
            scene.load()
        } else {
            BTreeMap::new()
        },
        turnovers: if settings.declared.evictions {
            turnovers(&period, clipped)
        } else {
            BTreeMap::new()
        },
        counts: scene.counts(),
        failed: None,
    })
}

/// Turnovers of each arm at the end of the baseline.
fn turnovers(period: &Period<'_>, window: Window) -> BTreeMap<String, f64> {
    let arms = period.arms.iter().filter_map(|arm| {
        let median = facts::median_of(arm, window, Track::turnovers)?;
        Some((arm.region().to_owned(), median))
    });
    arms.filter(|(_, turnovers)| turnovers.is_finite())
        .collect()
}
