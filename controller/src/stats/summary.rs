//! One metric of a run's requests: how many have it, their mean, the percentiles.

use serde::Serialize;

use super::gaps::GapCounts;
use super::mean;
use super::quantile::{PERCENTILES, Percentile, percentile_of, smallest_n, sorted};

/// A metric of the requests that have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Requests that have it; of a pooled metric, events.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Each percentile, or how many requests it needs.
    pub p50: Percentile,
    /// See `p50`.
    pub p90: Percentile,
    /// See `p50`.
    pub p95: Percentile,
    /// See `p50`.
    pub p99: Percentile,
    /// See `p50`.
    #[serde(rename = "p99.9")]
    pub p99_9: Percentile,
}

impl Summary {
    /// Of a value a request; none of nothing or with a NaN.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values)?;
        let mean = mean(values)?;
        Some(Self::by(values.len() as u64, mean, |q| {
            percentile_of(&sorted, q)
        }))
    }

    /// In ms, of all gaps between events; none where there is no gap. Gaps of one answer are not
    /// independent of each other, so there are no intervals.
    pub fn of_gaps(gaps: &GapCounts) -> Option<Self> {
        let has = gaps.count();
        Some(Self::by(has, gaps.mean_ms()?, |q| {
            let needs = smallest_n(q);
            match gaps.quantile_ms(q) {
                Some(value) if has >= needs => Percentile::Pooled { value },
                _ => Percentile::TooFew { needs, has },
            }
        }))
    }

    /// In the order of [`PERCENTILES`].
    pub fn percentiles(&self) -> [Percentile; 5] {
        [self.p50, self.p90, self.p95, self.p99, self.p99_9]
    }

    fn by(n: u64, mean: f64, percentile: impl Fn(f64) -> Percentile) -> Self {
        let [p50, p90, p95, p99, p99_9] = PERCENTILES.map(|(_, q)| percentile(q));
        Self {
            n,
            mean,
            p50,
            p90,
            p95,
            p99,
            p99_9,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn percentiles_that_few_requests_cannot_have_say_so() {
        let values: Vec<f64> = (1..=40).map(f64::from).collect();
        let summary = Summary::of(&values).unwrap();
        assert_eq!((summary.n, summary.mean), (40, 20.5));
        let shown = summary.percentiles().map(|p| p.value());
        assert_eq!(shown, [Some(20.5), Some(36.1), None, None, None]);
        let (needs, has) = (72, 40);
        assert_eq!(summary.p95, Percentile::TooFew { needs, has });
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN]), None);
    }

    #[test]
    fn gaps_count_as_gaps_and_have_no_interval() {
        let mut gaps = GapCounts::default();
        assert_eq!(Summary::of_gaps(&gaps), None);
        let events: Vec<u64> = (0..=40).map(|i| i * 10_000).collect();
        gaps.push(&events);
        let summary = Summary::of_gaps(&gaps).unwrap();
        assert_eq!((summary.n, summary.mean), (40, 10.0));
        assert_eq!(summary.p90, Percentile::Pooled { value: 10.0 });
        assert_eq!(summary.p95.value(), None);
    }
}
