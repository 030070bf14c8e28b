//! Small numeric helpers: counts to floats, seconds to milliseconds, means and medians. Never panics, never gives NaN
//! for finite input.

/// A count as a float. Counts here stay far below 2^52.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts of blocks and pods stay far below 2^52"
)]
pub const fn real(n: usize) -> f64 {
    n as f64
}

/// A signed count as a float; block numbers and milliseconds stay far below 2^52.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "milliseconds since the epoch stay far below 2^52"
)]
pub const fn real_signed(n: i64) -> f64 {
    n as f64
}

/// Unix seconds as milliseconds; `None` for what is no time on a clock (non-finite, or beyond three thousand years).
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the range is checked first"
)]
pub fn millis(seconds: f64) -> Option<i64> {
    (seconds.is_finite() && seconds.abs() <= 1e11).then(|| (seconds * 1000.0).round() as i64)
}

/// A non-negative float rounded up (`ceil`) as a count; 0 for what is not a number.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and NaN becomes 0"
)]
pub fn ceil(x: f64) -> usize {
    x.ceil().max(0.0) as usize
}

/// A non-negative float rounded down as a count; 0 for what is not a number.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and NaN becomes 0"
)]
pub fn floor(x: f64) -> usize {
    x.floor().max(0.0) as usize
}

/// A distance of block numbers as a count; 0 for a negative one.
pub fn span(from: i64, to: i64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// A count as a signed number.
pub fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The plain mean; 0 for nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / real(values.len())
    }
}

/// Sorted ascending by total order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut out = values.to_vec();
    out.sort_by(f64::total_cmp);
    out
}

/// The median (mean of the two middle values for an even count); `None` for nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mut all = values.to_vec();
    let (below, upper, _) = all.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return Some(*upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(f64::midpoint(lower, *upper))
}

/// Sample variance (divisor n - 1); `None` below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let s = sorted(values);
    let m = mean(&s);
    Some(s.iter().map(|v| (v - m).powi(2)).sum::<f64>() / real(s.len() - 1))
}

/// ln of a sum of exponentials; minus infinity for nothing.
pub fn log_sum_exp(terms: &[f64]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_finite() {
        top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
    } else {
        top
    }
}
