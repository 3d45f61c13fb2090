//! Values far from the rest: counted and shown, never removed.

use super::error::{StatsError, at_least, finite};
use super::quantile::quantile;

/// Interquartile ranges beyond the quartiles.
const REACH: f64 = 1.5;

/// Tukey's fences and what lies outside of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outliers {
    /// First quartile − 1.5 interquartile ranges.
    pub low_fence: f64,
    /// Third quartile + 1.5 interquartile ranges.
    pub high_fence: f64,
    /// Values below the low fence.
    pub low_count: usize,
    /// Values above the high fence.
    pub high_count: usize,
}

/// Of at least four values: Tukey, "Exploratory Data Analysis" (1977), chapter 2, with quartiles by
/// Hyndman-Fan 7. About 0.7 % of normal values are outside.
pub fn outliers(values: &[f64]) -> Result<Outliers, StatsError> {
    at_least(4, values)?;
    finite(values)?;
    let at = |q| quantile(values, q).ok_or(StatsError::NotFinite);
    let (first, third) = (at(0.25)?, at(0.75)?);
    let reach = REACH * (third - first);
    let (low_fence, high_fence) = (first - reach, third + reach);
    Ok(Outliers {
        low_fence,
        high_fence,
        low_count: values.iter().filter(|value| **value < low_fence).count(),
        high_count: values.iter().filter(|value| **value > high_fence).count(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn fences_are_tukeys_and_what_is_on_them_is_inside() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 8.5, -3.0, -1.0];
        let found = outliers(&values).unwrap();
        assert_eq!((found.low_fence, found.high_fence), (-5.0, 11.0));
        assert_eq!((found.low_count, found.high_count), (0, 0));
        let values = [1.0, 2.0, 3.0, 4.0, 100.0];
        let found = outliers(&values).unwrap();
        assert_eq!((found.low_count, found.high_count), (0, 1));
        assert_eq!(outliers(&[5.0; 6]).unwrap().high_count, 0);
        assert!(outliers(&[1.0; 3]).is_err());
        assert_eq!(
            outliers(&[1.0, 2.0, 3.0, f64::NAN]),
            Err(StatsError::NotFinite)
        );
    }
}
