//! The decision (§8, §9) from reduced numbers: what each metric says, which gates are closed, how long it baked; one
//! verdict and one reason out. First match wins. Must never see a sample or a pod.

use super::constants as k;
use super::counts;
use super::evidence;
use super::num;
use super::outcome::{Code, Reason, Verdict};
use super::rule::Rule;

/// One metric's evidence at one look.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one rule of the specification"
)]
pub struct Weighed {
    /// The metric.
    pub name: String,
    /// Judged and shown, never acted on.
    pub dry_run: bool,
    /// Accepted blocks.
    pub blocks: usize,
    /// Enough of them for a statement.
    pub enough: bool,
    /// Mean of D; 0 without blocks.
    pub theta: f64,
    /// ln E against the tolerance.
    pub log_e: f64,
    /// B against the tolerance.
    pub line: f64,
    /// `B_N` against the margin.
    pub line_promote: f64,
    /// R1 to R3 hold.
    pub crosses: bool,
    /// R4: the evidence survives without the loudest pod. True where nothing can be dropped.
    pub survives: bool,
    /// P2: the last blocks lie above the margin.
    pub recent_above: bool,
    /// P3 of the ratio, from two blocks on.
    pub trend: Option<Trend>,
    /// `B_N` against the gain asked for (P5).
    pub line_gain: f64,
}

/// The two sides of rule P3, each per horizon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Projected upper level.
    pub projected: f64,
    /// Established growth.
    pub growth: f64,
}

impl Trend {
    /// The trend of the ratio.
    pub fn of(d: &[f64], omega2: f64) -> Self {
        let m = num::real(d.len().max(1));
        let slope = evidence::slope(d);
        let doubt = k::TREND_Z * (12.0 * omega2 / m.powi(3)).sqrt();
        let level = num::mean(d) + slope * (m - 1.0) / 2.0;
        Self {
            projected: level + (slope + doubt) * k::TREND_HORIZON,
            growth: (slope - doubt) * k::TREND_HORIZON,
        }
    }

    fn obstacle(self) -> Option<Code> {
        if self.growth > k::TREND_DRIFT.ln_1p() {
            Some(Code::TrendRising)
        } else if self.projected > k::TREND_LEVEL.ln_1p() {
            Some(Code::TrendUnknown)
        } else {
            None
        }
    }
}

/// The last `n` of a list.
fn last(d: &[f64], n: usize) -> &[f64] {
    d.get(d.len().saturating_sub(n)..).unwrap_or(d)
}

/// Weighs one metric's accepted differences; R4 is the caller's (see [`survives`]).
pub fn weigh(rule: &Rule, d: &[f64], omega2: f64, tau2: f64, min_gain: f64) -> Weighed {
    let m = d.len();
    let sound = [omega2, tau2].iter().all(|v| v.is_finite() && *v > 0.0);
    let enough = m >= rule.min_blocks && sound && d.iter().all(|v| v.is_finite());
    let mut out = Weighed {
        name: rule.name.clone(),
        dry_run: rule.dry_run,
        blocks: m,
        enough,
        theta: num::mean(d),
        survives: true,
        ..Weighed::default()
    };
    if rule.trend && m >= 2 && sound {
        out.trend = Some(Trend::of(d, omega2));
    }
    if !enough {
        return out;
    }
    out.log_e = evidence::log_e(d, rule.tolerance, omega2, tau2, &rule.mixture);
    out.line = evidence::line(out.theta - rule.tolerance, m, omega2, tau2);
    out.line_promote = evidence::line(rule.margin - out.theta, m, omega2, tau2);
    out.line_gain = evidence::line((-min_gain).ln_1p() - out.theta, m, omega2, tau2);
    out.recent_above = num::mean(last(d, rule.recent_promote())) > rule.margin;
    let level = rule.mixture.w_level.ln()
        + evidence::log_e_level(d, rule.tolerance, omega2, tau2, rule.mixture.g);
    let (by_e, by_line) = (
        out.log_e >= rule.log_e_needed(),
        out.line >= rule.line_needed(),
    );
    let alone = by_line || level >= rule.log_e_needed();
    out.crosses = (by_e || by_line) && recent_high(rule, d, omega2, tau2, alone);
    out
}

/// R2 and R3: is the arm above tolerance right now, and clearly so where only drift or onset speaks?
fn recent_high(rule: &Rule, d: &[f64], omega2: f64, tau2: f64, level_alone: bool) -> bool {
    let recent = last(d, rule.recent);
    let excess = num::mean(recent) - rule.tolerance;
    let doubt = (tau2 + omega2 / num::real(recent.len().max(1))).sqrt();
    excess > 0.0 && (level_alone || excess > rule.recent_z * doubt)
}

/// R4: does half of the needed evidence remain in these differences?
pub fn survives(rule: &Rule, d: &[f64], omega2: f64, tau2: f64) -> bool {
    !d.is_empty()
        && (evidence::log_e(d, rule.tolerance, omega2, tau2, &rule.mixture)
            >= k::KEEP * rule.log_e_needed()
            || evidence::line(num::mean(d) - rule.tolerance, d.len(), omega2, tau2)
                >= k::KEEP * rule.line_needed())
}

/// One count at one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountWeighed {
    /// The guardrail.
    pub name: String,
    /// Judged and shown, never acted on.
    pub dry_run: bool,
    /// Its series are there.
    pub known: bool,
    /// ln E.
    pub log_e: f64,
    /// ln E needed.
    pub log_e_needed: f64,
    /// The rate ratio stands above the margin and the evidence leans to worse.
    pub above_margin: bool,
}

impl CountWeighed {
    /// Weighs `x` canary events of `n` at expected odds.
    pub fn of(name: &str, x: f64, n: f64, odds: f64, alpha: f64) -> Self {
        Self {
            name: name.to_owned(),
            known: true,
            log_e: counts::log_e(x, n, odds),
            log_e_needed: -alpha.ln(),
            ..Self::default()
        }
    }
}

/// Everything a decision depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// The first tripped hard limit.
    pub hard: Option<String>,
    /// A pod is proved to run another allocator for too long.
    pub not_active: bool,
    /// Closed gates in order.
    pub closed: Vec<Code>,
    /// Metrics, the ratio first.
    pub metrics: Vec<Weighed>,
    /// Counts.
    pub counts: Vec<CountWeighed>,
    /// Accepted blocks since the gates opened.
    pub bake_blocks: usize,
    /// Fewest of them for a Pass.
    pub min_bake: usize,
    /// Rule P5 is on.
    pub gain_asked: bool,
    /// Error of a promotion.
    pub alpha_promote: f64,
}

/// The decision table a to h.
pub fn decide(case: &Case) -> (Verdict, Reason) {
    if let Some(which) = &case.hard {
        return (Verdict::Fail, Reason::about(Code::HardLimit, which));
    }
    if case.not_active {
        return (Verdict::Fail, Code::AllocatorNotActive.into());
    }
    let acting = || case.metrics.iter().filter(|m| !m.dry_run);
    let counts = || case.counts.iter().filter(|c| !c.dry_run);
    let failed = acting()
        .find(|m| m.crosses && m.survives)
        .map(|m| &m.name)
        .or_else(|| {
            counts()
                .find(|c| c.known && c.log_e >= c.log_e_needed)
                .map(|c| &c.name)
        });
    if let Some(name) = failed {
        return (Verdict::Fail, Reason::about(Code::Regression, name));
    }
    if let Some(gate) = case.closed.first() {
        return (Verdict::InsufficientData, (*gate).into());
    }
    let thin = acting()
        .find(|m| !m.enough)
        .map(|m| &m.name)
        .or_else(|| counts().find(|c| !c.known).map(|c| &c.name));
    if let Some(name) = thin {
        return (
            Verdict::InsufficientData,
            Reason::about(Code::TooFewSamples, name),
        );
    }
    if acting().next().is_none() {
        return (Verdict::InsufficientData, Code::TooFewSamples.into());
    }
    if let Some(m) = acting().find(|m| m.crosses) {
        return (
            Verdict::Inconclusive,
            Reason::about(Code::SinglePodOutlier, &m.name),
        );
    }
    obstacle(case).map_or_else(
        || (Verdict::Pass, Code::NonInferior.into()),
        |reason| (Verdict::Inconclusive, reason),
    )
}

/// The first thing that stands between good data and a Pass.
fn obstacle(case: &Case) -> Option<Reason> {
    let needed = Rule::promote_needed(case.alpha_promote);
    for m in case.metrics.iter().filter(|m| !m.dry_run) {
        if m.line_promote < needed {
            return Some(Reason::about(Code::Underpowered, &m.name));
        }
        if m.recent_above {
            return Some(Reason::about(Code::RecentAboveMargin, &m.name));
        }
        if let Some(code) = m.trend.and_then(Trend::obstacle) {
            return Some(code.into());
        }
    }
    if let Some(c) = case.counts.iter().find(|c| !c.dry_run && c.above_margin) {
        return Some(Reason::about(Code::RecentAboveMargin, &c.name));
    }
    let gained = case.metrics.first().is_some_and(|m| m.line_gain >= needed);
    if case.gain_asked && !gained {
        return Some(Code::NoGain.into());
    }
    (case.bake_blocks < case.min_bake).then(|| Code::MinBake.into())
}
