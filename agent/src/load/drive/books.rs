//! The counts of one drive: what has begun, what has ended and how, and how busy the load thread is.
//! What follows from them is done elsewhere.

use std::time::Duration;

use nix::sys::resource::UsageWho;

use super::flight::Flight;
use crate::host::cpu_time;
use crate::load::tally::{DriveOutcome, Phase, Tally};

/// Counts under way.
pub(super) struct Books {
    pub tally: Tally,
    pub flight: Flight,
    /// Why the drive ends before its time.
    pub outcome: Option<DriveOutcome>,
    /// Arrivals that were due and not sent, beyond those that became samples.
    pub unstored: u32,
    begun: Option<Phase>,
    /// CPU time of this thread, and the clock, when measuring began.
    cpu: Option<(Duration, u64)>,
}

/// Counts at the end.
pub(super) struct Closed {
    pub tally: Tally,
    pub flight: Flight,
    /// Why the drive has failed, if it has.
    pub outcome: Option<DriveOutcome>,
    /// As in [`Books`].
    pub unstored: u32,
    /// CPU time of this thread over the time since measuring began.
    pub busy_share: Option<f64>,
}

impl Books {
    pub fn new(tally: Tally) -> Self {
        Self {
            tally,
            flight: Flight::default(),
            outcome: None,
            unstored: 0,
            begun: None,
            cpu: None,
        }
    }

    /// A request goes to its client. Whether its phase begins with it.
    pub fn begin(&mut self, phase: Phase, start_ns: u64, first_of_slot: bool) -> bool {
        self.flight.begin(start_ns);
        let measures = phase == Phase::Measure;
        let new = match self.begun {
            None => true,
            // Turns of a warm-up conversation may come after the first measured request.
            Some(begun) => begun == Phase::Warmup && measures,
        };
        if new {
            self.begun = Some(phase);
        }
        if new && measures {
            self.cpu = cpu_time(UsageWho::RUSAGE_THREAD).map(|cpu| (cpu, start_ns));
            self.flight.steady_from(start_ns);
        } else if first_of_slot && self.begun == Some(Phase::Measure) {
            // Without enough warm-up the slots fill while measuring.
            self.flight.steady_from(start_ns);
        }
        new
    }

    /// The last phase that has begun.
    pub fn begun(&self) -> Option<Phase> {
        self.begun
    }

    /// The counts, once all requests are over.
    pub fn close(self, now_ns: u64) -> Closed {
        let busy_share =
            self.cpu
                .zip(cpu_time(UsageWho::RUSAGE_THREAD))
                .and_then(|((from, from_ns), to)| {
                    let passed_s = now_ns.saturating_sub(from_ns) as f64 / 1e9;
                    (passed_s > 0.0).then(|| to.saturating_sub(from).as_secs_f64() / passed_s)
                });
        Closed {
            outcome: self.outcome.or_else(|| self.tally.finish()),
            tally: self.tally,
            flight: self.flight,
            unstored: self.unstored,
            busy_share,
        }
    }
}
