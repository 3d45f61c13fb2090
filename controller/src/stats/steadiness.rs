//! How steady one run was: what its requests, in order, say of each other. It describes a run and
//! decides nothing.

use serde::Serialize;

use super::autocorrelation::lag1;
use super::batch_means::{BatchMeans, batch_means};
use super::drift::{Drift, drift};
use super::error::StatsError;
use super::outliers::{Outliers, outliers};

/// Confidence of the interval of the mean.
const CONFIDENCE: f64 = 0.95;

/// What the values of a run's requests say of each other; each part is none where there are too few
/// or they do not vary.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steadiness {
    /// Requests.
    pub count: usize,
    /// Autocorrelation at lag 1.
    pub lag1: Option<f64>,
    /// Independent requests stay within ± this 19 times of 20: 2/√n.
    pub lag1_limit: f64,
    /// Whether later ones take longer.
    pub drift: Option<Drift>,
    /// Values beyond Tukey's fences.
    pub outliers: Option<Outliers>,
    /// The mean with an interval that neighbours do not make too narrow.
    pub batch_means: Option<BatchMeans>,
}

impl Steadiness {
    /// Of values in the order they came; none of fewer than three.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn of(values: &[f64]) -> Result<Self, StatsError> {
        super::error::at_least(3, values)?;
        super::error::finite(values)?;
        Ok(Self {
            count: values.len(),
            lag1: lag1(values).ok(),
            lag1_limit: 2.0 / (values.len() as f64).sqrt(),
            drift: drift(values).ok(),
            outliers: outliers(values).ok(),
            batch_means: batch_means(values, CONFIDENCE).ok(),
        })
    }

    /// Whether neighbours resemble each other more than independent ones would.
    pub fn is_correlated(&self) -> bool {
        self.lag1.is_some_and(|lag1| lag1.abs() > self.lag1_limit)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn parts_are_there_as_soon_as_there_are_enough() {
        let values: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i)).collect();
        for (n, parts) in [(3, 1), (4, 2), (10, 3), (50, 4)] {
            let steadiness = Steadiness::of(&values[..n]).unwrap();
            let there = [
                steadiness.lag1.is_some(),
                steadiness.outliers.is_some(),
                steadiness.drift.is_some(),
                steadiness.batch_means.is_some(),
            ];
            assert_eq!(there.iter().filter(|is| **is).count(), parts, "{n}");
        }
        assert!(Steadiness::of(&values).unwrap().is_correlated());
        assert!(Steadiness::of(&values[..2]).is_err());
        assert!(Steadiness::of(&[1.0, f64::NAN, 2.0]).is_err());
        let constant = Steadiness::of(&[5.0; 60]).unwrap();
        assert!(constant.lag1.is_none() && !constant.is_correlated());
    }
}
