//! Exact permutation tests of a difference: all splits of two sides, all sign flips of pairs.
//!
//! Fisher, "The Design of Experiments" (1935), section 21; Pitman, "Significance tests which may
//! be applied to samples from any populations" (1937). Every arrangement is looked at, so p has no
//! noise of its own; where there are more than [`MAX_ARRANGEMENTS`] the answer is
//! [`StatsError::TooMany`] and not an approximation.

use super::error::{StatsError, at_least, same_length};
use super::log_ratio::logs;

/// Arrangements that are enumerated: those of 12 against 12 runs, of 23 pairs. Four million sums take
/// some ten milliseconds; who has more runs does not need this p.
pub const MAX_ARRANGEMENTS: u64 = 1 << 22;

/// Two differences this close are the same one, summed in another order.
const SLACK: f64 = 1e-12;

/// Two-sided p of the difference of the means of the logs: the share of all splits of the runs into
/// sides of these sizes whose difference is at least as large as the one seen.
pub fn splits(base: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    at_least(1, base)?;
    at_least(1, candidate)?;
    let all = [logs(base)?, logs(candidate)?].concat();
    let seen = all.iter().take(base.len()).sum();
    share_of_splits(&all, base.len(), seen, |sum, total| {
        let (n, m) = (base.len() as f64, candidate.len() as f64);
        (sum / n - (total - sum) / m).abs()
    })
}

/// Two-sided p of the mean of the log ratios: the share of all ways to swap the sides within pairs
/// whose mean is at least as large as the one seen.
pub fn sign_flips(base: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    same_length(base, candidate)?;
    at_least(1, base)?;
    let (base, candidate) = (logs(base)?, logs(candidate)?);
    let ratios: Vec<f64> = base.iter().zip(&candidate).map(|(b, c)| c - b).collect();
    let (first, rest) = ratios
        .split_first()
        .ok_or(StatsError::TooFew { needs: 1, has: 0 })?;
    // The first sign stays: the other half of the flips are the mirror of this one.
    let arrangements = u32::try_from(rest.len())
        .ok()
        .and_then(|flips| 2_u64.checked_pow(flips))
        .filter(|count| *count <= MAX_ARRANGEMENTS)
        .ok_or(StatsError::TooMany)?;
    let n = ratios.len() as f64;
    let seen = ratios.iter().sum::<f64>().abs() / n;
    let hits = count_flips(rest, *first, &|sum| sum.abs() / n >= seen - SLACK);
    Ok(hits as f64 / arrangements as f64)
}

/// Share of the ways to choose `chosen` of `values` for which `distance(sum, total)` is at least
/// what it is for the sum that was `seen`.
pub(super) fn share_of_splits(
    values: &[f64],
    chosen: usize,
    seen: f64,
    distance: impl Fn(f64, f64) -> f64,
) -> Result<f64, StatsError> {
    let arrangements = ways(values.len(), chosen)
        .filter(|ways| *ways <= MAX_ARRANGEMENTS)
        .ok_or(StatsError::TooMany)?;
    let total = values.iter().sum();
    let seen = distance(seen, total);
    let hits = count_splits(values, chosen, 0.0, &|sum| {
        distance(sum, total) >= seen - SLACK
    });
    Ok(hits as f64 / arrangements as f64)
}

/// n over k; none where it does not fit.
fn ways(n: usize, k: usize) -> Option<u64> {
    let k = k.min(n.checked_sub(k)?);
    (0..k as u64).try_fold(1_u64, |ways, i| {
        Some(ways.checked_mul(n as u64 - i)? / (i + 1))
    })
}

/// Sums along the way down and not by differences, so that rounding does not pile up.
fn count_splits(values: &[f64], chosen: usize, sum: f64, is_hit: &impl Fn(f64) -> bool) -> u64 {
    if chosen == 0 {
        return u64::from(is_hit(sum));
    }
    let Some((first, rest)) = values.split_first() else {
        return 0;
    };
    let mut hits = count_splits(rest, chosen - 1, sum + first, is_hit);
    if rest.len() >= chosen {
        hits += count_splits(rest, chosen, sum, is_hit);
    }
    hits
}

fn count_flips(values: &[f64], sum: f64, is_hit: &impl Fn(f64) -> bool) -> u64 {
    match values.split_first() {
        None => u64::from(is_hit(sum)),
        Some((first, rest)) => {
            count_flips(rest, sum + first, is_hit) + count_flips(rest, sum - first, is_hit)
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn separated_sides_have_the_smallest_p_there_is() {
        let (low, high) = ([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]);
        for (n, expected) in [(3, 0.1), (4, 2.0 / 70.0), (5, 2.0 / 252.0)] {
            let p = splits(&low[..n], &high[..n]).unwrap();
            assert!((p - expected).abs() < 1e-15, "{n}: {p}");
            let p = sign_flips(&low[..n], &high[..n]).unwrap();
            assert!((p - 2.0 / 2.0_f64.powi(n as i32)).abs() < 1e-15, "{n}: {p}");
        }
    }

    #[test]
    fn equal_values_have_a_p_of_one() {
        let same = [5.0; 5];
        assert_eq!(splits(&same, &same), Ok(1.0));
        assert_eq!(sign_flips(&same, &same), Ok(1.0));
        assert_eq!(splits(&[1.0], &[2.0]), Ok(1.0));
        assert_eq!(sign_flips(&[1.0], &[2.0]), Ok(1.0));
    }

    #[test]
    fn more_than_can_be_enumerated_is_an_error() {
        let values = |n: usize| (1..=n).map(|i| i as f64).collect::<Vec<_>>();
        assert_eq!(ways(24, 12), Some(2_704_156));
        assert_eq!(splits(&values(13), &values(13)), Err(StatsError::TooMany));
        assert_eq!(
            splits(&values(2000), &values(2000)),
            Err(StatsError::TooMany)
        );
        assert_eq!(
            sign_flips(&values(24), &values(24)),
            Err(StatsError::TooMany)
        );
        assert_eq!(
            sign_flips(&values(2000), &values(2000)),
            Err(StatsError::TooMany)
        );
        let unequal = sign_flips(&values(3), &values(2));
        assert!(matches!(unequal, Err(StatsError::UnequalPairs { .. })));
        assert!(splits(&[], &[1.0]).is_err());
    }
}
