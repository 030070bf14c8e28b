//! Arms and their difference (§3.7, §5): values of pods in, the mean of an arm and D out. Must never look at which pod
//! a value came from.

use super::constants as k;
use super::num;

/// How many values are cut off each side of `n`.
pub fn cut(n: usize) -> usize {
    if n >= k::TRIM_FROM {
        num::ceil(k::TRIM * num::real(n))
    } else {
        0
    }
}

/// The mean of an arm: 20 % trimmed from five values on; `None` for no value.
pub fn arm_mean(values: &[f64]) -> Option<f64> {
    let s = num::sorted(values);
    let c = cut(s.len());
    let kept = s.get(c..s.len().checked_sub(c)?)?;
    (!kept.is_empty()).then(|| num::mean(kept))
}

/// The plain mean of the control regions' arm values; `None` when one is missing.
pub fn control_mean(arms: &[Option<f64>]) -> Option<f64> {
    let values: Option<Vec<f64>> = arms.iter().copied().collect();
    values.filter(|v| !v.is_empty()).map(|v| num::mean(&v))
}
