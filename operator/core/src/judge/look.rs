//! One look: the sequence 1 to 9 of the specification. Settings, what was frozen and one input in, a [`Look`] out; must
//! never know what time it is but by `input.now`.

use std::collections::{BTreeMap, BTreeSet};

use super::bake;
use super::carried::Frozen;
use super::conclude::{Seen, conclude};
use super::constants as k;
use super::diagnosis;
use super::facts::{self, Tally};
use super::freeze;
use super::input::{Change, LookInput};
use super::measure::{self, Scene};
use super::num;
use super::outcome::{Assumption, Code, Look, Reason, Verdict};
use super::period::{self, Period};
use super::preflight::{self, Preflight};
use super::rule;
use super::settings::{GuardrailKind, Identity, Settings};
use super::track::{Demands, Grid, Window};

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
pub(super) fn empty(settings: &Settings, input: &LookInput, frozen: Option<&Frozen>) -> Look {
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
        evidence: Vec::new(),
        next_look: input.now,
    }
}

/// What stands in for undeclared series (reading 1).
pub(super) fn assumptions(settings: &Settings, frozen: Option<&Frozen>) -> Vec<Assumption> {
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
pub(super) fn next_look(context: &Context<'_>) -> f64 {
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

pub(super) fn preflight_of(
    context: &Context<'_>,
    frozen: &Frozen,
    period: &Period<'_>,
) -> Option<Preflight> {
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
pub(super) fn ratios(period: &Period<'_>) -> (Option<f64>, Option<f64>) {
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
