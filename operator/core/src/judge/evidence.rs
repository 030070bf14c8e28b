//! The two anytime-valid tests (§7): the e-process E and the line B. Differences and variances in, evidence out; finite
//! for finite input, and must never fall when a difference rises.

use super::constants::HOUR;
use super::normal::{ln_cdf, quantile};
use super::num;
use super::rule::Mixture;

/// A shape's score and information under Σ = ω² I + τ² 11'.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Σc, Σc², Σc·e.
    c: (f64, f64, f64),
    g: f64,
}

/// The noise a shape is seen through.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Σe and the number of blocks.
    total: f64,
    blocks: f64,
    omega2: f64,
    tau2: f64,
}

/// ln of the half-normal mixture of likelihood ratios for one shape (§7).
fn log_e_shape(shape: Shape, seen: Seen) -> f64 {
    let (c1, c2, ce) = shape.c;
    let kappa = seen.tau2 / (seen.omega2 + seen.blocks * seen.tau2);
    let x = (ce - kappa * c1 * seen.total) / seen.omega2;
    let information = (c2 - kappa * c1 * c1) / seen.omega2;
    let q = 1.0 + shape.g * shape.g * information;
    let z = shape.g * x / q.sqrt();
    std::f64::consts::LN_2 - 0.5 * q.ln() + 0.5 * z * z + ln_cdf(z)
}

/// Sums of one look, from which every term of E follows.
fn seen(d: &[f64], delta: f64, omega2: f64, tau2: f64) -> Seen {
    let total = d.iter().map(|v| v - delta).sum();
    Seen {
        total,
        blocks: num::real(d.len()),
        omega2,
        tau2,
    }
}

/// ln E(1): evidence for "above `delta` since the beginning", without its weight; 0 without blocks.
pub fn log_e_level(d: &[f64], delta: f64, omega2: f64, tau2: f64, g: f64) -> f64 {
    if d.is_empty() {
        return 0.0;
    }
    let s = seen(d, delta, omega2, tau2);
    log_e_shape(
        Shape {
            c: (s.blocks, s.blocks, s.total),
            g,
        },
        s,
    )
}

/// ln E: level, drift and the onsets; 0 without blocks.
pub fn log_e(d: &[f64], delta: f64, omega2: f64, tau2: f64, mixture: &Mixture) -> f64 {
    if d.is_empty() {
        return 0.0;
    }
    let s = seen(d, delta, omega2, tau2);
    let mut terms = Vec::with_capacity(mixture.onsets + 3);
    if mixture.w_level > 0.0 {
        let level = Shape {
            c: (s.blocks, s.blocks, s.total),
            g: mixture.g,
        };
        terms.push(mixture.w_level.ln() + log_e_shape(level, s));
    }
    if mixture.w_ramp > 0.0 {
        let c = d
            .iter()
            .enumerate()
            .fold((0.0, 0.0, 0.0), |(c1, c2, ce), (i, v)| {
                let c = (num::real(i) + 0.5) / num::real(HOUR);
                (c1 + c, c2 + c * c, ce + c * (v - delta))
            });
        terms.push(
            mixture.w_ramp.ln()
                + log_e_shape(
                    Shape {
                        c,
                        g: mixture.g_ramp,
                    },
                    s,
                ),
        );
    }
    let left = 1.0 - mixture.w_level - mixture.w_ramp;
    if mixture.onsets > 0 && left > 1e-12 {
        let weight = (left / num::real(mixture.onsets)).ln();
        let mut before = 0.0;
        let mut rest = d;
        let mut reached = 0_usize;
        for j in 1..=mixture.onsets {
            if j * mixture.stride >= d.len() {
                break;
            }
            let (passed, after) = rest.split_at(mixture.stride.min(rest.len()));
            before += passed.iter().map(|v| v - delta).sum::<f64>();
            rest = after;
            reached += 1;
            let blocks = num::real(after.len());
            let onset = Shape {
                c: (blocks, blocks, s.total - before),
                g: mixture.g,
            };
            terms.push(weight + log_e_shape(onset, s));
        }
        if reached < mixture.onsets {
            terms.push(weight + num::real(mixture.onsets - reached).ln());
        }
    }
    num::log_sum_exp(&terms)
}

/// B of an excess (mean less bound) over `m` blocks (§7).
pub fn line(excess: f64, m: usize, omega2: f64, tau2: f64) -> f64 {
    excess * tau2.sqrt() / (omega2 / num::real(m.max(1)) + tau2)
}

/// Half the width of the anytime-valid bounds, each side at level `alpha` (§7).
pub fn bound(m: usize, omega2: f64, tau2: f64, alpha: f64) -> f64 {
    quantile(1.0 - alpha / 2.0) * (omega2 / num::real(m.max(1)) + tau2) / tau2.sqrt()
}

/// Ordinary least-squares slope per block; 0 below two.
pub fn slope(d: &[f64]) -> f64 {
    if d.len() < 2 {
        return 0.0;
    }
    let middle = (num::real(d.len()) - 1.0) / 2.0;
    let (xy, xx) = d.iter().enumerate().fold((0.0, 0.0), |(xy, xx), (i, v)| {
        let x = num::real(i) - middle;
        (xy + x * v, xx + x * x)
    });
    xy / xx
}
