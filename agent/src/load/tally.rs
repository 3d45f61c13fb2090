//! How a drive stands and how it ended: counts of requests by phase, and the rule by which failed
//! ones fail the run. Shared by both modes.

use contracts::run::{AllowFailures, Stage};
use contracts::sample::{ErrorClass, SampleError};

use super::drive::DriveGauges;

/// What the requests under way are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Never in an average.
    Warmup,
    /// The measurement.
    Measure,
}

impl Phase {
    /// The stage that a failure in this phase is reported under.
    pub fn stage(self) -> Stage {
        match self {
            Self::Warmup => Stage::Warmup,
            Self::Measure => Stage::Measure,
        }
    }
}

/// Requests of one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseCount {
    /// Ended, failed ones included.
    pub ended: u32,
    /// Failed.
    pub failed: u32,
}

/// How a drive ended, and what it did until then.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveEnd {
    /// How.
    pub outcome: DriveOutcome,
    /// Warm-up requests.
    pub warmup: PhaseCount,
    /// Measured requests.
    pub measured: PhaseCount,
    /// What only the online drive knows of itself.
    pub gauges: Option<DriveGauges>,
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriveOutcome {
    /// All requests were made, and no more of them failed than may.
    Done,
    /// The run has failed.
    Failed {
        /// What was under way.
        stage: Stage,
        /// One line.
        message: String,
    },
    /// The offline worker went away before its last line; how its process ended says why.
    WorkerGone {
        /// What was under way.
        stage: Stage,
    },
    /// On the caller's order.
    Cancelled,
}

/// Counts requests that ended and applies the failure rule. Requests may end in any order.
#[derive(Debug)]
pub(super) struct Tally {
    warmup: PhaseCount,
    measured: PhaseCount,
    warmup_total: u32,
    total: u32,
    allow: AllowFailures,
    /// Whether `total` is only the most that it may come to.
    open_ended: bool,
    last_failure: Option<String>,
}

impl Tally {
    pub fn new(warmup_total: u32, total: u32, allow: AllowFailures) -> Self {
        Self {
            warmup: PhaseCount::default(),
            measured: PhaseCount::default(),
            warmup_total,
            total,
            allow,
            open_ended: false,
            last_failure: None,
        }
    }

    /// The measured requests are as many as there is time for: what is relative to their number is
    /// judged at the end.
    pub fn open_ended(mut self) -> Self {
        self.open_ended = true;
        self
    }

    /// The phase and index of the next request, where one comes after the other; none if all are
    /// made.
    pub fn next(&self) -> Option<(Phase, u32)> {
        if self.warmup.ended < self.warmup_total {
            Some((Phase::Warmup, self.warmup.ended))
        } else if self.measured.ended < self.total {
            Some((Phase::Measure, self.measured.ended))
        } else {
            None
        }
    }

    /// Counts a request that ended. An outcome if it fails the run: any failed warm-up request
    /// does, because what it should have warmed is cold; a measured one does beyond what is allowed.
    /// An aborted one did not end: it counts for nothing.
    pub fn add(
        &mut self,
        phase: Phase,
        index: u32,
        error: Option<&SampleError>,
    ) -> Option<DriveOutcome> {
        if error.is_some_and(|error| error.class == ErrorClass::Aborted) {
            return None;
        }
        let (count, allowed) = match phase {
            Phase::Warmup => (&mut self.warmup, Some(0)),
            Phase::Measure => (
                &mut self.measured,
                allowed(self.allow, self.total, self.open_ended),
            ),
        };
        count.ended += 1;
        let error = error?;
        count.failed += 1;
        let failed = count.failed;
        let message = self.words(phase, index, error);
        match allowed {
            Some(allowed) if failed > allowed => Some(failure(phase, allowed, &message)),
            _ => {
                self.last_failure = Some(message);
                None
            }
        }
    }

    /// The rule for all that was sent, once nothing more is. Only an open-ended count needs it.
    pub fn finish(&self) -> Option<DriveOutcome> {
        let allowed = allowed(self.allow, self.measured.ended, false)?;
        let message = self.last_failure.as_deref()?;
        (self.measured.failed > allowed).then(|| failure(Phase::Measure, allowed, message))
    }

    fn words(&self, phase: Phase, index: u32, error: &SampleError) -> String {
        let number = index + 1;
        let word = match phase {
            Phase::Warmup => format!("warm-up request {number} of {}", self.warmup_total),
            Phase::Measure if self.open_ended => format!("request {number}"),
            Phase::Measure => format!("request {number} of {}", self.total),
        };
        format!("{word} failed: {}", error.message)
    }

    /// The end, with the counts so far.
    pub fn end(&self, outcome: DriveOutcome) -> DriveEnd {
        DriveEnd {
            outcome,
            warmup: self.warmup,
            measured: self.measured,
            gauges: None,
        }
    }
}

/// How many of `total` measured requests may fail; none if that cannot be said before the end.
fn allowed(allow: AllowFailures, total: u32, open_ended: bool) -> Option<u32> {
    let allowed = match allow {
        AllowFailures::Count { n } => n,
        AllowFailures::Percent { .. } if open_ended => return None,
        // Rounded down: 1 % of 20 requests is none. The little more is for shares such as
        // 0.7 % of 1000, which comes out just below 7.
        AllowFailures::Percent { percent } => {
            (f64::from(total) * percent.clamp(0.0, 100.0) / 100.0 + 1e-9) as u32
        }
    };
    // A run in which nothing succeeded has measured nothing, whatever is allowed.
    Some(allowed.min(total.saturating_sub(1)))
}

fn failure(phase: Phase, allowed: u32, message: &str) -> DriveOutcome {
    let message = if allowed > 0 {
        format!("more than {allowed} failed requests; {message}")
    } else {
        message.to_owned()
    };
    DriveOutcome::Failed {
        stage: phase.stage(),
        message,
    }
}

/// The outcome when the receiver of samples has gone: measuring on would lose what is measured.
pub(super) fn spool_gone(stage: Stage) -> DriveOutcome {
    DriveOutcome::Failed {
        stage,
        message: "samples can no longer be stored; see the agent's log".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(class: ErrorClass) -> SampleError {
        SampleError {
            class,
            message: "500".into(),
        }
    }

    fn fail(tally: &mut Tally, phase: Phase, index: u32) -> Option<DriveOutcome> {
        tally.add(phase, index, Some(&error(ErrorClass::HttpStatus)))
    }

    #[test]
    fn failures_fail_the_run_beyond_what_is_allowed() {
        let fails_at = |allow| {
            let mut tally = Tally::new(0, 20, allow);
            (0..20).find(|i| fail(&mut tally, Phase::Measure, *i).is_some())
        };
        assert_eq!(fails_at(AllowFailures::Count { n: 0 }), Some(0));
        assert_eq!(fails_at(AllowFailures::Count { n: 2 }), Some(2));
        assert_eq!(fails_at(AllowFailures::Percent { percent: 4.9 }), Some(0));
        assert_eq!(fails_at(AllowFailures::Percent { percent: 10.0 }), Some(2));
        // Not one success is no measurement.
        assert_eq!(
            fails_at(AllowFailures::Percent { percent: 100.0 }),
            Some(19)
        );
        assert_eq!(
            fails_at(AllowFailures::Percent { percent: f64::NAN }),
            Some(0)
        );
    }

    #[test]
    fn a_failed_warm_up_request_always_fails_the_run() {
        let mut tally = Tally::new(3, 20, AllowFailures::Count { n: 9 });
        assert_eq!(
            fail(&mut tally, Phase::Warmup, 0),
            Some(DriveOutcome::Failed {
                stage: Stage::Warmup,
                message: "warm-up request 1 of 3 failed: 500".into()
            })
        );
    }

    #[test]
    fn an_aborted_request_counts_for_nothing() {
        let mut tally = Tally::new(0, 3, AllowFailures::Count { n: 0 });
        let aborted = error(ErrorClass::Aborted);
        assert_eq!(tally.add(Phase::Measure, 0, Some(&aborted)), None);
        assert_eq!(tally.next(), Some((Phase::Measure, 0)));
    }

    #[test]
    fn with_a_duration_a_share_is_judged_at_the_end() {
        let percent = AllowFailures::Percent { percent: 25.0 };
        let mut tally = Tally::new(0, 1_000_000, percent).open_ended();
        assert_eq!(fail(&mut tally, Phase::Measure, 0), None);
        for index in 1..4 {
            assert_eq!(tally.add(Phase::Measure, index, None), None);
        }
        assert_eq!(tally.finish(), None);
        assert_eq!(fail(&mut tally, Phase::Measure, 4), None);
        assert_eq!(
            tally.finish(),
            Some(DriveOutcome::Failed {
                stage: Stage::Measure,
                message: "more than 1 failed requests; request 5 failed: 500".into()
            })
        );
        // A number needs no end.
        let mut tally = Tally::new(0, 9, AllowFailures::Count { n: 1 }).open_ended();
        assert_eq!(fail(&mut tally, Phase::Measure, 0), None);
        assert!(fail(&mut tally, Phase::Measure, 1).is_some());
        // All of them failed, as many as are allowed: nothing was measured.
        let mut tally = Tally::new(0, 9, AllowFailures::Count { n: 5 }).open_ended();
        assert_eq!(fail(&mut tally, Phase::Measure, 0), None);
        assert!(tally.finish().is_some());
    }
}
