//! The noise model (§6): long-run variance per block and the variance of the one-off draw. Residuals and pod effects
//! in, variances out; must never give zero or less.

use std::f64::consts::PI;

use super::constants as k;
use super::difference::cut;
use super::num;
use super::rule::Prior;
use super::settings::Identity;

/// A long-run variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongRun {
    /// Number of cosines.
    pub nu: usize,
    /// Mean of their squared terms.
    pub ewc: f64,
    /// The one that is used, deliberately on the high side.
    pub used: f64,
}

/// The 10 % quantile of chi-square (Wilson-Hilferty, §6).
fn chi_square_low(nu: f64) -> f64 {
    let a = 2.0 / (9.0 * nu);
    nu * (1.0 - a - k::Z_90 * a.sqrt()).powi(3)
}

/// Long-run variance per block of baseline residuals (equal-weighted cosines, §6).
pub fn long_run(residuals: &[f64], divisor: Option<usize>) -> LongRun {
    let m = residuals.len();
    if m == 0 {
        return LongRun {
            nu: 0,
            ewc: 0.0,
            used: k::OMEGA2_FLOOR,
        };
    }
    let (factor, power) = k::COSINES;
    let least = divisor.map_or(1, |d| m / d.max(1));
    let nu = num::floor(factor * num::real(m).powf(power))
        .max(least)
        .max(1);
    let centre = num::mean(residuals);
    let scale = (2.0 / num::real(m)).sqrt();
    let term = |j: usize| {
        // cos(w (b - 1/2)) by its recurrence would drift; the direct form is exact and quick enough.
        let w = PI * num::real(j) / num::real(m);
        let sum: f64 = residuals
            .iter()
            .enumerate()
            .map(|(b, u)| (w * (num::real(b) + 0.5)).cos() * (u - centre))
            .sum();
        (scale * sum).powi(2)
    };
    let terms: Vec<f64> = (1..=nu).map(term).collect();
    let ewc = num::mean(&terms);
    let low: Vec<f64> = terms.iter().copied().take(k::COSINES_LOW).collect();
    let high = ewc * num::real(nu) / chi_square_low(num::real(nu));
    LongRun {
        nu,
        ewc,
        used: high.max(num::mean(&low)).max(k::OMEGA2_FLOOR),
    }
}

/// Median squared deviation of the lagged differences from their median; `None` when there are none.
pub fn lagged(values: &[f64], lag: usize) -> Option<f64> {
    let later = values.get(lag..)?;
    let steps: Vec<f64> = later.iter().zip(values).map(|(a, b)| a - b).collect();
    let centre = num::median(&steps)?;
    let squares: Vec<f64> = steps.iter().map(|s| (s - centre).powi(2)).collect();
    num::median(&squares)
}

/// How much noisier the canary is than its baseline, at least 1 (§6).
pub fn inflation(d: &[f64], baseline: f64, lag: (usize, usize)) -> f64 {
    if d.len() < lag.1.max(lag.0 + 2) || baseline <= 0.0 {
        return 1.0;
    }
    lagged(d, lag.0).map_or(1.0, |now| (now / baseline).max(1.0))
}

/// Variance of one pod's effect as the arm's mean sees it (from five pods on winsorised, after Yuen); `None` below two.
pub fn pod_variance(effects: &[f64]) -> Option<f64> {
    let n = effects.len();
    if n < k::TRIM_FROM {
        return num::variance(effects);
    }
    let s = num::sorted(effects);
    let c = cut(n);
    let (low, high) = (*s.get(c)?, *s.get(n.checked_sub(c + 1)?)?);
    let winsorised: Vec<f64> = s.iter().map(|v| v.clamp(low, high)).collect();
    let kept = num::real(n - 2 * c);
    let n = num::real(n);
    num::variance(&winsorised).map(|v| n * (n - 1.0) * v / (kept * (kept - 1.0)))
}

/// What the one-off variance is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOff<'a> {
    /// Effect of each canary pod.
    pub canary: &'a [f64],
    /// Effects of the pods of each control region.
    pub controls: &'a [Vec<f64>],
    /// How often one pod's draw counts in its effect: 1 where pods are compared with themselves, 2 where arms are.
    pub draws: f64,
    /// ω² of the baseline.
    pub omega2: f64,
    /// Terms of the profile.
    pub terms: usize,
    /// Accepted blocks of the baseline.
    pub baseline: usize,
    /// How far the control moved from its own baseline.
    pub moved: f64,
    /// How far the control regions' movements lie apart (standard deviation), with two and more.
    pub spread: f64,
    /// Lottery sums of the baseline, H and h.
    pub lottery: (f64, f64),
}

/// Pooled variance of one pod's change, with its degrees of freedom (prior included).
pub fn pooled(prior: &Prior, one: &OneOff<'_>) -> (f64, f64) {
    let mut sum = prior.nu0 * prior.sigma0.powi(2) + one.lottery.0;
    let mut weight = prior.nu0 + one.lottery.1;
    for effects in std::iter::once(one.canary).chain(one.controls.iter().map(Vec::as_slice)) {
        if let Some(v) = pod_variance(effects) {
            let df = num::real(effects.len()) - 1.0;
            sum += df * one.draws * v;
            weight += df;
        }
    }
    ((sum / weight).max(prior.floor.powi(2)), weight)
}

/// τ², the variance of the one-off draw (§6).
pub fn one_off(prior: &Prior, one: &OneOff<'_>) -> f64 {
    let (s2, _) = pooled(prior, one);
    let regions = num::real(one.controls.len().max(1));
    let canary = 1.0 / num::real(one.canary.len().max(1));
    // The control is the plain mean of its regions; with one region this is 1 / n.
    let control: f64 = one
        .controls
        .iter()
        .map(|e| 1.0 / num::real(e.len().max(1)))
        .sum::<f64>()
        / regions.powi(2);
    let region = prior.region.max(one.spread);
    s2 * (canary + control)
        + 2.0 * region.powi(2)
        + (prior.slack * one.moved).powi(2)
        + one.omega2 * num::real(one.terms) / num::real(one.baseline.max(1))
}

/// σ₀ of ratio and peak where nobody told it, and whether it is the cold-start default (§6, reading 10): 1.5 % where the
/// caches are at least 80 % of RSS or the service's own restarts are known.
///
/// Pods without identity differ by more than a restart of one of them, and the share of the caches says nothing about
/// that: with 1.5 % the study rolls back 9 % of healthy one-pod Deployments. There only own draws count, and the prior is
/// never below what they show.
pub fn restart_prior(identity: Identity, cache_share: f64, lottery: (f64, f64)) -> (f64, bool) {
    let (sum, df) = lottery;
    let known = df >= k::OWN_RESTARTS;
    match identity {
        Identity::Stable if known || cache_share >= k::CACHE_DOMINATES => (k::SIGMA0_KNOWN, false),
        Identity::None if known => ((sum / df).sqrt().max(k::SIGMA0_KNOWN), false),
        Identity::Stable | Identity::None => (k::SIGMA0_COLD, true),
    }
}
