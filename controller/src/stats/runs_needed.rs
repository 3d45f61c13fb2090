//! How many runs a side would show a difference as large as the margin, at the noise that was seen.

use super::error::StatsError;
use super::log_ratio::LogRatio;
use super::student::z_quantile;

/// Probability of finding a difference as large as the margin.
const POWER: f64 = 0.8;

/// Fewer runs than this a side have no verdict.
pub const MIN_RUNS: u32 = 3;

/// Runs a side: 2·((z₁₋α⸝₂ + z₀.₈)·s/δ)² + 2, rounded up, with δ = ln(1 + margin). At α = 5 % the
/// z add up to 2.8. The 2 stands for Student's t in the normal's place (Guenther, "Sample size
/// formulas for normal theory t tests", The American Statistician 35, 1981: z²/4 for two sides, z²/2
/// for pairs, which is 1 and 1.9). `log_sd` is the standard deviation of the logs of equal runs.
pub fn runs_needed(log_sd: f64, margin: f64, alpha: f64) -> Result<u32, StatsError> {
    let delta = margin.ln_1p();
    if !(log_sd.is_finite() && delta.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    if log_sd < 0.0 || delta <= 0.0 {
        return Err(StatsError::NotPositive);
    }
    let z = z_quantile(1.0 - alpha / 2.0)? + z_quantile(POWER)?;
    let runs = (2.0 * (z * log_sd / delta).powi(2) + 2.0).ceil();
    if runs > f64::from(u32::MAX) {
        return Err(StatsError::TooMany);
    }
    Ok((runs as u32).max(MIN_RUNS))
}

/// Standard deviation of the logs of one side's runs, from the standard error of a ratio. By pairs it
/// is what is left of it when drift has fallen out.
pub fn log_sd(ratio: &LogRatio, base_runs: usize, candidate_runs: usize) -> f64 {
    let runs = 1.0 / base_runs as f64 + 1.0 / candidate_runs as f64;
    ratio.log.se / runs.sqrt()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_formula() {
        // 2·(2.8016·0.02/0.04879)² + 2 = 4.6; 2·(2.8016·0.02/0.0198)² + 2 = 18.02.
        assert_eq!(runs_needed(0.02, 0.05, 0.05), Ok(5));
        assert_eq!(runs_needed(0.02, 0.02, 0.05), Ok(19));
        assert_eq!(runs_needed(0.0001, 0.05, 0.05), Ok(3));
        assert!(runs_needed(0.02, 0.02, 0.05 / 3.0).unwrap() > 19);
        assert!(runs_needed(0.02, 0.0, 0.05).is_err());
        assert!(runs_needed(f64::NAN, 0.05, 0.05).is_err());
        assert_eq!(runs_needed(1.0, 1e-12, 0.05), Err(StatsError::TooMany));
    }

    #[test]
    fn noise_is_read_back_from_a_ratio() {
        let base = [90.0, 110.0];
        let welch = LogRatio::welch(&base, &base).unwrap();
        let logs = [90.0_f64.ln(), 110.0_f64.ln()];
        let sd = (logs[1] - logs[0]).abs() / 2.0_f64.sqrt();
        assert!((log_sd(&welch, 2, 2) - sd).abs() < 1e-12);
    }
}
