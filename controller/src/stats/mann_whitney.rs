//! Exact Mann-Whitney test of two samples of requests, and the counts behind it.
//!
//! Mann and Whitney, "On a test of whether one of two random variables is stochastically larger
//! than the other" (1947): their recurrence for the number of orders with a given U. Requests of
//! one run are not independent, so this describes one pair of runs and decides nothing.

use super::error::{StatsError, at_least, finite};
use super::permutation::share_of_splits;
use super::quantile::sorted;

/// Values a side up to which U is exact: the counts take 50·50·2500 additions.
pub const MAX_EXACT: usize = 50;

/// Two-sided p. Without ties from the counts, twice the smaller tail; with ties from all splits of
/// the mid-ranks, those at least as far from the middle, and [`StatsError::Ties`] where the splits
/// are too many to enumerate. Above [`MAX_EXACT`] values a side: [`StatsError::TooMany`].
pub fn mann_whitney_p(base: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    at_least(1, base)?;
    at_least(1, candidate)?;
    finite(base)?;
    finite(candidate)?;
    let all = [base, candidate].concat();
    let ordered = sorted(&all).ok_or(StatsError::NotFinite)?;
    if ordered.windows(2).any(|pair| pair.first() == pair.last()) {
        let ranks: Vec<f64> = all.iter().map(|value| mid_rank(&ordered, *value)).collect();
        let seen = ranks.iter().take(base.len()).sum();
        let share = base.len() as f64 / all.len() as f64;
        let distance = |sum: f64, total: f64| (sum - total * share).abs();
        return share_of_splits(&ranks, base.len(), seen, distance).map_err(|_| StatsError::Ties);
    }
    let wins = base
        .iter()
        .map(|b| candidate.iter().filter(|c| *c < b).count())
        .sum::<usize>();
    let smaller = wins.min(base.len() * candidate.len() - wins);
    let cdf = u_cdf(base.len(), candidate.len())?;
    let tail = cdf.get(smaller).copied().unwrap_or(1.0);
    Ok((2.0 * tail).min(1.0))
}

/// P(U ≤ u) for u = 0 … n·m when nothing differs and there are no ties.
pub(super) fn u_cdf(n: usize, m: usize) -> Result<Vec<f64>, StatsError> {
    if n.max(m) > MAX_EXACT {
        return Err(StatsError::TooMany);
    }
    // `rows[j]`: counts by u of the orders of i values of one side among j of the other. The last
    // in order is of the one side, above all j of the other, or of the other.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for (j, fewer) in rows.iter().enumerate().skip(1) {
            let mut counts = vec![0.0; i * j + 1];
            for (count, add) in counts.iter_mut().skip(j).zip(fewer) {
                *count += add;
            }
            if let Some(shorter) = next.last() {
                for (count, add) in counts.iter_mut().zip(shorter) {
                    *count += add;
                }
            }
            next.push(counts);
        }
        rows = next;
    }
    let counts = rows.pop().unwrap_or_default();
    let total: f64 = counts.iter().sum();
    let mut below = 0.0;
    Ok(counts
        .iter()
        .map(|count| {
            below += count;
            below / total
        })
        .collect())
}

/// Rank from 1; equal values share the mean of their ranks.
fn mid_rank(ordered: &[f64], value: f64) -> f64 {
    let below = ordered.partition_point(|other| *other < value);
    let up_to = ordered.partition_point(|other| *other <= value);
    (below + 1 + up_to) as f64 / 2.0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn separated_sides_have_the_smallest_p_there_is() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        let p = mann_whitney_p(&low, &high).unwrap();
        assert!((p - 2.0 / 252.0).abs() < 1e-15);
        let p = mann_whitney_p(&high[..4], &low[..4]).unwrap();
        assert!((p - 2.0 / 70.0).abs() < 1e-15);
    }

    #[test]
    fn counts_are_those_of_all_orders() {
        // Of 2 against 2 there are six orders: U is 0, 1, 2, 2, 3, 4.
        let cdf = u_cdf(2, 2).unwrap();
        let expected = [1.0, 2.0, 4.0, 5.0, 6.0].map(|count| count / 6.0);
        assert_eq!(cdf, expected);
        assert_eq!(u_cdf(3, 7).unwrap(), u_cdf(7, 3).unwrap());
        assert_eq!(u_cdf(MAX_EXACT + 1, 2), Err(StatsError::TooMany));
    }

    #[test]
    fn ties_are_worked_through_or_named_and_never_significant() {
        assert_eq!(mann_whitney_p(&[5.0; 6], &[5.0; 6]), Ok(1.0));
        // 1, 2, 2 against 2, 3, 4: of the 20 splits 6 are as far from the middle.
        let p = mann_whitney_p(&[1.0, 2.0, 2.0], &[2.0, 3.0, 4.0]).unwrap();
        assert!((p - 0.3).abs() < 1e-15, "{p}");
        assert_eq!(
            mann_whitney_p(&[5.0; 20], &[5.0; 20]),
            Err(StatsError::Ties)
        );
        let nan = mann_whitney_p(&[f64::NAN], &[1.0]);
        assert_eq!(nan, Err(StatsError::NotFinite));
        assert!(mann_whitney_p(&[], &[1.0]).is_err());
    }
}
