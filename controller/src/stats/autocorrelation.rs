//! Whether a request's time says something of the next one's: then n requests are fewer than n.

use super::difference::ROUNDING;
use super::error::{StatsError, at_least, finite};
use super::mean;

/// Autocorrelation at lag 1, Σ(xₜ − m)(xₜ₊₁ − m) / Σ(xₜ − m)², of at least three values in the order
/// they came: Box, Jenkins and Reinsel, "Time Series Analysis", section 2.1. Between independent
/// requests it is within ±2/√n 19 times of 20.
pub fn lag1(values: &[f64]) -> Result<f64, StatsError> {
    at_least(3, values)?;
    finite(values)?;
    let mean = mean(values).ok_or(StatsError::NotFinite)?;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let neighbours: f64 = values
        .iter()
        .zip(values.iter().skip(1))
        .map(|(now, next)| (now - mean) * (next - mean))
        .sum();
    let count = values.len() as f64;
    if square.sqrt() <= ROUNDING * mean.abs() * count.sqrt() {
        return Err(StatsError::NoSpread);
    }
    let lag1 = neighbours / square;
    finite(&[lag1])?;
    Ok(lag1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn steps_are_positive_and_zigzags_negative() {
        assert!(lag1(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]).unwrap() > 0.4);
        assert!(lag1(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]).unwrap() < -0.8);
        assert_eq!(lag1(&[3.0; 5]), Err(StatsError::NoSpread));
        let rounded = [107.6; 10];
        assert_eq!(lag1(&rounded), Err(StatsError::NoSpread));
        assert_eq!(
            lag1(&[1.0, 2.0]),
            Err(StatsError::TooFew { needs: 3, has: 2 })
        );
        assert_eq!(lag1(&[1.0, f64::NAN, 2.0]), Err(StatsError::NotFinite));
    }
}
