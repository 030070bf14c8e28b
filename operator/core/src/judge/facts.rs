//! Facts of one look (§4, §9): block by block which gates are closed, hard limits, proofs of a wrong allocator, and the
//! window of the diagnosis. A period in, facts out; must never look at D.

use std::collections::BTreeMap;

use super::carried::Frozen;
use super::constants as k;
use super::diagnosis::{Ends, Span};
use super::freeze::hour_of;
use super::gates::{self, ArmFacts, Churn, Facts};
use super::hygiene;
use super::input::{Capacity, Pod, Seen, Series};
use super::look::Context;
use super::num;
use super::outcome::Code;
use super::period::{ArmView, Period};
use super::settings::{ControlRestart, ControlRuns};
use super::track::{Grid, Window};

/// The gates of every block since the change.
pub(super) struct Blocks {
    /// The first closed gate of each block.
    first: Vec<Option<Code>>,
    /// Whether each block is accepted.
    pub(super) open: Vec<bool>,
    /// Facts of the newest block.
    newest: Option<Facts>,
}

/// How many blocks counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Accepted ones.
    pub(super) accepted: usize,
    /// Refused ones, by their first closed gate.
    pub(super) refused: BTreeMap<Code, usize>,
}

impl Blocks {
    /// Looks at each block of the period.
    pub(super) fn new(context: &Context<'_>, period: &Period<'_>, frozen: Option<&Frozen>) -> Self {
        let window = period.window;
        let newest: Vec<Vec<Option<i64>>> = period.arms.iter().map(|a| a.newest(window)).collect();
        let loads: Vec<Vec<Option<f64>>> = period.arms.iter().map(|a| a.load(window)).collect();
        let mut out = Self {
            first: Vec::new(),
            open: Vec::new(),
            newest: None,
        };
        for (i, block) in (window.from..window.to).enumerate() {
            let mut arms =
                period.arms.iter().zip(&newest).map(|(arm, newest)| {
                    arm.facts(window, block, newest.get(i).copied().flatten())
                });
            let load = |arm: usize| loads.get(arm).and_then(|l| l.get(i).copied().flatten());
            let facts = Facts {
                canary: arms.next().unwrap_or_default(),
                controls: arms.collect(),
                baseline: true,
                load: load_ratio(context, period, frozen, block, &load),
                blocks: usize::MAX,
                churn: Churn::Turnovers(k::CHURN_ENOUGH, 0.0),
            };
            let closed = gates::closed(&facts).first().copied();
            out.open.push(closed.is_none());
            out.first.push(closed);
            out.newest = Some(facts);
        }
        out
    }

    /// Accepted blocks by number.
    pub(super) fn open_blocks(&self, window: Window) -> Vec<i64> {
        let all = (window.from..window.to).zip(&self.open);
        all.filter(|(_, open)| **open).map(|(b, _)| b).collect()
    }

    /// Adds the first `blocks` of them: accepted ones, and refused ones by their first closed gate.
    pub(super) fn add_to(&self, tally: &mut Tally, blocks: usize) {
        for code in self.first.iter().take(blocks) {
            match code {
                None => tally.accepted += 1,
                Some(code) => *tally.refused.entry(*code).or_insert(0) += 1,
            }
        }
    }

    /// The gates that are closed at this look.
    pub(super) fn closed_now(
        &self,
        context: &Context<'_>,
        period: &Period<'_>,
        frozen: Option<&Frozen>,
        accepted: usize,
    ) -> Vec<Code> {
        let Some(mut facts) = self.newest.clone() else {
            let mut out = vec![Code::TooFewSamples];
            if frozen.is_none() {
                out.insert(0, Code::NoBaseline);
            }
            return out;
        };
        facts.baseline = frozen.is_some();
        facts.blocks = accepted;
        facts.churn = churn(context, period, frozen);
        gates::closed(&facts)
    }
}

/// Load of the canary over that of the control, each against its own baseline at the same hour (reading 7).
fn load_ratio(
    context: &Context<'_>,
    period: &Period<'_>,
    frozen: Option<&Frozen>,
    block: i64,
    load: &dyn Fn(usize) -> Option<f64>,
) -> Option<f64> {
    if !context.settings.declared.requests {
        return Some(1.0);
    }
    let hour = hour_of(context.grid, block);
    let relative = |arm: usize| {
        let base = frozen?.load.get(period.arms.get(arm)?.region())?;
        let base = base.hours.get(&hour).copied().unwrap_or(base.mean);
        load(arm).filter(|_| base > 0.0).map(|l| l / base)
    };
    let canary = relative(0)?;
    let controls: Option<Vec<f64>> = (1..period.arms.len()).map(relative).collect();
    let control = controls.filter(|c| !c.is_empty()).map(|c| num::mean(&c))?;
    (control > 0.0).then(|| canary / control)
}

/// Median of an arm's pods that report lately.
pub(super) fn median_of(
    arm: &ArmView<'_>,
    window: Window,
    value: impl Fn(&super::track::Track) -> Option<f64>,
) -> Option<f64> {
    let lately = window.to - k::STALE;
    let values: Vec<f64> = arm
        .tracks
        .iter()
        .filter(|t| t.life().is_some_and(|(_, last)| last >= lately))
        .filter_map(value)
        .collect();
    num::median(&values)
}

/// What is known of churn at this look.
fn churn(context: &Context<'_>, period: &Period<'_>, frozen: Option<&Frozen>) -> Churn {
    let settings = context.settings;
    let window = period.window;
    let end = num::real_signed(context.grid.start(window.to)) / 1000.0;
    let Some((canary, controls)) = period.arms.split_first() else {
        return Churn::Missing;
    };
    if settings.declared.evictions {
        let turnovers = |arm: &ArmView<'_>| median_of(arm, window, super::track::Track::turnovers);
        // A control that was not restarted has turned over in the baseline already.
        let before = |arm: &ArmView<'_>| {
            let known = frozen.filter(|_| settings.control_restart == ControlRestart::None);
            known
                .and_then(|f| f.turnovers.get(arm.region()).copied())
                .unwrap_or(0.0)
        };
        let control = controls
            .iter()
            .filter_map(|arm| Some(turnovers(arm)? + before(arm)))
            .fold(0.0, f64::max);
        return turnovers(canary).map_or(Churn::Missing, |c| Churn::Turnovers(c, control));
    }
    if settings.control_restart == ControlRestart::None {
        return Churn::Unknowable;
    }
    let age = |arm: &ArmView<'_>| median_of(arm, window, |t| t.started.map(|s| end - s));
    let Some(own) = age(canary) else {
        return Churn::Missing;
    };
    let apart = |other: &f64| (own / other - 1.0).abs();
    let ages: Option<Vec<f64>> = controls.iter().map(age).collect();
    ages.and_then(|a| a.into_iter().max_by(|x, y| apart(x).total_cmp(&apart(y))))
        .map_or(Churn::Missing, |control| Churn::Ages(own, control))
}

/// Gates that can be told before the change.
pub(super) fn without_change(period: &Period<'_>) -> Vec<Code> {
    let window = period.window;
    let last = window.to - 1;
    let mut arms = period.arms.iter().map(|arm| {
        let newest = arm.newest(window).last().copied().flatten();
        // Only data, exporter and coverage are asked for; the rest holds or is not known yet.
        ArmFacts {
            verified: true,
            full: true,
            evicting: true,
            version: Some(String::new()),
            ..arm.facts(window, last, newest)
        }
    });
    let facts = Facts {
        canary: arms.next().unwrap_or_default(),
        controls: arms.collect(),
        baseline: true,
        load: Some(1.0),
        blocks: usize::MAX,
        churn: Churn::Turnovers(k::CHURN_ENOUGH, 0.0),
    };
    gates::closed(&facts)
}

/// What bars a rollout whatever the numbers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// Nothing.
    No,
    /// A pod is proved to run another allocator than its arm should, for longer than the deadline.
    WrongAllocator,
}

/// Is a pod proved to run the wrong allocator (reading 6)?
pub(super) fn barred(context: &Context<'_>) -> Barred {
    let settings = context.settings;
    let wrong = |pod: &Pod, target: bool| {
        let contrary = match pod.allocator.seen {
            Seen::Target => !target,
            Seen::Source => target,
            Seen::Other(_) => true,
            Seen::Unknown => false,
        };
        let stands = |ready: f64| {
            let since = ready.max(pod.allocator.since);
            since.is_finite() && context.input.now - since >= settings.verify_deadline_seconds
        };
        contrary && pod.exists && pod.ready_at.is_some_and(stands)
    };
    let control = settings.control_runs == ControlRuns::Target;
    let input = context.input;
    let found = input.canary.pods.iter().any(|p| wrong(p, true))
        || input
            .controls
            .iter()
            .flat_map(|a| &a.pods)
            .any(|p| wrong(p, control));
    if found {
        Barred::WrongAllocator
    } else {
        Barred::No
    }
}

/// The canary's RSS/cache in the last accepted block, which the ceiling bounds.
pub(super) fn last_ratio(period: &Period<'_>, blocks: &Blocks, to: i64) -> Option<f64> {
    let view = period.arms.first()?;
    let open = blocks.open_blocks(period.window);
    let last = *open.iter().rfind(|b| **b < to)?;
    let here = view.tracks.iter().filter_map(|t| t.cell(last));
    let now: Vec<f64> = here.filter(|c| c.lack.is_none()).map(|c| c.mean).collect();
    super::difference::arm_mean(&now).map(f64::exp)
}

/// The first tripped hard limit of the canary (§9).
pub(super) fn hard_limit(
    context: &Context<'_>,
    period: &Period<'_>,
    last_ratio: Option<f64>,
) -> Option<String> {
    let pods = &context.input.canary.pods;
    let view = period.arms.first()?;
    let limited = pods.iter().zip(&view.tracks).any(|(pod, track)| {
        let limit = pod.memory_limit.filter(|l| l.is_finite() && *l > 0.0);
        limit.is_some_and(|limit| {
            let lived = track.lived(i64::MAX);
            lived.is_some_and(|l| l.sustained >= k::MEMORY_LIMIT * limit)
        })
    });
    let ceiling = context.settings.ratio_ceiling;
    let ceiling = ceiling.is_some_and(|most| last_ratio.is_some_and(|r| r >= most));
    [
        (pods.iter().any(|p| p.oom_killed), "OOMKilled"),
        (limited, "MemoryLimit"),
        (pods.iter().any(|p| p.crash_loop), "CrashLoop"),
        (ceiling, "RatioCeiling"),
    ]
    .into_iter()
    .find(|(hit, _)| *hit)
    .map(|(_, name)| name.to_owned())
}

/// The canary's window for the diagnosis: first and last three blocks since the change, an hour and more apart.
pub(super) fn span(context: &Context<'_>, period: &Period<'_>, blocks: &Blocks) -> Option<Span> {
    let view = period.arms.first()?;
    let known: Vec<i64> = {
        let mut all: Vec<i64> = view
            .tracks
            .iter()
            .flat_map(|t| &t.cells)
            .filter(|c| c.rss > 0.0)
            .map(|c| c.block)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let open = blocks.open_blocks(period.window);
    // Where blocks were accepted the window begins with them: before, caches fill.
    let known: Vec<i64> = if open.len() > k::HOUR { open } else { known };
    if known.len() <= k::HOUR {
        return None;
    }
    let ends = |at: &[i64]| ends(context, view, at);
    let first = known.get(..3)?;
    let last = known.get(known.len() - 3..)?;
    let (a, b) = (ends(first)?, ends(last)?);
    let capacity = mean_over(view, |pod| match &pod.capacity {
        Capacity::Fixed(v) => Some(*v),
        Capacity::Series(s) => gauge_in(s, context.grid, last),
        Capacity::Unknown => None,
    });
    let purges = view
        .arm
        .pods
        .iter()
        .filter_map(|p| p.stats.as_ref())
        .map(|s| {
            let until = context.grid.start(period.window.to);
            let counter = hygiene::counter(&s.purges, until);
            let from = context.grid.start(*first.first().unwrap_or(&0));
            let inside = counter.iter().filter(|(t, _)| *t >= from).map(|(_, v)| *v);
            inside.clone().fold(0.0, f64::max) - inside.fold(f64::INFINITY, f64::min).min(f64::MAX)
        })
        .filter(|v| *v > 0.0)
        .sum();
    Some(Span {
        a,
        b,
        capacity,
        purges,
    })
}

/// Mean over the pods of an arm for which there is a value.
fn mean_over(view: &ArmView<'_>, value: impl Fn(&Pod) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = view.arm.pods.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| num::mean(&values))
}

/// Median of a gauge's samples in three blocks.
fn gauge_in(series: &Series, grid: Grid, blocks: &[i64]) -> Option<f64> {
    let (from, to) = (grid.start(*blocks.first()?), grid.start(blocks.last()? + 1));
    let samples = hygiene::gauge(series, grid.block_ms, to - 1);
    let inside: Vec<f64> = samples
        .iter()
        .filter(|(t, _)| *t >= from)
        .map(|(_, v)| *v)
        .collect();
    num::median(&inside)
}

/// Medians of three blocks, the mean over pods.
fn ends(context: &Context<'_>, view: &ArmView<'_>, blocks: &[i64]) -> Option<Ends> {
    let cells = |value: fn(&super::track::Cell) -> f64| {
        let medians: Vec<f64> = blocks
            .iter()
            .filter_map(|b| {
                let here: Vec<f64> = view
                    .tracks
                    .iter()
                    .filter_map(|t| t.cell(*b))
                    .map(value)
                    .filter(|v| *v > 0.0)
                    .collect();
                (!here.is_empty()).then(|| num::mean(&here))
            })
            .collect();
        num::median(&medians)
    };
    let stat = |series: fn(&super::input::AllocatorStats) -> &Series| {
        mean_over(view, |pod| {
            gauge_in(series(pod.stats.as_ref()?), context.grid, blocks)
        })
    };
    Some(Ends {
        rss: cells(|c| c.rss)?,
        cache: cells(|c| c.cache)?,
        allocated: stat(|s| &s.allocated),
        active: stat(|s| &s.active),
        resident: stat(|s| &s.resident),
        metadata: stat(|s| &s.metadata),
    })
}
