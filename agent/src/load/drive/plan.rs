//! From a job's load to what the drive follows: slots, or the times of arrivals. Pure.

use contracts::run::Load;

use super::shelf::turns;
use crate::load::online::OnlineJob;
use crate::load::schedule::{Counts, Schedule, ScheduleError};

/// How requests are offered.
#[derive(Debug)]
pub(super) enum Plan {
    /// By slots.
    Closed {
        /// How many.
        concurrency: u32,
    },
    /// By time.
    Open {
        /// When arrivals are due.
        schedule: Schedule,
        /// Measured requests over the time that they are spread over; none if they come at once.
        offered_per_s: Option<f64>,
    },
}

impl Plan {
    /// What `job` asks.
    ///
    /// # Errors
    /// A schedule that a run cannot keep, by field.
    pub fn of(job: &OnlineJob) -> Result<Self, ScheduleError> {
        let counts = Counts {
            warmup: arrivals(job, job.warmup).count(),
            measured: arrivals(job, job.n_runs).count(),
            duration: job.duration,
        };
        let schedule = match &job.load {
            Load::Closed { concurrency } => {
                return Ok(Self::Closed {
                    concurrency: *concurrency,
                });
            }
            Load::Open {
                rate_per_s,
                arrival,
                ..
            } => Schedule::open(*rate_per_s, *arrival, job.bodies.sampling.seed, counts)?,
            Load::Burst { .. } => Schedule::burst(counts),
            Load::Trace { .. } => Schedule::trace(&job.trace_due_ms, counts),
        };
        let measured = schedule.offsets_ns.len() - schedule.warmup;
        let requests: u32 = arrivals(job, job.n_runs).take(measured).sum();
        let span_s = schedule.span_ns as f64 / 1e9;
        let offered_per_s = (span_s > 0.0).then(|| f64::from(requests) / span_s);
        Ok(Self::Open {
            schedule,
            offered_per_s,
        })
    }
}

/// Requests of each arrival of a phase of `total` requests.
fn arrivals(job: &OnlineJob, total: u32) -> impl Iterator<Item = u32> {
    let mut index = 0;
    std::iter::from_fn(move || {
        if index >= total {
            return None;
        }
        let turns = turns(&job.bodies, index, total);
        index += turns;
        Some(turns)
    })
}
