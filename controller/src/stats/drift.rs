//! Drift within a run: whether later requests take longer than earlier ones.

use super::error::{StatsError, finite};
use super::quantile::{quantile, sorted};
use super::student::z_above;

/// How a run's values move while it lasts. Neighbours that resemble each other make `trend_p` too
/// small, so it is a hint to look and decides nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Median of the second half / median of the first − 1.
    pub shift: f64,
    /// Kendall's tau with the order: −1 always falling, +1 always rising.
    pub trend: f64,
    /// Two-sided p of "no trend".
    pub trend_p: f64,
}

/// Values a run needs: below, the normal approximation of the trend's p is poor.
pub const MIN_VALUES: usize = 10;

/// Of at least [`MIN_VALUES`] values above zero, in the order they came. The middle one of an odd
/// number is in neither half. The trend test is Mann's, "Nonparametric tests against trend" (1945),
/// with the variance for ties of Kendall, "Rank Correlation Methods" (1975), chapter 4.
pub fn drift(values: &[f64]) -> Result<Drift, StatsError> {
    super::error::at_least(MIN_VALUES, values)?;
    finite(values)?;
    if values.iter().any(|value| *value <= 0.0) {
        return Err(StatsError::NotPositive);
    }
    let half = values.len() / 2;
    let median = |half: &[f64]| quantile(half, 0.5).ok_or(StatsError::NotFinite);
    let first = median(values.get(..half).unwrap_or_default())?;
    let second = median(values.get(values.len() - half..).unwrap_or_default())?;
    let (trend, trend_p) = mann_kendall(values)?;
    let shift = second / first - 1.0;
    finite(&[shift])?;
    Ok(Drift {
        shift,
        trend,
        trend_p,
    })
}

/// Tau-a and p.
fn mann_kendall(values: &[f64]) -> Result<(f64, f64), StatsError> {
    let n = values.len() as f64;
    let pairs = n * (n - 1.0) / 2.0;
    let mut variance = n * (n - 1.0) * (2.0 * n + 5.0);
    let mut tied_pairs = 0.0;
    let ordered = sorted(values).ok_or(StatsError::NotFinite)?;
    for group in ordered.chunk_by(|a, b| a == b) {
        let t = group.len() as f64;
        variance -= t * (t - 1.0) * (2.0 * t + 5.0);
        tied_pairs += t * (t - 1.0) / 2.0;
    }
    if variance <= 0.0 {
        return Err(StatsError::NoSpread);
    }
    let falling = inversions(&mut values.to_vec()) as f64;
    let s = pairs - tied_pairs - 2.0 * falling;
    // One less towards zero: S is whole, the normal distribution is not.
    let z = (s.abs() - 1.0).max(0.0) / (variance / 18.0).sqrt();
    Ok((s / pairs, (2.0 * z_above(z)).min(1.0)))
}

/// Pairs of which the later is smaller, counted while sorting by merging.
fn inversions(values: &mut [f64]) -> u64 {
    let (left, right) = values.split_at_mut(values.len() / 2);
    if left.is_empty() {
        return 0;
    }
    let mut count = inversions(left) + inversions(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut lefts, mut rights) = (&*left, &*right);
    while let (Some((l, more_left)), Some((r, more_right))) =
        (lefts.split_first(), rights.split_first())
    {
        if r < l {
            count += lefts.len() as u64;
            merged.push(*r);
            rights = more_right;
        } else {
            merged.push(*l);
            lefts = more_left;
        }
    }
    merged.extend_from_slice(lefts);
    merged.extend_from_slice(rights);
    values.copy_from_slice(&merged);
    count
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_rising_run_is_seen_and_a_steady_one_is_not() {
        let rising: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
        let drift_of = drift(&rising).unwrap();
        assert_eq!(drift_of.trend, 1.0);
        assert!(drift_of.trend_p < 1e-6);
        assert!((drift_of.shift - (114.5 / 104.5 - 1.0)).abs() < 1e-12);

        let steady: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 2)).collect();
        let drift_of = drift(&steady).unwrap();
        assert_eq!(drift_of.shift, 0.0);
        assert!(
            drift_of.trend.abs() < 0.1 && drift_of.trend_p > 0.5,
            "{drift_of:?}"
        );
    }

    #[test]
    fn inversions_are_those_of_all_pairs() {
        let values = [3.0, 1.0, 2.0, 2.0, 5.0, 0.0, 4.0];
        let pairs = |i: usize| {
            values[i..]
                .iter()
                .filter(|later| **later < values[i])
                .count()
        };
        let expected = (0..values.len()).map(pairs).sum::<usize>() as u64;
        assert_eq!(inversions(&mut values.to_vec()), expected);
    }

    #[test]
    fn wrong_numbers_are_named() {
        assert_eq!(drift(&[1.0; 20]), Err(StatsError::NoSpread));
        assert_eq!(
            drift(&[1.0; 3]),
            Err(StatsError::TooFew { needs: 10, has: 3 })
        );
        let mut values = vec![1.0; 12];
        values[3] = 0.0;
        assert_eq!(drift(&values), Err(StatsError::NotPositive));
        values[3] = f64::NAN;
        assert_eq!(drift(&values), Err(StatsError::NotFinite));
    }
}
