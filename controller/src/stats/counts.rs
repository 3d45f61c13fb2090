//! What a run's requests came to, counted: outcomes, failures by class, sources, lengths.

use contracts::generate::FinishReason;
use contracts::sample::{ErrorClass, Sample, TimingSource, TokenSource};
use serde::Serialize;

use super::bench::measured;
use super::window::was_sent;

/// How often something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count<T> {
    /// What came.
    pub what: T,
    /// How often.
    pub count: u64,
}

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FailureKind {
    /// Its class.
    pub class: ErrorClass,
    /// The answer's status, where the class is about that.
    pub status: Option<u16>,
}

/// The requests of a run, counted. What is not said to be otherwise is of the measured ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Warm-up requests, failed ones included.
    pub warmup: u64,
    /// Of those, the ones that failed.
    pub warmup_failed: u64,
    /// Measured requests that were sent.
    pub sent: u64,
    /// Those that enter figures.
    pub succeeded: u64,
    /// Failures by class, the most frequent first.
    pub failures: Vec<Count<FailureKind>>,
    /// Of the successful ones: why they ended.
    pub finish_reasons: Vec<Count<FinishReason>>,
    /// Of the successful ones: who counted their tokens.
    pub token_sources: Vec<Count<TokenSource>>,
    /// Of the successful ones: on whose clock TTFT and TPOT are.
    pub timing_sources: Vec<Count<TimingSource>>,
    /// Sent again on a new connection, since a kept one had been closed.
    pub reconnected: u64,
    /// Over by their own word, but without the end of their HTTP body.
    pub unterminated: u64,
}

impl Counts {
    /// Of all samples of a run.
    pub fn of(samples: &[Sample]) -> Self {
        let count =
            |wanted: &dyn Fn(&Sample) -> bool| samples.iter().filter(|s| wanted(s)).count() as u64;
        Self {
            warmup: count(&|s| s.warmup),
            warmup_failed: count(&|s| s.warmup && s.error.is_some()),
            sent: count(&was_sent),
            succeeded: measured(samples).count() as u64,
            failures: failures(samples),
            finish_reasons: tally(measured(samples).filter_map(|s| s.finish_reason)),
            token_sources: tally(measured(samples).filter_map(|s| s.token_source)),
            timing_sources: tally(measured(samples).filter_map(|s| s.timing_source)),
            reconnected: count(&|s| !s.warmup && s.reconnected),
            unterminated: count(&|s| !s.warmup && s.unterminated),
        }
    }

    /// Measured requests that failed.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failure| failure.count).sum()
    }
}

/// Failures of the measured requests by class and status, the most frequent first.
pub fn failures(samples: &[Sample]) -> Vec<Count<FailureKind>> {
    let kind = |sample: &Sample| {
        let class = sample.error.as_ref()?.class;
        let by_status = matches!(
            class,
            ErrorClass::HttpStatus | ErrorClass::Unauthorized | ErrorClass::Redirect
        );
        let status = sample.status.filter(|_| by_status);
        Some(FailureKind { class, status })
    };
    tally(samples.iter().filter(|s| !s.warmup).filter_map(kind))
}

/// How often each value came, the most frequent first, else in the order in which they came.
fn tally<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<Count<T>> {
    let mut counts: Vec<Count<T>> = Vec::new();
    for what in values {
        match counts.iter_mut().find(|count| count.what == what) {
            Some(count) => count.count += 1,
            None => counts.push(Count { what, count: 1 }),
        }
    }
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    counts
}

/// A number of tokens over the requests that have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lengths {
    /// Requests that have it.
    pub n: u64,
    /// The shortest.
    pub min: u32,
    /// Arithmetic mean.
    pub mean: f64,
    /// The longest.
    pub max: u32,
}

impl Lengths {
    /// None of nothing.
    pub fn of(tokens: impl Iterator<Item = u32>) -> Option<Self> {
        let (mut n, mut sum, mut min, mut max) = (0u64, 0u64, u32::MAX, 0);
        for tokens in tokens {
            n += 1;
            sum += u64::from(tokens);
            min = min.min(tokens);
            max = max.max(tokens);
        }
        let mean = sum as f64 / n as f64;
        (n > 0).then_some(Self { n, min, mean, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn failures_are_told_apart_by_class_and_status() {
        let failed = |class, status| {
            let mut sample = fixtures::failed_sample(0, class);
            sample.status = status;
            sample
        };
        let mut warmup = failed(ErrorClass::Refused, None);
        warmup.warmup = true;
        let samples = [
            warmup,
            fixtures::sample(0, 10.0, 4),
            failed(ErrorClass::StallTimeout, Some(200)),
            failed(ErrorClass::HttpStatus, Some(503)),
            failed(ErrorClass::HttpStatus, Some(500)),
            failed(ErrorClass::HttpStatus, Some(503)),
            failed(ErrorClass::Aborted, None),
        ];
        let counts = Counts::of(&samples);
        let kinds: Vec<(ErrorClass, Option<u16>, u64)> = counts
            .failures
            .iter()
            .map(|f| (f.what.class, f.what.status, f.count))
            .collect();
        assert_eq!(
            kinds,
            [
                (ErrorClass::HttpStatus, Some(503), 2),
                (ErrorClass::StallTimeout, None, 1),
                (ErrorClass::HttpStatus, Some(500), 1),
                (ErrorClass::Aborted, None, 1),
            ]
        );
        assert_eq!((counts.warmup, counts.warmup_failed), (1, 1));
        assert_eq!((counts.succeeded, counts.failed()), (1, 5));
        assert_eq!(counts.sent, 5, "one was taken back before it was sent");
    }

    #[test]
    fn lengths_have_their_ends() {
        assert_eq!(Lengths::of(std::iter::empty()), None);
        let lengths = Lengths::of([3, 9, 6].into_iter());
        let (n, min, mean, max) = (3, 3, 6.0, 9);
        assert_eq!(lengths, Some(Lengths { n, min, mean, max }));
    }
}
