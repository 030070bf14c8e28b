//! What the given arms can show (§12), known before anything is touched: frozen noise and pod counts in, effects out.
//! Must never look at a sample.

use serde::{Deserialize, Serialize};

use super::baseline::FrozenMetric;
use super::noise::{self, OneOff};
use super::rule::Rule;
use super::settings::Settings;

/// Standard normal quantile of 0.80.
const POWER_80: f64 = 0.841_621_233_572_914_2;
/// Multiple of τ to which the preflight proposes to widen the margin (§9).
const PROPOSED: f64 = 2.8;

/// The limits that no length of a bake moves (m → ∞), as fractions (0.03 is 3 %).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// Pods of the canary.
    pub canary: usize,
    /// Pods of each control region.
    pub controls: Vec<usize>,
    /// Standard deviation of the one-off draw, log units.
    pub tau: f64,
    /// Long-run standard deviation per block, log units.
    pub omega: f64,
    /// Regression that is rolled back in half of all bakes.
    pub rolled_back_half: f64,
    /// Regression that is rolled back in 80 %.
    pub rolled_back_most: f64,
    /// Margin that parity passes in 80 %.
    pub parity_margin: f64,
    /// The margin that is proposed: the one asked for, or 2.8 τ if that is larger. The owner must accept it.
    pub proposed_margin: f64,
    /// Gain that passes the gain asked for in 80 %.
    pub shown_gain: f64,
}

/// Computes it from the ratio's frozen baseline.
pub fn preflight(
    settings: &Settings,
    rule: &Rule,
    frozen: &FrozenMetric,
    canary: usize,
    controls: &[usize],
) -> Preflight {
    let effects: Vec<Vec<f64>> = controls.iter().map(|n| vec![0.0; (*n).max(1)]).collect();
    let own = vec![0.0; canary.max(1)];
    let one = OneOff {
        canary: &own,
        controls: &effects,
        draws: 1.0,
        omega2: frozen.omega2,
        terms: frozen.profile.len(),
        baseline: frozen.accepted,
        moved: 0.0,
        spread: 0.0,
        lottery: frozen.lottery,
    };
    // Only prior and own restarts speak: the effects of the pods are not known yet.
    let known = rule.prior.nu0 + frozen.lottery.1;
    let s2 = (rule.prior.nu0 * rule.prior.sigma0.powi(2) + frozen.lottery.0) / known;
    let mut prior = rule.prior;
    prior.sigma0 = s2.sqrt();
    prior.nu0 = 1e12;
    let tau = noise::one_off(
        &prior,
        &OneOff {
            lottery: (0.0, 0.0),
            ..one
        },
    )
    .sqrt();
    let half = rule.tolerance + rule.line_needed() * tau;
    let promote = Rule::promote_needed(super::constants::ALPHA_PROMOTE) + POWER_80;
    let gain = (-settings.min_gain).ln_1p() - promote * tau;
    Preflight {
        canary,
        controls: controls.to_vec(),
        tau,
        omega: frozen.omega2.sqrt(),
        rolled_back_half: half.exp_m1(),
        rolled_back_most: (half + POWER_80 * tau).exp_m1(),
        parity_margin: (promote * tau).exp_m1(),
        proposed_margin: settings.max_regression.max((PROPOSED * tau).exp_m1()),
        shown_gain: -gain.exp_m1(),
    }
}
