//! The difference of two sides' means with its noise: Welch's t and the paired t.
//!
//! In the unit of the values: what the network layer costs is a difference in ms. Ratios are the
//! same on logs (`log_ratio`).

use super::error::{StatsError, at_least, finite, same_length};
use super::mean;
use super::student::{t_above, t_within};

/// Spread below this share of the values is what rounding leaves, not noise that was measured.
pub(super) const ROUNDING: f64 = 1e-12;

/// A difference of means, candidate − base, and what is known of its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Candidate − base, in the values' unit.
    pub mean: f64,
    /// Its standard error.
    pub se: f64,
    /// Degrees of freedom of Student's t.
    pub df: f64,
}

impl Difference {
    /// Two independent sides of at least two values each, whose variances may differ: Welch, "The
    /// generalization of 'Student's' problem when several different population variances are
    /// involved", Biometrika 34 (1947); degrees of freedom by Satterthwaite (1946).
    pub fn welch(base: &[f64], candidate: &[f64]) -> Result<Self, StatsError> {
        Self::welch_of(base, candidate, scale(base, candidate))
    }

    /// The i-th of one side with the i-th of the other, at least two of them: Student's t of the
    /// differences (Student, "The probable error of a mean", Biometrika 6, 1908).
    pub fn paired(base: &[f64], candidate: &[f64]) -> Result<Self, StatsError> {
        Self::paired_of(base, candidate, scale(base, candidate))
    }

    /// [`Self::welch`], with what the rounding of the values is measured by.
    pub(super) fn welch_of(
        base: &[f64],
        candidate: &[f64],
        scale: f64,
    ) -> Result<Self, StatsError> {
        let (b, c) = (Moments::of(base)?, Moments::of(candidate)?);
        let (b_share, c_share) = (b.variance / b.n, c.variance / c.n);
        let se = (b_share + c_share).sqrt();
        // Shares of 1, so that tiny variances do not underflow when squared.
        let (p, q) = (b_share / (b_share + c_share), c_share / (b_share + c_share));
        let df = 1.0 / (p * p / (b.n - 1.0) + q * q / (c.n - 1.0));
        Self::checked(c.mean - b.mean, se, df, scale)
    }

    /// [`Self::paired`], with what the rounding of the values is measured by.
    pub(super) fn paired_of(
        base: &[f64],
        candidate: &[f64],
        scale: f64,
    ) -> Result<Self, StatsError> {
        same_length(base, candidate)?;
        let differences: Vec<f64> = base.iter().zip(candidate).map(|(b, c)| c - b).collect();
        let d = Moments::of(&differences)?;
        Self::checked(d.mean, (d.variance / d.n).sqrt(), d.n - 1.0, scale)
    }

    fn checked(mean: f64, se: f64, df: f64, scale: f64) -> Result<Self, StatsError> {
        if se <= ROUNDING * scale {
            return Err(StatsError::NoSpread);
        }
        if !(mean.is_finite() && se.is_finite() && df.is_finite()) {
            return Err(StatsError::NotFinite);
        }
        Ok(Self { mean, se, df })
    }

    /// Interval that covers the true difference with probability `confidence`.
    pub fn interval(&self, confidence: f64) -> Result<(f64, f64), StatsError> {
        let half = t_within(confidence, self.df)? * self.se;
        Ok((self.mean - half, self.mean + half))
    }

    /// Two-sided p of "no difference".
    pub fn p(&self) -> Result<f64, StatsError> {
        let tail = t_above(self.mean.abs() / self.se, self.df)?;
        Ok((2.0 * tail).min(1.0))
    }

    /// p of "differs by `margin` or more": two one-sided tests, the larger p (Schuirmann, "A
    /// comparison of the two one-sided tests procedure and the power approach for assessing the
    /// equivalence of average bioavailability", 1987). `margin` is in the values' unit.
    pub fn equivalence_p(&self, margin: f64) -> Result<f64, StatsError> {
        let above_low = t_above((self.mean + margin) / self.se, self.df)?;
        let below_high = t_above((margin - self.mean) / self.se, self.df)?;
        Ok(above_low.max(below_high))
    }
}

/// Largest value without its sign.
fn scale(base: &[f64], candidate: &[f64]) -> f64 {
    base.iter()
        .chain(candidate)
        .fold(0.0, |largest: f64, value| largest.max(value.abs()))
}

/// Count, mean, and the variance with n − 1.
struct Moments {
    n: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    /// Of at least two finite values.
    fn of(values: &[f64]) -> Result<Self, StatsError> {
        at_least(2, values)?;
        finite(values)?;
        let n = values.len() as f64;
        let mean = mean(values).ok_or(StatsError::NotFinite)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Ok(Self {
            n,
            mean,
            variance: squares / (n - 1.0),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_constant_difference_by_pairs_is_no_evidence() {
        let base = [1.0, 2.0, 3.0];
        let candidate = [1.5, 2.5, 3.5];
        let paired = Difference::paired(&base, &candidate);
        assert_eq!(paired, Err(StatsError::NoSpread));
        let welch = Difference::welch(&base, &candidate).unwrap();
        assert_eq!((welch.mean, welch.df), (0.5, 4.0));
    }

    #[test]
    fn what_rounding_leaves_is_no_spread() {
        let base = [100.1, 200.2, 300.3];
        let candidate: Vec<f64> = base.iter().map(|b| b + 0.1).collect();
        let paired = Difference::paired(&base, &candidate);
        assert_eq!(paired, Err(StatsError::NoSpread));
    }

    #[test]
    fn wrong_numbers_are_named() {
        let fine = [1.0, 2.0, 3.0];
        let of = |base: &[f64], candidate: &[f64]| {
            let (welch, paired) = (
                Difference::welch(base, candidate),
                Difference::paired(base, candidate),
            );
            (welch.unwrap_err(), paired.unwrap_err())
        };
        let few = StatsError::TooFew { needs: 2, has: 1 };
        assert_eq!(of(&[1.0], &[2.0]), (few, few));
        let pairs = Difference::paired(&fine, &[1.0, 2.0]);
        let (base, candidate) = (3, 2);
        assert_eq!(pairs, Err(StatsError::UnequalPairs { base, candidate }));
        let nan = [1.0, f64::NAN, 3.0];
        assert_eq!(
            of(&fine, &nan),
            (StatsError::NotFinite, StatsError::NotFinite)
        );
        let huge = [1e308, -1e308, 1e308];
        assert_eq!(of(&huge, &[-1e308, 1e308, 0.0]).0, StatsError::NotFinite);
        let same = [5.0, 5.0, 5.0];
        assert_eq!(
            of(&same, &same),
            (StatsError::NoSpread, StatsError::NoSpread)
        );
    }

    #[test]
    fn p_of_equivalence_agrees_with_its_interval() {
        let base = [10.0, 10.4, 9.8, 10.1];
        let candidate = [10.2, 10.5, 9.9, 10.4];
        let difference = Difference::welch(&base, &candidate).unwrap();
        let (low, high) = difference.interval(0.9).unwrap();
        let margin = low.abs().max(high.abs());
        let p = difference.equivalence_p(margin).unwrap();
        assert!((p - 0.05).abs() < 1e-6, "{p}");
    }
}
