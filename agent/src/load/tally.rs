//! How a drive stands and how it ended: counts of requests by phase, and the rule by which failed
//! ones fail the run. Shared by both modes.

use contracts::run::{AllowFailures, Stage};
use contracts::sample::Sample;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveEnd {
    /// How.
    pub outcome: DriveOutcome,
    /// Warm-up requests.
    pub warmup: PhaseCount,
    /// Measured requests.
    pub measured: PhaseCount,
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

/// Counts samples and applies the failure rule.
#[derive(Debug)]
pub(super) struct Tally {
    warmup: PhaseCount,
    measured: PhaseCount,
    warmup_total: u32,
    total: u32,
    allowed: u32,
}

impl Tally {
    pub fn new(warmup_total: u32, total: u32, allow: AllowFailures) -> Self {
        let allowed = match allow {
            AllowFailures::Count { n } => n,
            // Rounded down: 1 % of 20 requests is none. The little more is for shares such as
            // 0.7 % of 1000, which comes out just below 7.
            AllowFailures::Percent { percent } => {
                (f64::from(total) * percent.clamp(0.0, 100.0) / 100.0 + 1e-9) as u32
            }
        };
        Self {
            warmup: PhaseCount::default(),
            measured: PhaseCount::default(),
            warmup_total,
            total,
            // A run in which nothing succeeded has measured nothing, whatever is allowed.
            allowed: allowed.min(total.saturating_sub(1)),
        }
    }

    /// Requests of a phase in all.
    pub fn total(&self, phase: Phase) -> u32 {
        match phase {
            Phase::Warmup => self.warmup_total,
            Phase::Measure => self.total,
        }
    }

    /// The phase and index of the next request, or none if all are made.
    pub fn next(&self) -> Option<(Phase, u32)> {
        if self.warmup.ended < self.warmup_total {
            Some((Phase::Warmup, self.warmup.ended))
        } else if self.measured.ended < self.total {
            Some((Phase::Measure, self.measured.ended))
        } else {
            None
        }
    }

    /// Counts a sample. An outcome if it fails the run: any failed warm-up request does, because
    /// what it should have warmed is cold; a measured one does beyond what is allowed.
    pub fn add(&mut self, phase: Phase, sample: &Sample) -> Option<DriveOutcome> {
        let count = match phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Measure => &mut self.measured,
        };
        count.ended += 1;
        let error = sample.error.as_ref()?;
        count.failed += 1;
        let allowed = match phase {
            Phase::Warmup => 0,
            Phase::Measure => self.allowed,
        };
        if count.failed <= allowed {
            return None;
        }
        let word = match phase {
            Phase::Warmup => "warm-up request",
            Phase::Measure => "request",
        };
        let mut message = format!(
            "{word} {} of {} failed: {}",
            sample.index + 1,
            self.total(phase),
            error.message
        );
        if allowed > 0 {
            message = format!("more than {allowed} failed requests; {message}");
        }
        Some(DriveOutcome::Failed {
            stage: phase.stage(),
            message,
        })
    }

    /// The end, with the counts so far.
    pub fn end(&self, outcome: DriveOutcome) -> DriveEnd {
        DriveEnd {
            outcome,
            warmup: self.warmup,
            measured: self.measured,
        }
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
    use contracts::sample::{ErrorClass, SampleError};

    use super::*;

    fn failed(index: u32) -> Sample {
        Sample {
            index,
            error: Some(SampleError {
                class: ErrorClass::HttpStatus,
                message: "500".into(),
            }),
            ..Sample::default()
        }
    }

    #[test]
    fn failures_fail_the_run_beyond_what_is_allowed() {
        let fails_at = |allow| {
            let mut tally = Tally::new(0, 20, allow);
            (0..20).find(|i| tally.add(Phase::Measure, &failed(*i)).is_some())
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
        let outcome = tally.add(Phase::Warmup, &failed(0));
        assert_eq!(
            outcome,
            Some(DriveOutcome::Failed {
                stage: Stage::Warmup,
                message: "warm-up request 1 of 3 failed: 500".into()
            })
        );
    }
}
