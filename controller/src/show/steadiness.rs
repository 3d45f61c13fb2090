//! How steady one run was, a line each: hints to look, none of which decides anything.

use crate::show::words;
use crate::stats::steadiness::Steadiness;

/// Lines under the wall time's percentiles.
pub fn rows(steadiness: &Steadiness) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    if let Some(lag1) = steadiness.lag1 {
        let more = if steadiness.is_correlated() {
            format!(
                ", beyond ±{:.2}: requests resemble their neighbours",
                steadiness.lag1_limit
            )
        } else {
            String::new()
        };
        row("lag-1", format!("autocorrelation {lag1:.2}{more}"));
    }
    if let Some(drift) = steadiness.drift {
        let shift = drift.shift * 100.0;
        row(
            "drift",
            format!(
                "second half {shift:+.1} % against the first (medians); trend {:+.2}, {}",
                drift.trend,
                words::p_value(drift.trend_p)
            ),
        );
    }
    if let Some(outliers) = steadiness.outliers {
        let far = outliers.low_count + outliers.high_count;
        row(
            "outliers",
            format!(
                "{far} of {} outside {:.2}ms … {:.2}ms (Tukey; none is removed)",
                words::count(steadiness.count as u64, "request"),
                outliers.low_fence,
                outliers.high_fence
            ),
        );
    }
    if let Some(batches) = steadiness.batch_means {
        row(
            "mean",
            format!(
                "{:.2}ms (95 % interval {:.2}ms … {:.2}ms by ten batches, which vary by {})",
                batches.mean,
                batches.interval.0,
                batches.interval.1,
                words::percent(batches.variation)
            ),
        );
    }
    rows
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn lines(values: &[f64]) -> String {
        let steadiness = Steadiness::of(values).unwrap();
        let lines = rows(&steadiness).into_iter();
        lines
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect()
    }

    #[test]
    fn a_drifting_run_and_a_short_one() {
        let mut values: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i) / 10.0).collect();
        values[30] = 200.0;
        let told = lines(&values) + "\n" + &lines(&values[..4]);
        insta::assert_snapshot!("steadiness", told);
    }
}
