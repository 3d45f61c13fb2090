//! What one run comes to: the averages of its measured requests.
//!
//! One request at a time, so throughput is the reciprocal of the mean wall time. Percentiles are
//! [`super::quantile`]'s.

use contracts::{sample::Sample, stats::BenchStats};

use super::mean;

/// The requests that enter figures, in order: measured, successful, with a wall time.
pub fn measured(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples
        .iter()
        .filter(|sample| !sample.warmup && sample.error.is_none() && sample.wall_ms.is_some())
}

/// Averages of a run's measured, successful requests; none if there is no such request.
///
/// `wall_ms` = mean wall time, `req_per_s` = 1000 / `wall_ms`, `tok_per_s` = mean tokens /
/// (`wall_ms` / 1000). TTFT and TPOT are means over the requests that have them, else 0.0, which
/// says "not measured". A request whose tokens nobody counted is left out of the mean of tokens.
pub fn bench_stats(samples: &[Sample]) -> Option<BenchStats> {
    let wall_times: Vec<f64> = measured(samples).filter_map(|s| s.wall_ms).collect();
    let wall_ms = mean(&wall_times)?;
    let tokens = mean_of(samples, |s| s.output_tokens.map(f64::from)).unwrap_or(0.0);
    Some(BenchStats {
        req_per_s: 1000.0 / wall_ms,
        tok_per_s: tokens / (wall_ms / 1000.0),
        wall_ms,
        output_tokens: tokens,
        n_runs: u32::try_from(wall_times.len()).unwrap_or(u32::MAX),
        ttft_ms: mean_of(samples, |s| measured_time(s.ttft_ms)).unwrap_or(0.0),
        tpot_ms: mean_of(samples, |s| measured_time(s.tpot_ms)).unwrap_or(0.0),
        wall_times,
    })
}

/// Mean of one column over the measured requests that have it.
pub fn mean_of(samples: &[Sample], column: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = measured(samples).filter_map(column).collect();
    mean(&values)
}

/// 0.0 says "not measured" wherever an engine's metrics come from.
fn measured_time(ms: Option<f64>) -> Option<f64> {
    ms.filter(|ms| *ms != 0.0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn formulas_are_the_books() {
        let mut samples = vec![
            fixtures::sample(0, 1000.0, 40),
            fixtures::sample(1, 1500.0, 35),
        ];
        samples[0].ttft_ms = Some(50.0);
        samples[0].tpot_ms = Some(25.0);
        samples[1].ttft_ms = Some(0.0);
        let stats = bench_stats(&samples).unwrap();
        assert_eq!(stats.wall_ms, 1250.0);
        assert_eq!(stats.req_per_s, 0.8);
        assert_eq!(stats.output_tokens, 37.5);
        assert_eq!(stats.tok_per_s, 30.0);
        assert_eq!(stats.n_runs, 2);
        assert_eq!(stats.ttft_ms, 50.0, "only the request that has one");
        assert_eq!(stats.tpot_ms, 25.0);
        assert_eq!(stats.wall_times, [1000.0, 1500.0]);
    }

    #[test]
    fn warmup_and_failures_never_enter() {
        let mut samples = vec![
            fixtures::sample(0, 9000.0, 40),
            fixtures::sample(0, 100.0, 10),
            fixtures::failed_sample(1, contracts::sample::ErrorClass::HttpStatus),
        ];
        samples[0].warmup = true;
        samples[2].wall_ms = Some(5.0);
        samples[2].output_tokens = Some(0);
        let stats = bench_stats(&samples).unwrap();
        assert_eq!(stats.wall_times, [100.0]);
        assert_eq!(stats.output_tokens, 10.0);
        assert_eq!((stats.ttft_ms, stats.tpot_ms), (0.0, 0.0));
    }

    #[test]
    fn nothing_measured_is_none() {
        assert_eq!(bench_stats(&[]), None);
        let failed = fixtures::failed_sample(0, contracts::sample::ErrorClass::Connect);
        assert_eq!(bench_stats(&[failed]), None);
    }
}
