//! Property 15: exact Gaussian paths at the tolerance, a look after every block; how often E and the line cross.

use heapfleet_core::judge::evidence;
use heapfleet_core::judge::normal::quantile;
use heapfleet_core::judge::num::{mean, real};
use heapfleet_core::judge::rule::Rule;

use crate::chance::Chance;

/// Runs the paths; a line per alpha, and whether all hold.
pub(crate) fn run(seed: u64, paths: usize) -> (Vec<String>, bool) {
    let (blocks, omega2, tau2) = (288_usize, 9e-4_f64, 6e-5_f64);
    let rule = Rule::ratio(0.03);
    let mut highest = Vec::with_capacity(paths);
    for path in 0..paths {
        let mut chance = Chance::new(seed, u64::MAX, u64::try_from(path).unwrap_or(0));
        let level = rule.tolerance + tau2.sqrt() * chance.normal();
        let d: Vec<f64> = (0..blocks)
            .map(|_| level + omega2.sqrt() * chance.normal())
            .collect();
        let mut top = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for m in 3..=blocks {
            let upto = d.get(..m).unwrap_or(&d);
            let e = evidence::log_e(upto, rule.tolerance, omega2, tau2, &rule.mixture);
            let line = evidence::line(mean(upto) - rule.tolerance, m, omega2, tau2);
            top = (top.0.max(e), top.1.max(line));
        }
        highest.push(top);
    }
    let (mut lines, mut all) = (Vec::new(), true);
    for alpha in [0.1_f64, 0.05, 0.025, 0.01] {
        let n = real(paths);
        let limit = alpha + 3.0 * (alpha * (1.0 - alpha) / n).sqrt();
        let e = real(highest.iter().filter(|t| t.0 >= -alpha.ln()).count()) / n;
        let line = real(
            highest
                .iter()
                .filter(|t| t.1 >= quantile(1.0 - alpha / 2.0))
                .count(),
        ) / n;
        let met = e <= limit && line <= limit;
        all &= met;
        lines.push(format!(
            "alpha {:>5.1} %: E {:>5.2} %, line {:>5.2} %, limit {:>5.2} %  {}",
            100.0 * alpha,
            100.0 * e,
            100.0 * line,
            100.0 * limit,
            if met { "met" } else { "NOT MET" },
        ));
    }
    (lines, all)
}
