//! What follows from what a look saw (steps 7 and 8): the decision, whether it is final, and the numbers. Facts, runs and
//! counts in, a [`Look`] out; must never work through a sample.

use super::bake::Run;
use super::carried::Frozen;
use super::constants as k;
use super::evidence;
use super::facts::{self, Barred, Tally};
use super::input::Change;
use super::look::{Context, assumptions, empty, next_look, preflight_of, ratios};
use super::num;
use super::outcome::{CountNumbers, Look, Numbers, Verdict};
use super::period::Period;
use super::rule::Rule;
use super::stored::MetricEvidence;
use super::verdict::{self, Case};

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
