//! The rule of one metric: tolerance, margin, error shares, the shape of its evidence and the prior of its noise.
//! Settings in, numbers out; must never depend on data.

use serde::{Deserialize, Serialize};

use super::constants as k;
use super::normal::quantile;
use super::settings::{ControlRuns, GuardrailKind, Settings};

/// The weights and scales of E (§7).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// Scale of a level effect.
    pub g: f64,
    /// Scale of a drift, per nominal hour.
    pub g_ramp: f64,
    /// Weight of the level.
    pub w_level: f64,
    /// Weight of the drift; the onsets share what is left.
    pub w_ramp: f64,
    /// Number of onsets.
    pub onsets: usize,
    /// Blocks between two onsets.
    pub stride: usize,
}

/// The prior of the one-off variance (§6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// Standard deviation of one pod's change across a restart.
    pub sigma0: f64,
    /// Its weight, degrees of freedom.
    pub nu0: f64,
    /// Smallest standard deviation.
    pub floor: f64,
    /// Shift of a region at a restart.
    pub region: f64,
    /// Distrust per unit that the control moved.
    pub slack: f64,
}

/// Everything that tells one metric's judgement from another's.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// `ratio`, `peak` or the guardrail's name.
    pub name: String,
    /// Rollback beyond, log units.
    pub tolerance: f64,
    /// Promotion below, log units.
    pub margin: f64,
    /// Error share of a rollback.
    pub alpha: f64,
    /// Share of alpha for E.
    pub e_share: f64,
    /// The shape of E.
    pub mixture: Mixture,
    /// The prior of the one-off draw.
    pub prior: Prior,
    /// Blocks of "the last hour".
    pub recent: usize,
    /// Standard errors of R3.
    pub recent_z: f64,
    /// Fewest blocks for a statement.
    pub min_blocks: usize,
    /// Lag of the noise ratio and blocks from which it counts.
    pub lag: (usize, usize),
    /// At least M divided by this many cosines, where given.
    pub cosine_divisor: Option<usize>,
    /// Accepted blocks (windows) an incarnation needs.
    pub incarnation: usize,
    /// Whether rule P3 looks at its trend (the ratio).
    pub trend: bool,
    /// Judged and shown, never acted on.
    pub dry_run: bool,
}

impl Rule {
    /// The ratio, with the given margin as a fraction.
    pub fn ratio(margin: f64) -> Self {
        Self {
            name: "ratio".to_owned(),
            tolerance: k::RATIO_TOLERANCE.ln_1p(),
            margin: margin.ln_1p(),
            alpha: k::ALPHA_RATIO,
            e_share: k::E_SHARE,
            mixture: Mixture {
                g: k::G_LEVEL,
                g_ramp: k::G_RAMP,
                w_level: k::WEIGHTS.0,
                w_ramp: k::WEIGHTS.1,
                onsets: k::ONSETS,
                stride: k::HOUR,
            },
            prior: Prior {
                sigma0: k::SIGMA0_KNOWN,
                nu0: k::NU0,
                floor: k::SIGMA_FLOOR,
                region: k::SIGMA_REGION,
                slack: k::SLACK,
            },
            recent: k::HOUR,
            recent_z: k::RECENT_Z,
            min_blocks: 3,
            lag: (k::HOUR, 36),
            cosine_divisor: None,
            incarnation: k::INCARNATION,
            trend: true,
            dry_run: false,
        }
    }

    /// The peak ratio.
    pub fn peak() -> Self {
        let base = Self::ratio(k::PEAK.1);
        Self {
            name: "peak".to_owned(),
            tolerance: k::PEAK.0.ln_1p(),
            alpha: k::ALPHA_PEAK,
            mixture: Mixture {
                w_level: k::WEIGHTS_PEAK.0,
                w_ramp: k::WEIGHTS_PEAK.1,
                onsets: k::ONSETS_PEAK,
                stride: 1,
                ..base.mixture
            },
            prior: Prior {
                region: k::SIGMA_REGION_LOOSE,
                ..base.prior
            },
            recent: 1,
            min_blocks: 2,
            lag: (1, 6),
            cosine_divisor: Some(4),
            incarnation: 1,
            trend: false,
            ..base
        }
    }

    /// A continuous guardrail with the given tolerance, margin (fractions) and error share.
    pub fn guardrail(name: &str, tolerance: f64, margin: f64, alpha: f64) -> Self {
        let base = Self::ratio(margin);
        Self {
            name: name.to_owned(),
            tolerance: tolerance.ln_1p(),
            alpha,
            prior: Prior {
                region: k::SIGMA_REGION_LOOSE,
                ..base.prior
            },
            trend: false,
            ..base
        }
    }

    /// ln E needed for a rollback; infinite when E has no share.
    pub fn log_e_needed(&self) -> f64 {
        let share = self.e_share * self.alpha;
        if share > 0.0 {
            -share.ln()
        } else {
            f64::INFINITY
        }
    }

    /// B needed for a rollback; infinite when the line has no share.
    pub fn line_needed(&self) -> f64 {
        let share = (1.0 - self.e_share) * self.alpha;
        if share > 0.0 {
            quantile(1.0 - share / 2.0)
        } else {
            f64::INFINITY
        }
    }

    /// `B_N` needed for a promotion at the given error.
    pub fn promote_needed(alpha: f64) -> f64 {
        quantile(1.0 - alpha / 2.0)
    }

    /// Blocks of rule P2: two hours, or one window.
    pub fn recent_promote(&self) -> usize {
        if self.recent > 1 { 2 * self.recent } else { 1 }
    }
}

/// The rules of one bake: the ratio first, the peak, then the continuous guardrails in the owner's order (§9,
/// readings 5 and 9). `sigma0` is the frozen prior of ratio and peak.
pub fn rules(settings: &Settings, sigma0: f64) -> Vec<Rule> {
    let mut out = vec![Rule::ratio(settings.max_regression), Rule::peak()];
    for rule in &mut out {
        rule.prior.sigma0 = sigma0;
        rule.prior.nu0 = settings.restart_noise_weight;
    }
    let continuous =
        |g: &&super::settings::Guardrail| g.kind == GuardrailKind::Continuous && !g.dry_run;
    let named = settings
        .guardrails
        .iter()
        .filter(|g| g.kind == GuardrailKind::P99 && !g.dry_run);
    let others = super::num::real(settings.guardrails.iter().filter(continuous).count().max(1));
    let p99s = super::num::real(named.count().max(1));
    for g in &settings.guardrails {
        let (tolerance, alpha) = match g.kind {
            GuardrailKind::P99 => (k::P99_TOLERANCE.min(g.max_increase), k::ALPHA_P99 / p99s),
            GuardrailKind::Continuous => (
                k::TOLERANCE_SHARE * g.max_increase,
                k::ALPHA_OTHERS / others,
            ),
            GuardrailKind::Count => continue,
        };
        let mut rule = Rule::guardrail(&g.name, tolerance, g.max_increase, alpha);
        rule.dry_run = g.dry_run;
        out.push(rule);
    }
    let workloads = f64::from(settings.workloads.max(1));
    for rule in &mut out {
        rule.alpha /= workloads;
        if settings.control_runs == ControlRuns::Target {
            rule.prior.region *= 2.0;
        }
    }
    out
}

/// Error share and tolerance (log units) of each count guardrail that acts or is shown (reading 8).
pub fn count_rules(settings: &Settings) -> Vec<CountRule> {
    let counts = || {
        settings
            .guardrails
            .iter()
            .filter(|g| g.kind == GuardrailKind::Count)
    };
    let acting = super::num::real(counts().filter(|g| !g.dry_run).count().max(1));
    counts()
        .map(|g| CountRule {
            name: g.name.clone(),
            tolerance: k::TOLERANCE_SHARE * g.max_increase,
            margin: g.max_increase,
            alpha: k::ALPHA_COUNTS / acting / f64::from(settings.workloads.max(1)),
            dry_run: g.dry_run,
        })
        .collect()
}

/// The rule of one count.
#[derive(Clone, Debug, PartialEq)]
pub struct CountRule {
    /// The guardrail's name.
    pub name: String,
    /// Tolerated increase of the rate ratio, fraction.
    pub tolerance: f64,
    /// Margin on the rate ratio, fraction.
    pub margin: f64,
    /// Error share.
    pub alpha: f64,
    /// Judged and shown, never acted on.
    pub dry_run: bool,
}
