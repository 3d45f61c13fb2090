//! Hodges-Lehmann ratio of two samples of requests: how one pair of runs differs, and no more.
//!
//! Hodges and Lehmann, "Estimates of location based on rank tests" (1963), on natural logs; the
//! interval inverts the Mann-Whitney test as R's `wilcox.test` does. With ties it covers no less
//! (Noether, "Wilcoxon confidence intervals for location parameters in the discrete case", 1967).

use super::error::{StatsError, at_least};
use super::log_ratio::logs;
use super::mann_whitney::{MAX_EXACT, u_cdf};
use super::quantile::{quantile, sorted};
use super::student::z_quantile;

/// Pairs of requests that are looked at: 2000 against 2000 take 32 MB for a moment.
pub const MAX_PAIRS: usize = 4_000_000;

/// A ratio within one pair of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HodgesLehmann {
    /// Median of candidate / base over all pairs of requests.
    pub ratio: f64,
    /// Where the ratio would lie if requests were independent, which they are not.
    pub interval: (f64, f64),
    /// By the exact distribution of U; else by its normal approximation.
    pub exact: bool,
}

/// Of at least one request a side, all above zero. The interval is exact up to [`MAX_EXACT`]
/// requests a side and a normal approximation above (Hollander and Wolfe, "Nonparametric
/// Statistical Methods", section 4.3); with more than [`MAX_PAIRS`] pairs: [`StatsError::TooMany`].
/// With few requests it is the range of all pairs, the widest there is.
pub fn hodges_lehmann(
    base: &[f64],
    candidate: &[f64],
    confidence: f64,
) -> Result<HodgesLehmann, StatsError> {
    at_least(1, base)?;
    at_least(1, candidate)?;
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(StatsError::NotAProbability(confidence));
    }
    let (n, m) = (base.len(), candidate.len());
    let pairs = n.checked_mul(m).filter(|pairs| *pairs <= MAX_PAIRS);
    let pairs = pairs.ok_or(StatsError::TooMany)?;
    let (base, candidate) = (logs(base)?, logs(candidate)?);
    let all: Vec<f64> = base
        .iter()
        .flat_map(|b| candidate.iter().map(move |c| c - b))
        .collect();
    let ordered = sorted(&all).ok_or(StatsError::NotFinite)?;
    let exact = n.max(m) <= MAX_EXACT;
    let k = if exact {
        exact_rank(n, m, confidence)?
    } else {
        normal_rank(n, m, confidence)?
    };
    // The k-th smallest and the k-th largest, counted from 1.
    let k = k.clamp(1, pairs);
    let low = ordered.get(k - 1).ok_or(StatsError::NotFinite)?;
    let high = ordered.get(pairs - k).ok_or(StatsError::NotFinite)?;
    let middle = quantile(&ordered, 0.5).ok_or(StatsError::NotFinite)?;
    Ok(HodgesLehmann {
        ratio: middle.exp(),
        interval: (low.min(*high).exp(), high.max(*low).exp()),
        exact,
    })
}

/// Smallest u with P(U ≤ u) of at least half of what the interval leaves out: R's `qwilcox`.
fn exact_rank(n: usize, m: usize, confidence: f64) -> Result<usize, StatsError> {
    let tail = (1.0 - confidence) / 2.0;
    Ok(u_cdf(n, m)?.partition_point(|p| *p < tail))
}

/// n·m/2 − z·√(n·m·(n + m + 1)/12), rounded down, which widens the interval.
fn normal_rank(n: usize, m: usize, confidence: f64) -> Result<usize, StatsError> {
    let (n, m) = (n as f64, m as f64);
    let z = z_quantile(0.5 + confidence / 2.0)?;
    let rank = n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt();
    Ok(rank.max(0.0) as usize)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn exact_and_approximate_ranks_meet_where_they_change_over() {
        for n in [40, MAX_EXACT] {
            let exact = exact_rank(n, n, 0.95).unwrap();
            let normal = normal_rank(n, n, 0.95).unwrap();
            assert!(exact.abs_diff(normal) <= 2, "{n}: {exact} and {normal}");
        }
    }

    #[test]
    fn a_shift_of_all_requests_is_the_ratio() {
        let base: Vec<f64> = (1..=60).map(f64::from).collect();
        let candidate: Vec<f64> = base.iter().map(|b| b * 1.25).collect();
        for n in [1, 2, 5, 20, 60] {
            let got = hodges_lehmann(&base[..n], &candidate[..n], 0.95).unwrap();
            assert!((got.ratio - 1.25).abs() < 1e-12, "{n}: {got:?}");
            assert!(got.interval.0 <= 1.25 && got.interval.1 >= 1.25 - 1e-12);
            assert_eq!(got.exact, n <= MAX_EXACT);
        }
    }

    #[test]
    fn wrong_numbers_are_named() {
        let of =
            |base: &[f64], candidate: &[f64]| hodges_lehmann(base, candidate, 0.95).unwrap_err();
        assert_eq!(of(&[], &[1.0]), StatsError::TooFew { needs: 1, has: 0 });
        assert_eq!(of(&[1.0], &[0.0]), StatsError::NotPositive);
        assert_eq!(of(&[f64::NAN], &[1.0]), StatsError::NotFinite);
        let many = vec![1.0; 2001];
        assert_eq!(of(&many, &many), StatsError::TooMany);
        let bad = hodges_lehmann(&[1.0], &[1.0], 1.0);
        assert_eq!(bad, Err(StatsError::NotAProbability(1.0)));
    }
}
