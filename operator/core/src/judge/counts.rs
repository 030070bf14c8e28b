//! Evidence of counts (§9, reading 8): events and exposures in, ln E out. Must never rise with fewer canary events.

use super::constants as k;
use super::num;

/// ln E that the canary's share of `n` events exceeds the expected odds; `x` of them are the canary's.
pub fn log_e(x: f64, n: f64, odds: f64) -> f64 {
    if !(odds.is_finite() && odds > 0.0 && n > 0.0) {
        return 0.0;
    }
    let p0 = odds / (1.0 + odds);
    let terms: Vec<f64> = k::COUNT_FACTORS
        .iter()
        .map(|f| {
            let p = odds * f / (1.0 + odds * f);
            x * (p / p0).ln() + (n - x) * ((1.0 - p) / (1.0 - p0)).ln()
        })
        .collect();
    num::log_sum_exp(&terms) - num::real(k::COUNT_FACTORS.len()).ln()
}

/// Events and exposure of one arm over a stretch of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Events.
    pub events: f64,
    /// Exposure.
    pub exposure: f64,
    /// Blocks.
    pub blocks: usize,
}

impl Tally {
    /// Rate with half an event over half a block's exposure added, so that zero is defined (reading 8).
    pub fn rate(&self) -> f64 {
        let half = 0.5 * self.exposure / num::real(self.blocks.max(1));
        let exposure = self.exposure + half;
        if exposure > 0.0 {
            (self.events + 0.5) / exposure
        } else {
            0.0
        }
    }
}

/// Overdispersion of counts per block: variance over mean, at least 1.
pub fn dispersion(per_block: &[f64]) -> f64 {
    let mean = num::mean(per_block);
    num::variance(per_block)
        .filter(|_| mean > 0.0)
        .map_or(1.0, |v| (v / mean).max(1.0))
}

/// Odds expected of the canary: each arm's baseline rate times its exposure now, with the tolerance (a fraction).
pub fn expected_odds(rates: (f64, f64), exposures: (f64, f64), tolerance: f64) -> Option<f64> {
    let odds = rates.0 * exposures.0 / (rates.1 * exposures.1) * (1.0 + tolerance);
    (odds.is_finite() && odds > 0.0).then_some(odds)
}
