//! The mean of one long run with an interval: neighbours are put into batches, which are nearly
//! independent where single values are not.

use super::error::{StatsError, finite};
use super::mean;
use super::student::t_within;

/// Batches of a run. Ten of them cover 94 % where each value by itself covers 49 % (300 values that
/// resemble their neighbour by 0.8); with thirty it is 88 %.
pub const BATCHES: usize = 10;

/// Values a batch needs at least.
pub const MIN_PER_BATCH: usize = 5;

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchMeans {
    /// Of the values in the batches.
    pub mean: f64,
    /// From the spread of the batches' means.
    pub interval: (f64, f64),
    /// Standard deviation of the batches' means / mean: how steady the run is.
    pub variation: f64,
}

/// Of at least [`BATCHES`] · [`MIN_PER_BATCH`] values in the order they came: Schmeiser, "Batch size
/// effects in the analysis of simulation output", Operations Research 30 (1982), who finds ten to
/// thirty batches enough. What does not fill a batch is left out at the start, where a run is least
/// steady.
pub fn batch_means(values: &[f64], confidence: f64) -> Result<BatchMeans, StatsError> {
    super::error::at_least(BATCHES * MIN_PER_BATCH, values)?;
    finite(values)?;
    let size = values.len() / BATCHES;
    let kept = values
        .get(values.len() - size * BATCHES..)
        .unwrap_or_default();
    let means: Vec<f64> = kept.chunks(size).filter_map(mean).collect();
    let count = means.len() as f64;
    let mean = mean(&means).ok_or(StatsError::NotFinite)?;
    let squares: f64 = means.iter().map(|batch| (batch - mean).powi(2)).sum();
    let sd = (squares / (count - 1.0)).sqrt();
    let half = t_within(confidence, count - 1.0)? * sd / count.sqrt();
    finite(&[mean, half])?;
    if sd == 0.0 || mean == 0.0 {
        return Err(StatsError::NoSpread);
    }
    Ok(BatchMeans {
        mean,
        interval: (mean - half, mean + half),
        variation: sd / mean.abs(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_fill_its_batches_loses_its_start() {
        let mut values = vec![1000.0; 3];
        values.extend((0..50).map(|i| f64::from(i / 5)));
        let got = batch_means(&values, 0.95).unwrap();
        assert_eq!(got.mean, 4.5);
        let sd = (55.0_f64 / 6.0).sqrt();
        let half = 2.262_157_162_740_99 * sd / 10.0_f64.sqrt();
        assert!((got.interval.1 - 4.5 - half).abs() < 1e-6);
        assert!((got.variation - sd / 4.5).abs() < 1e-12);
    }

    #[test]
    fn wrong_numbers_are_named() {
        assert_eq!(batch_means(&[1.0; 60], 0.95), Err(StatsError::NoSpread));
        let few = batch_means(&[1.0; 49], 0.95);
        assert_eq!(few, Err(StatsError::TooFew { needs: 50, has: 49 }));
        assert_eq!(
            batch_means(&[f64::NAN; 60], 0.95),
            Err(StatsError::NotFinite)
        );
        let values: Vec<f64> = (0..60).map(f64::from).collect();
        assert!(batch_means(&values, 1.0).is_err());
    }
}
