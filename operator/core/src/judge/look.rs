//! One look: the sequence 1 to 9 of the specification. Settings, what was frozen and one input in, a [`Look`] out; must
//! never know what time it is but by `input.now`.

use std::collections::{BTreeMap, BTreeSet};

use super::bake::{self, Run};
use super::carried::Frozen;
use super::constants as k;
use super::diagnosis;
use super::evidence;
use super::facts::{self, Barred, Tally};
use super::freeze;
use super::input::{Change, LookInput};
use super::measure::{self, Scene};
use super::num;
use super::outcome::{Assumption, Code, CountNumbers, Look, Numbers, Reason, Verdict};
use super::period::{self, Period};
use super::preflight::{self, Preflight};
use super::rule::{self, Rule};
use super::settings::{GuardrailKind, Identity, Settings};
use super::stored::MetricEvidence;
use super::track::{Demands, Grid, Window};
use super::verdict::{self, Case};

/// What is the same for every step of one look.
pub(super) struct Context<'a> {
    pub(super) settings: &'a Settings,
    pub(super) input: &'a LookInput,
    pub(super) grid: Grid,
    /// The first block that is not judged yet.
    pub(super) end: i64,
}

/// Judges one region once. See the module's documentation for what it takes and gives.
pub fn look(settings: &Settings, frozen: Option<&Frozen>, input: &LookInput) -> Look {
    let context = match context(settings, input) {
        Ok(context) => context,
        Err(field) => {
            let mut look = empty(settings, input, None);
            look.reason = Reason::about(Code::InvalidSettings, field);
            return look;
        }
    };
    let Some(change) = input.change else {
        return before(&context);
    };
    let own = frozen.filter(|f| f.is_sound()).cloned().or_else(|| {
        // Nothing frozen, or by another version: all of it can be had again from the time before the change.
        let window = baseline_window(&context, change.began);
        freeze::freeze(settings, input, context.grid, window)
    });
    let failed = frozen.and_then(|f| f.failed.clone());
    let mut out = after(&context, change, own.as_ref());
    if let Some(reason) = failed {
        out.verdict = Verdict::Fail;
        out.reason = reason;
        out.is_final = true;
    }
    if out.verdict == Verdict::Fail
        && let Some(f) = &mut out.frozen
    {
        f.failed = Some(out.reason.clone());
    }
    out
}

/// Checks the border: settings in range, a clock that is a clock, regions told apart.
pub(super) fn context<'a>(
    settings: &'a Settings,
    input: &'a LookInput,
) -> Result<Context<'a>, &'static str> {
    settings.check().map_err(|e| e.0)?;
    let now = num::millis(input.now).ok_or("now")?;
    let grid = Grid {
        block_ms: num::millis(settings.block_seconds).ok_or("blockSeconds")?,
        scrape_ms: num::millis(settings.scrape_seconds)
            .ok_or("scrapeSeconds")?
            .max(1),
    };
    if let Some(change) = input.change
        && num::millis(change.began)
            .zip(num::millis(change.ended))
            .is_none_or(|(b, e)| b > e)
    {
        return Err("change");
    }
    let regions: BTreeSet<&str> = std::iter::once(&input.canary)
        .chain(&input.controls)
        .map(|a| a.region.as_str())
        .collect();
    if regions.len() != input.controls.len() + 1 {
        return Err("regions");
    }
    let delay = num::millis(settings.delay()).ok_or("delaySeconds")?;
    Ok(Context {
        settings,
        input,
        grid,
        end: grid.at(now.saturating_sub(delay)),
    })
}

/// Blocks of the baseline that ends at an instant (seconds).
fn baseline_window(context: &Context<'_>, until: f64) -> Window {
    let to = num::millis(until)
        .map_or(context.end, |ms| context.grid.at(ms))
        .min(context.end);
    let blocks = context.settings.baseline_seconds / context.settings.block_seconds;
    Window {
        from: to - num::signed(num::ceil(blocks)).min(k::MOST_BLOCKS),
        to,
    }
}

/// A look that knows nothing yet.
fn empty(settings: &Settings, input: &LookInput, frozen: Option<&Frozen>) -> Look {
    Look {
        verdict: Verdict::InsufficientData,
        reason: Code::NoBaseline.into(),
        is_final: false,
        numbers: Vec::new(),
        counts: Vec::new(),
        ratio_canary: None,
        ratio_control: None,
        accepted: 0,
        refused: BTreeMap::new(),
        closed: Vec::new(),
        assumptions: assumptions(settings, frozen),
        diagnosis: Vec::new(),
        preflight: None,
        learned: None,
        frozen: frozen.cloned(),
        evidence_blocks: Vec::new(),
        evidence: Vec::new(),
        next_look: input.now,
    }
}

/// What stands in for undeclared series (reading 1).
fn assumptions(settings: &Settings, frozen: Option<&Frozen>) -> Vec<Assumption> {
    let peak = frozen.is_none_or(|f| f.metric("peak").is_some());
    let pooled = settings.identity == Identity::Stable
        && frozen.is_some_and(|f| f.identity() == Identity::None);
    let latency = settings
        .guardrails
        .iter()
        .any(|g| g.kind != GuardrailKind::Count);
    [
        (!settings.declared.capacity, Assumption::FullByBaseline),
        (!settings.declared.evictions, Assumption::ChurnByTime),
        (!settings.declared.requests, Assumption::LoadUnchecked),
        (!peak && !settings.declared.peak, Assumption::PeakUnchecked),
        (!latency, Assumption::LatencyUnguarded),
        (pooled, Assumption::PodsPooled),
        (
            frozen.is_some_and(|f| f.cold),
            Assumption::RestartNoiseAssumed,
        ),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, a)| a)
    .collect()
}

/// End of the next block, plus the delay.
fn next_look(context: &Context<'_>) -> f64 {
    let end = num::real_signed(context.grid.start(context.end + 1)) / 1000.0;
    end + context.settings.delay()
}

/// Before the change: does the baseline suffice, and what can be shown?
fn before(context: &Context<'_>) -> Look {
    let window = baseline_window(context, context.input.now);
    let frozen = freeze::freeze(context.settings, context.input, context.grid, window);
    let mut look = empty(context.settings, context.input, frozen.as_ref());
    look.next_look = next_look(context);
    let arms = context.input.controls.len() + 1;
    let demands = period::demands(context.settings, arms, false, &[]);
    let recent = Window {
        from: context.end - k::STALE,
        to: context.end,
    };
    let period = Period::new(context.input, context.grid, recent, &demands);
    (look.ratio_canary, look.ratio_control) = ratios(&period);
    look.closed = facts::without_change(&period);
    if let Some(frozen) = &frozen {
        look.preflight = preflight_of(context, frozen, &period);
        look.reason = Code::NotStarted.into();
    } else if let Some(code) = look.closed.first() {
        look.reason = (*code).into();
    }
    look
}

fn preflight_of(context: &Context<'_>, frozen: &Frozen, period: &Period<'_>) -> Option<Preflight> {
    let rules = rule::rules(context.settings, frozen.sigma0);
    let pods = |arm: &period::ArmView<'_>| arm.expected.last().copied().unwrap_or(1);
    let (canary, controls) = period.arms.split_first()?;
    let controls: Vec<usize> = controls.iter().map(pods).collect();
    let ratio = frozen.metric("ratio")?;
    Some(preflight::preflight(
        context.settings,
        rules.first()?,
        ratio,
        pods(canary),
        &controls,
    ))
}

/// Geometric means of RSS/cache of canary and control, for people.
fn ratios(period: &Period<'_>) -> (Option<f64>, Option<f64>) {
    let mut arms = period.arms.iter().map(period::ArmView::recent_ratio);
    let canary = arms.next().flatten();
    let controls: Vec<f64> = arms.flatten().map(f64::ln).collect();
    (
        canary,
        (!controls.is_empty()).then(|| num::mean(&controls).exp()),
    )
}

/// The blocks since the change.
pub(super) fn since_change(context: &Context<'_>, change: Change) -> Window {
    let from = num::millis(change.ended).map_or(context.end, |ms| context.grid.first_from(ms));
    Window {
        from: from.max(context.end - k::MOST_BLOCKS),
        to: context.end.max(from),
    }
}

/// What each arm's pods must show since the change.
pub(super) fn demands(context: &Context<'_>, frozen: Option<&Frozen>) -> Vec<Demands> {
    let regions = std::iter::once(&context.input.canary).chain(&context.input.controls);
    let medians: Vec<Option<f64>> = regions
        .map(|a| frozen.and_then(|f| f.cache_median.get(&a.region).copied()))
        .collect();
    period::demands(context.settings, medians.len(), true, &medians)
}

/// After the change.
fn after(context: &Context<'_>, change: Change, frozen: Option<&Frozen>) -> Look {
    let window = since_change(context, change);
    let demands = demands(context, frozen);
    let period = Period::new(context.input, context.grid, window, &demands);
    let blocks = facts::Blocks::new(context, &period, frozen);
    let mut tally = Tally::default();
    blocks.add_to(&mut tally, window.len());
    let scene = |frozen| Scene {
        context,
        period: &period,
        frozen,
        open: &blocks.open,
        origin: window.from,
        begun: &|_, _| None,
    };
    let runs = frozen
        .map(|f| measure::metrics(&scene(f), &mut |r, m, a| Some(bake::run(r, m, a))))
        .unwrap_or_default();
    let counts = frozen
        .map(|f| measure::counts(context, &period, f, &blocks))
        .unwrap_or_default();
    let mut look = conclude(
        context,
        change,
        frozen,
        &Seen {
            period: &period,
            blocks: &blocks,
            tally,
            last_ratio: facts::last_ratio(&period, &blocks, window.to),
            runs,
            counts,
        },
    );
    look.frozen = frozen.cloned();
    look.diagnosis = facts::span(context, &period, &blocks)
        .map(|s| diagnosis::diagnose(&s))
        .unwrap_or_default();
    look
}

/// What a look after the change saw.
pub(super) struct Seen<'a, 'b> {
    pub(super) period: &'b Period<'a>,
    pub(super) blocks: &'b facts::Blocks,
    pub(super) tally: Tally,
    pub(super) last_ratio: Option<f64>,
    pub(super) runs: Vec<(Rule, Option<Run>)>,
    pub(super) counts: Vec<(verdict::CountWeighed, CountNumbers)>,
}

/// What follows from it (steps 7 and 8).
pub(super) fn conclude(
    context: &Context<'_>,
    change: Change,
    frozen: Option<&Frozen>,
    seen: &Seen<'_, '_>,
) -> Look {
    let settings = context.settings;
    let mut look = empty(settings, context.input, None);
    look.assumptions = assumptions(settings, frozen);
    look.next_look = next_look(context);
    (look.ratio_canary, look.ratio_control) = ratios(seen.period);
    look.accepted = seen.tally.accepted;
    look.refused.clone_from(&seen.tally.refused);
    let runs = &seen.runs;
    let accepted = runs
        .first()
        .map_or(0, |(_, r)| r.as_ref().map_or(0, |r| r.d.len()));
    look.closed = seen
        .blocks
        .closed_now(context, seen.period, frozen, accepted);

    let case = Case {
        hard: facts::hard_limit(context, seen.period, seen.last_ratio),
        not_active: facts::barred(context) == Barred::WrongAllocator,
        closed: look.closed.clone(),
        metrics: runs
            .iter()
            .map(|(rule, run)| weighed(rule, run.as_ref()))
            .collect(),
        counts: seen.counts.iter().map(|(c, _)| c.clone()).collect(),
        bake_blocks: accepted,
        min_bake: usize::try_from(settings.min_bake()).unwrap_or(usize::MAX),
        gain_asked: settings.min_gain > 0.0,
        alpha_promote: k::ALPHA_PROMOTE,
    };
    (look.verdict, look.reason) = verdict::decide(&case);
    look.is_final = is_final(context, change, &look, runs, accepted);
    look.numbers = runs
        .iter()
        .map(|(rule, run)| numbers(rule, run.as_ref()))
        .collect();
    look.counts = seen.counts.iter().map(|(_, n)| n.clone()).collect();
    let ratio = runs.first().and_then(|(_, run)| run.as_ref());
    look.learned = ratio.map(|r| (r.pooled.0.sqrt(), r.pooled.1));
    let kept = |(rule, run): &(Rule, Option<Run>)| {
        run.as_ref().map(|run| MetricEvidence::of(&rule.name, run))
    };
    look.evidence = runs.iter().filter_map(kept).collect();
    look.evidence_blocks = look
        .evidence
        .first()
        .map(|e| e.d.clone())
        .unwrap_or_default();
    look.preflight = frozen.and_then(|f| preflight_of(context, f, seen.period));
    look
}

/// A metric that could not be judged has no blocks.
fn weighed(rule: &Rule, run: Option<&Run>) -> verdict::Weighed {
    run.map_or_else(
        || verdict::weigh(rule, &[], 1.0, 1.0, 0.0),
        |run| run.weighed.clone(),
    )
}

/// Does this end the bake (§8, reading 12)?
fn is_final(
    context: &Context<'_>,
    change: Change,
    look: &Look,
    runs: &[(Rule, Option<Run>)],
    accepted: usize,
) -> bool {
    let settings = context.settings;
    let max_bake = f64::from(settings.max_bake());
    let since = context.input.now - change.ended;
    let wall = since >= k::WALL_CLOCK * max_bake * settings.block_seconds;
    match look.verdict {
        Verdict::Pass | Verdict::Fail => true,
        Verdict::Inconclusive => wall || num::real(accepted) >= max_bake,
        Verdict::InsufficientData => {
            // The metric that lacks blocks, or the ratio, tells since when none was accepted.
            let about = look.reason.about.as_deref();
            let metric = runs
                .iter()
                .find(|(r, _)| Some(r.name.as_str()) == about)
                .or_else(|| runs.first());
            let last = metric.and_then(|(r, run)| {
                let last = *run.as_ref()?.columns.last()?;
                let blocks = if r.name == "peak" { k::WINDOW } else { 1 };
                let origin = if blocks == 1 {
                    0
                } else {
                    context.grid.first_from(num::millis(change.ended)?)
                };
                Some(num::real_signed(context.grid.start(origin + (last + 1) * blocks)) / 1000.0)
            });
            let stretch = context.input.now - last.unwrap_or(change.ended).max(change.ended);
            wall || stretch >= settings.gate_timeout_seconds
        }
    }
}

/// The numbers of one metric.
fn numbers(rule: &Rule, run: Option<&Run>) -> Numbers {
    let mut out = Numbers {
        metric: rule.name.clone(),
        dry_run: rule.dry_run,
        ln_e_needed: rule.log_e_needed(),
        b_needed: rule.line_needed(),
        b_n_needed: Rule::promote_needed(k::ALPHA_PROMOTE),
        blocks_needed: rule.min_blocks,
        ..Numbers::default()
    };
    let Some(run) = run else { return out };
    let weighed = &run.weighed;
    out.theta = weighed.theta;
    out.ln_e = weighed.log_e;
    out.b = weighed.line;
    out.b_n = weighed.line_promote;
    out.blocks = weighed.blocks;
    out.omega = run.omega2.sqrt();
    out.tau = run.tau2.sqrt();
    if weighed.blocks > 0 {
        let half = evidence::bound(weighed.blocks, run.omega2, run.tau2, rule.alpha);
        out.lower = weighed.theta - half;
        out.upper = weighed.theta + half;
        let spread = run.omega2 / num::real(weighed.blocks) + run.tau2;
        out.detectable = (rule.tolerance + rule.line_needed() * spread / run.tau2.sqrt()).exp_m1();
    }
    out
}
