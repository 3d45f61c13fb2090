//! What one run comes to: the averages of its measured requests.
//!
//! One request at a time, throughput is the reciprocal of the mean wall time, as in the book.
//! Otherwise it is completed work over the measuring window ([`super::window`]). Percentiles are
//! [`super::quantile`]'s, all else of an online run [`super::online`]'s.

use contracts::sample::Sample;
use contracts::stats::BenchStats;

use super::mean;
use super::window::{Ends, Shape};

/// The requests that enter figures, in order: measured, successful, with a wall time.
pub fn measured(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| enters(sample))
}

/// Whether a request enters figures.
pub fn enters(sample: &Sample) -> bool {
    !sample.warmup && sample.error.is_none() && sample.wall_ms.is_some()
}

/// Averages of a run's measured, successful requests; none if there is no such request. See
/// [`BenchAccumulator`].
pub fn bench_stats(samples: &[Sample], shape: Shape) -> Option<BenchStats> {
    let mut stats = BenchAccumulator::new(shape);
    for sample in samples {
        stats.add(sample);
    }
    stats.finish()
}

/// [`BenchStats`] of samples that stream by, in any order; it keeps some numbers of each request.
#[derive(Debug, Clone)]
pub struct BenchAccumulator {
    shape: Shape,
    ends: Ends,
    requests: Vec<Averaged>,
}

/// What of a request enters an average.
#[derive(Debug, Clone, Copy)]
pub struct Averaged {
    /// Its place.
    pub index: u32,
    /// When it was over.
    pub done_ns: Option<u64>,
    /// From its first write on.
    pub wall_ms: f64,
    /// None where nobody counted.
    pub output_tokens: Option<u32>,
    /// 0.0, as none, says "not measured".
    pub ttft_ms: Option<f64>,
    /// Likewise.
    pub tpot_ms: Option<f64>,
}

impl BenchAccumulator {
    /// Of a run of this shape.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            ends: Ends::default(),
            requests: Vec::new(),
        }
    }

    /// With all that [`BenchAccumulator::add`] would have taken.
    pub fn of(shape: Shape, ends: Ends, requests: Vec<Averaged>) -> Self {
        Self {
            shape,
            ends,
            requests,
        }
    }

    /// Takes one request. Warm-up and failed ones enter no average; a failed one still belongs to
    /// the window.
    pub fn add(&mut self, sample: &Sample) {
        self.ends.add(sample);
        if let (true, Some(wall_ms)) = (enters(sample), sample.wall_ms) {
            self.requests.push(Averaged {
                index: sample.index,
                done_ns: sample.done_ns,
                wall_ms,
                output_tokens: sample.output_tokens,
                ttft_ms: sample.ttft_ms,
                tpot_ms: sample.tpot_ms,
            });
        }
    }

    /// The averages; none if no measured request succeeded.
    ///
    /// One at a time: `wall_ms` = mean wall time, `req_per_s` = 1000 / `wall_ms`, `tok_per_s` =
    /// mean tokens / (`wall_ms` / 1000). Otherwise both are what was completed in the window over
    /// its length; the means are over all requests, those that a duration drained included, or the
    /// slow ones would be left out. TTFT and TPOT are means over the requests that have them, else
    /// 0.0, which says "not measured". A request whose tokens nobody counted is left out of the
    /// mean of tokens.
    pub fn finish(mut self) -> Option<BenchStats> {
        self.requests.sort_by_key(|request| request.index);
        let wall_times: Vec<f64> = self.requests.iter().map(|r| r.wall_ms).collect();
        let wall_ms = mean(&wall_times)?;
        let output_tokens = self
            .mean_of(|r| r.output_tokens.map(f64::from))
            .unwrap_or(0.0);
        let (req_per_s, tok_per_s) = if self.shape.one_at_a_time {
            (1000.0 / wall_ms, output_tokens / (wall_ms / 1000.0))
        } else {
            self.completed_per_s()
        };
        Some(BenchStats {
            req_per_s,
            tok_per_s,
            wall_ms,
            output_tokens,
            n_runs: u32::try_from(wall_times.len()).unwrap_or(u32::MAX),
            ttft_ms: self.mean_of(|r| measured_time(r.ttft_ms)).unwrap_or(0.0),
            tpot_ms: self.mean_of(|r| measured_time(r.tpot_ms)).unwrap_or(0.0),
            wall_times,
        })
    }

    /// Requests and output tokens a second, of what ended in the window; 0 without one.
    fn completed_per_s(&self) -> (f64, f64) {
        let Some(window) = self.ends.window(&self.shape) else {
            return (0.0, 0.0);
        };
        let (mut requests, mut tokens) = (0u64, 0u64);
        for request in &self.requests {
            if request.done_ns.is_some_and(|done| window.holds(done)) {
                requests += 1;
                tokens += u64::from(request.output_tokens.unwrap_or(0));
            }
        }
        let seconds = window.seconds();
        (requests as f64 / seconds, tokens as f64 / seconds)
    }

    fn mean_of(&self, column: impl Fn(&Averaged) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.requests.iter().filter_map(column).collect();
        mean(&values)
    }
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
    use contracts::run::{Load, Mode, RunState};
    use contracts::sample::ErrorClass;

    use super::*;
    use crate::fixtures;

    fn one_at_a_time() -> Shape {
        Shape::of(&fixtures::run("01", "ch01", Mode::Online).status)
    }

    fn shape(load: Load, duration_ms: Option<u64>) -> Shape {
        let mut status = fixtures::run("01", "ch01", Mode::Online).status;
        status.spec.workload.load = load;
        status.spec.workload.duration_ms = duration_ms;
        Shape::of(&status)
    }

    #[test]
    fn under_concurrency_throughput_is_work_over_the_window() {
        let shape = shape(Load::Closed { concurrency: 2 }, None);
        let mut warmup = fixtures::sent(0, 0, 100);
        warmup.warmup = true;
        let mut failed = fixtures::failed_sample(3, ErrorClass::Truncated);
        failed.sent_ns = Some(1_000_000_000);
        failed.done_ns = Some(2_100_000_000);
        let samples = [
            warmup,
            fixtures::sent(1, 120, 1100),
            fixtures::sent(0, 100, 1100),
            fixtures::sent(2, 1100, 2000),
            failed,
        ];
        let stats = bench_stats(&samples, shape).unwrap();
        assert_eq!((stats.req_per_s, stats.tok_per_s), (1.5, 15.0));
        assert_eq!(stats.wall_times, [1000.0, 980.0, 900.0], "in their order");
        assert_eq!(stats.wall_ms, 960.0);
        assert_eq!(stats.n_runs, 3);
    }

    #[test]
    fn under_a_duration_what_ended_in_it_counts() {
        let samples = [
            fixtures::sent(0, 0, 900),
            fixtures::sent(1, 10, 990),
            fixtures::sent(2, 900, 1800),
        ];
        let closed = Load::Closed { concurrency: 2 };
        let stats = bench_stats(&samples, shape(closed, Some(1000))).unwrap();
        assert_eq!((stats.req_per_s, stats.tok_per_s), (2.0, 20.0));
        assert_eq!(stats.n_runs, 3, "the drained one is in the means");

        let open = Load::Burst {
            max_in_flight: None,
        };
        let stats = bench_stats(&samples, shape(open.clone(), Some(3000))).unwrap();
        assert_eq!(stats.req_per_s, 1.0, "an open loop may be idle at its end");
        let mut full = shape(open, Some(3000));
        full.n_runs = 3;
        let stats = bench_stats(&samples, full).unwrap();
        assert_eq!(
            stats.req_per_s,
            3.0 / 1.8,
            "all was sent before the time was over"
        );
    }

    #[test]
    fn a_run_that_ended_early_has_no_duration() {
        let mut status = fixtures::run("01", "ch01", Mode::Online).status;
        status.spec.workload.load = Load::Burst {
            max_in_flight: None,
        };
        status.spec.workload.duration_ms = Some(60_000);
        status.state = RunState::Cancelled;
        let stats = bench_stats(&[fixtures::sent(0, 0, 2000)], Shape::of(&status)).unwrap();
        assert_eq!(stats.req_per_s, 0.5);
    }

    #[test]
    fn formulas_are_the_books() {
        let mut samples = vec![
            fixtures::sample(0, 1000.0, 40),
            fixtures::sample(1, 1500.0, 35),
        ];
        samples[0].ttft_ms = Some(50.0);
        samples[0].tpot_ms = Some(25.0);
        samples[1].ttft_ms = Some(0.0);
        let stats = bench_stats(&samples, one_at_a_time()).unwrap();
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
            fixtures::failed_sample(1, ErrorClass::HttpStatus),
        ];
        samples[0].warmup = true;
        samples[2].wall_ms = Some(5.0);
        samples[2].output_tokens = Some(0);
        let stats = bench_stats(&samples, one_at_a_time()).unwrap();
        assert_eq!(stats.wall_times, [100.0]);
        assert_eq!(stats.output_tokens, 10.0);
        assert_eq!((stats.ttft_ms, stats.tpot_ms), (0.0, 0.0));
    }

    #[test]
    fn nothing_measured_is_none() {
        assert_eq!(bench_stats(&[], one_at_a_time()), None);
        let failed = fixtures::failed_sample(0, ErrorClass::Connect);
        assert_eq!(bench_stats(&[failed], one_at_a_time()), None);
    }
}
