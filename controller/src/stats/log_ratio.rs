//! The ratio candidate / base of two sides, by Student's t on the natural logs of the run values.
//!
//! On logs a swap of the sides inverts the ratio and a change of unit changes nothing.

use super::difference::Difference;
use super::error::{StatsError, finite};

/// A ratio of geometric means, and what is known of its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRatio {
    /// Mean, standard error and degrees of freedom of the log of the ratio.
    pub log: Difference,
}

impl LogRatio {
    /// Of independent runs, at least two a side: Welch's t (see [`Difference::welch`]) on logs.
    pub fn welch(base: &[f64], candidate: &[f64]) -> Result<Self, StatsError> {
        let (base, candidate) = (logs(base)?, logs(candidate)?);
        let log = Difference::welch_of(&base, &candidate, scale(&base, &candidate))?;
        Ok(Self { log })
    }

    /// Of runs that share a block, at least two of them: the paired t (see [`Difference::paired`])
    /// of the log ratios, so that drift over the session falls out.
    pub fn paired(base: &[f64], candidate: &[f64]) -> Result<Self, StatsError> {
        let (base, candidate) = (logs(base)?, logs(candidate)?);
        let log = Difference::paired_of(&base, &candidate, scale(&base, &candidate))?;
        Ok(Self { log })
    }

    /// Of one run a side, where `run_count` equal runs had logs with the standard deviation
    /// `log_sd`: the log of a ratio of two such runs varies by `log_sd` · √2.
    pub fn by_floor(
        base: f64,
        candidate: f64,
        log_sd: f64,
        run_count: u32,
    ) -> Result<Self, StatsError> {
        let mean = ratio(&[base], &[candidate])?.ln();
        if run_count < 2 {
            let has = run_count as usize;
            return Err(StatsError::TooFew { needs: 2, has });
        }
        if !log_sd.is_finite() {
            return Err(StatsError::NotFinite);
        }
        if log_sd <= 0.0 {
            return Err(StatsError::NoSpread);
        }
        let (se, df) = (
            log_sd * std::f64::consts::SQRT_2,
            f64::from(run_count) - 1.0,
        );
        let log = Difference { mean, se, df };
        Ok(Self { log })
    }

    /// Candidate / base, of geometric means.
    pub fn ratio(&self) -> f64 {
        self.log.mean.exp()
    }

    /// Interval that covers the true ratio with probability `confidence`.
    pub fn interval(&self, confidence: f64) -> Result<(f64, f64), StatsError> {
        let (low, high) = self.log.interval(confidence)?;
        let interval = (low.exp(), high.exp());
        representable(&[interval.0, interval.1])?;
        Ok(interval)
    }

    /// Two-sided p of "the ratio is 1".
    pub fn p(&self) -> Result<f64, StatsError> {
        self.log.p()
    }

    /// p of "the ratio is outside of 1/(1+margin) to 1+margin": two one-sided tests on logs (see
    /// [`Difference::equivalence_p`]).
    pub fn equivalence_p(&self, margin: f64) -> Result<f64, StatsError> {
        self.log.equivalence_p(margin.ln_1p())
    }
}

/// Ratio of the geometric means, candidate / base, of at least one run a side; nothing is said of
/// its noise.
pub fn ratio(base: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    let of = |values: &[f64]| {
        let logs = logs(values)?;
        super::mean(&logs).ok_or(StatsError::TooFew { needs: 1, has: 0 })
    };
    let ratio = (of(candidate)? - of(base)?).exp();
    representable(&[ratio])?;
    Ok(ratio)
}

/// Neither too large nor too small for a number: a ratio of 0 would be one that nobody measured.
fn representable(ratios: &[f64]) -> Result<(), StatsError> {
    finite(ratios)?;
    match ratios.iter().all(|ratio| *ratio > 0.0) {
        true => Ok(()),
        false => Err(StatsError::NotFinite),
    }
}

/// Natural logs of values above zero.
pub(super) fn logs(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    finite(values)?;
    if values.iter().any(|value| *value <= 0.0) {
        return Err(StatsError::NotPositive);
    }
    Ok(values.iter().map(|value| value.ln()).collect())
}

/// What logs are rounded by: at least one, since a value's own rounding is a share of it.
fn scale(base: &[f64], candidate: &[f64]) -> f64 {
    base.iter()
        .chain(candidate)
        .fold(1.0, |largest: f64, log| largest.max(log.abs()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_constant_ratio_by_pairs_is_no_evidence() {
        let base = [0.1, 0.7, 123.4, 9.9];
        let candidate: Vec<f64> = base.iter().map(|b| b * 1.1).collect();
        let paired = LogRatio::paired(&base, &candidate);
        assert_eq!(paired, Err(StatsError::NoSpread));
    }

    #[test]
    fn values_without_a_log_are_named() {
        let fine = [1.0, 2.0, 3.0];
        for (bad, expected) in [
            (0.0, StatsError::NotPositive),
            (-1.0, StatsError::NotPositive),
            (f64::NAN, StatsError::NotFinite),
            (f64::INFINITY, StatsError::NotFinite),
        ] {
            let values = [1.0, bad, 3.0];
            assert_eq!(LogRatio::welch(&fine, &values), Err(expected));
            assert_eq!(LogRatio::paired(&values, &fine), Err(expected));
            assert_eq!(ratio(&fine, &values), Err(expected));
        }
        assert!(ratio(&[], &fine).is_err());
        assert_eq!(ratio(&[1e-300], &[1e300]), Err(StatsError::NotFinite));
        assert_eq!(ratio(&[1e300], &[1e-300]), Err(StatsError::NotFinite));
    }

    #[test]
    fn a_floor_gives_one_pair_of_runs_its_noise() {
        let ratio = LogRatio::by_floor(100.0, 110.0, 0.01, 5).unwrap();
        assert!((ratio.ratio() - 1.1).abs() < 1e-12);
        let (low, high) = ratio.interval(0.95).unwrap();
        let half = 2.776_445_105_197_793 * 0.01 * 2.0_f64.sqrt();
        assert!((low - 1.1 * (-half).exp()).abs() < 1e-9);
        assert!((high - 1.1 * half.exp()).abs() < 1e-9);
        let of = |log_sd, runs| LogRatio::by_floor(100.0, 110.0, log_sd, runs).unwrap_err();
        assert_eq!(of(0.0, 5), StatsError::NoSpread);
        assert_eq!(of(f64::NAN, 5), StatsError::NotFinite);
        assert_eq!(of(0.01, 1), StatsError::TooFew { needs: 2, has: 1 });
    }
}
