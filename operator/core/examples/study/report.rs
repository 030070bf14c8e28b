//! The table of one cell beside its target, and whether it is met within Monte-Carlo error.

use heapfleet_core::judge::num::{median, real};

use crate::bake::Outcome;
use crate::cells::{Cell, Target};

/// Standard errors that a share may miss a limit by.
const ERRORS: f64 = 2.6;
/// The same for shares that the specification measured itself, with about as many repetitions: both are uncertain.
const BOTH: f64 = ERRORS * std::f64::consts::SQRT_2;

/// What a cell measured, in percent and minutes.
pub(crate) struct Measured {
    pub(crate) line: String,
    pub(crate) met: bool,
}

/// A share's standard error where the target holds; never that of a share of 0 or 1.
fn error(target: f64, n: f64) -> f64 {
    let p = (target / 100.0).clamp(0.5 / n, 1.0 - 0.5 / n);
    100.0 * (p * (1.0 - p) / n).sqrt()
}

/// Compares a cell's outcomes with its target.
pub(crate) fn measure(cell: &Cell, outcomes: &[Outcome]) -> Measured {
    let n = real(outcomes.len().max(1));
    let onset = cell.world.effect.onset * 60.0;
    let minutes: Vec<f64> = outcomes
        .iter()
        .filter_map(|o| o.rolled_back)
        .map(|b| 5.0 * real(b) - onset)
        .collect();
    let promoted: Vec<f64> = outcomes
        .iter()
        .filter(|o| {
            o.promoted
                .is_some_and(|p| o.rolled_back.is_none_or(|r| p < r))
        })
        .filter_map(|o| o.promoted)
        .map(|b| real(b) / 12.0)
        .collect();
    let rolled = 100.0 * real(minutes.len()) / n;
    let passed = 100.0 * real(promoted.len()) / n;
    let after = median(&minutes).map_or_else(|| "-".to_owned(), |m| format!("{m:.0} m"));
    let at = median(&promoted).map_or_else(|| "-".to_owned(), |h| format!("{h:.1} h"));
    let t = &cell.target;
    let most =
        |target: Option<f64>, got: f64| target.is_none_or(|x| got <= x + ERRORS * error(x, n));
    let least =
        |target: Option<f64>, got: f64| target.is_none_or(|x| got >= x - BOTH * error(x, n));
    let slow =
        |target: Option<f64>| target.is_none_or(|x| quickest(&minutes).is_none_or(|m| m <= x));
    let met = most(t.rolled_most, rolled)
        && least(t.rolled_least, rolled)
        && slow(t.minutes)
        && most(t.promoted_most, passed)
        && least(t.promoted_least, passed);
    let line = format!(
        "{:<34} {:>5}  R {rolled:>5.1} % {after:>7}  P {passed:>5.1} % @ {at:>6}  {:<46} {}",
        cell.name,
        outcomes.len(),
        wanted(t),
        if met { "met" } else { "NOT MET" },
    );
    Measured { line, met }
}

/// Lower limit of the median: the order statistic that lies below it in all but half a percent of samples; `None` where
/// there are too few values for one.
fn quickest(minutes: &[f64]) -> Option<f64> {
    let sorted = heapfleet_core::judge::num::sorted(minutes);
    let n = real(sorted.len());
    let at = 0.5 * n - 0.5 * ERRORS * n.sqrt();
    let at = (at >= 0.0).then(|| heapfleet_core::judge::num::floor(at))?;
    sorted.get(at).copied()
}

/// A target in words.
fn wanted(t: &Target) -> String {
    let mut out = Vec::new();
    let mut say = |value: Option<f64>, text: &str, unit: &str| {
        out.extend(value.map(|v| format!("{text} {v}{unit}")));
    };
    say(t.rolled_most, "R <=", " %");
    say(t.rolled_least, "R >=", " %");
    say(t.minutes, "in", " m");
    say(t.promoted_most, "P <=", " %");
    say(t.promoted_least, "P >=", " %");
    out.join(", ")
}
