//! Percentiles, and how many requests each needs before it may be shown.
//!
//! Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996): linear
//! between order statistics, as numpy and R have by default. The interval is distribution-free:
//! two order statistics whose ranks come from the binomial distribution (David and Nagaraja,
//! "Order Statistics", 2003, section 7.1), with at most 2.5 % in each tail.

use serde::Serialize;

/// Probability left in each tail of the 95 % interval.
const TAIL: f64 = 0.025;

/// The percentiles that are shown, with their names.
pub const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// A percentile of one run, or why it is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Percentile {
    /// Enough requests for a 95 % interval.
    Known {
        /// Hyndman-Fan 7.
        value: f64,
        /// Lower end of the 95 % interval.
        low: f64,
        /// Upper end of the 95 % interval.
        high: f64,
    },
    /// Of events pooled over requests: they are not independent, so it has no interval.
    Pooled {
        /// Hyndman-Fan 7.
        value: f64,
    },
    /// Too few requests for an interval.
    TooFew {
        /// Smallest number for which one exists.
        needs: u64,
        /// What there is.
        has: u64,
    },
}

impl Percentile {
    /// Its value, if it may be shown.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Known { value, .. } | Self::Pooled { value } => Some(*value),
            Self::TooFew { .. } => None,
        }
    }
}

/// The `q` quantile of `values` with its interval, if `values` are enough to have one.
pub fn percentile(values: &[f64], q: f64) -> Percentile {
    percentile_of(&sorted(values).unwrap_or_default(), q)
}

/// [`percentile`] of values that are [`sorted`] already.
pub fn percentile_of(sorted: &[f64], q: f64) -> Percentile {
    match (quantile_of(sorted, q), interval_of(sorted, q)) {
        (Some(value), Some((low, high))) => Percentile::Known { value, low, high },
        _ => Percentile::TooFew {
            needs: smallest_n(q),
            has: sorted.len() as u64,
        },
    }
}

/// Quantile by definition 7: with `h = (n − 1) q`, linear between order statistics ⌊h⌋ and ⌊h⌋ + 1
/// counted from 0. None for no values, a NaN among them, or `q` outside 0 to 1.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantile_of(&sorted(values)?, q)
}

fn quantile_of(sorted: &[f64], q: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let h = sorted.len().checked_sub(1)? as f64 * q;
    let below = *sorted.get(h.floor() as usize)?;
    let above = *sorted.get(h.ceil() as usize)?;
    Some(below + (h - h.floor()) * (above - below))
}

/// [`quantile`] at each of `qs`, which ascend: only as much is sorted as they need.
pub fn quantiles<const N: usize>(mut values: Vec<f64>, qs: [f64; N]) -> [Option<f64>; N] {
    if values.iter().any(|v| v.is_nan()) {
        return [None; N];
    }
    let Some(last) = values.len().checked_sub(1) else {
        return [None; N];
    };
    // What stands before it is not larger than what stands from it on.
    let mut from = 0;
    qs.map(|q| {
        let h = Some(last as f64 * q).filter(|_| (0.0..=1.0).contains(&q))?;
        let below = ranked(&mut values, from, h.floor() as usize)?;
        from = h.floor() as usize;
        let above = ranked(&mut values, from, h.ceil() as usize)?;
        Some(below + (h - h.floor()) * (above - below))
    })
}

/// The value of this rank, where the first `from` values have lower ones.
fn ranked(values: &mut [f64], from: usize, rank: usize) -> Option<f64> {
    let rest = values.get_mut(from..)?;
    let at = rank.checked_sub(from).filter(|at| *at < rest.len())?;
    let (_, value, _) = rest.select_nth_unstable_by(at, f64::total_cmp);
    Some(*value)
}

/// Smallest n for which a 95 % interval of the `q` quantile exists with equal tails: both
/// `qⁿ` (all values below it) and `(1 − q)ⁿ` (all above) are at most 2.5 %.
pub fn smallest_n(q: f64) -> u64 {
    let rarer = q.max(1.0 - q);
    (TAIL.ln() / rarer.ln()).ceil().max(1.0) as u64
}

/// 95 % interval of the `q` quantile: the largest order statistic that is above the quantile with
/// probability at most 2.5 %, and the smallest that is below it with at most 2.5 %.
pub fn interval(values: &[f64], q: f64) -> Option<(f64, f64)> {
    interval_of(&sorted(values)?, q)
}

fn interval_of(sorted: &[f64], q: f64) -> Option<(f64, f64)> {
    let n = sorted.len();
    // How many values lie below the true quantile is binomial (n, q). The k-th order statistic is
    // above it when fewer than k are below.
    let cdf = binomial_cdf(n, q);
    let low = cdf.iter().take_while(|p| **p <= TAIL).count();
    let high = cdf.iter().position(|p| 1.0 - *p <= TAIL)? + 1;
    let low = low.checked_sub(1)?;
    Some((*sorted.get(low)?, *sorted.get(high - 1)?))
}

/// P(B ≤ k) for k = 0 … n, B binomial (n, q), by the recurrence of its terms in logs.
fn binomial_cdf(n: usize, q: f64) -> Vec<f64> {
    let step = (q / (1.0 - q)).ln();
    let mut log_term = n as f64 * (1.0 - q).ln();
    let mut total = 0.0;
    let mut cdf = Vec::with_capacity(n + 1);
    for k in 0..=n {
        total += log_term.exp();
        cdf.push(total);
        log_term += ((n - k) as f64 / (k + 1) as f64).ln() + step;
    }
    cdf
}

/// Ascending; none of nothing or with a NaN.
pub fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    // Values that it takes for equal are the same bits.
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn smallest_numbers_are_the_known_ones() {
        let needs = PERCENTILES.map(|(_, q)| smallest_n(q));
        assert_eq!(needs, [6, 36, 72, 368, 3688]);
    }

    proptest! {
        #[test]
        fn several_at_once_are_those_of_each(
            values in prop::collection::vec(prop_oneof![-3.0..3.0, Just(0.0), Just(1.5)], 0..200),
        ) {
            let qs = [0.0, 0.25, 0.5, 0.5, 0.9, 0.95, 0.999, 1.0];
            prop_assert_eq!(quantiles(values.clone(), qs), qs.map(|q| quantile(&values, q)));
        }
    }

    #[test]
    fn several_of_what_is_no_number_are_none() {
        assert_eq!(quantiles(vec![1.0, f64::NAN], [0.5]), [None]);
        assert_eq!(quantiles(vec![1.0, 2.0], [0.5, 1.5]), [Some(1.5), None]);
    }

    #[test]
    fn an_interval_exists_from_the_smallest_n_on_and_not_before() {
        for (name, q) in PERCENTILES {
            let n = smallest_n(q) as usize;
            let values: Vec<f64> = (0..n).map(|i| i as f64).collect();
            assert!(interval(&values, q).is_some(), "{name} with {n}");
            assert!(interval(&values[1..], q).is_none(), "{name} with {}", n - 1);
        }
    }

    #[test]
    fn too_few_say_what_they_need() {
        let values = vec![1.0; 100];
        assert_eq!(
            percentile(&values, 0.99),
            Percentile::TooFew {
                needs: 368,
                has: 100
            }
        );
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[1.0, f64::NAN], 0.5), None);
        assert_eq!(quantile(&[1.0, 2.0], 1.5), None);
    }
}
