//! The time over which a run's throughput is taken, and what of a run decides it.
//!
//! Definition `v1`: the window is from the first measured request's first write to the last
//! measured request's end. Under `--duration` it is as long as was asked, and what ended in it
//! counts. What was in flight within it is [`super::flight`]'s.

use contracts::run::{Limits, Load, RunState, RunStatus};
use contracts::sample::{ErrorClass, Sample};

/// What of a run decides how its figures are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Offline, or one slot: throughput is the reciprocal of the mean wall time, as in the book.
    pub one_at_a_time: bool,
    /// Requests come at times of their own: the wall time from due is the headline.
    pub open_loop: bool,
    /// When the load is the one that was asked for.
    pub steady_by: SteadyBy,
    /// How long requests were sent; none if they were counted, or the run ended before that.
    duration_ns: Option<u64>,
    /// Measured requests, at most.
    pub(super) n_runs: u64,
}

/// When the load of a run is the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteadyBy {
    /// While so many are in flight.
    Slots(u32),
    /// While requests come at their times.
    Arrivals,
    /// Never: all come at once.
    Nothing,
}

impl Shape {
    /// From a run that has ended. One that ended early has no duration: its window ends with its
    /// last request.
    pub fn of(status: &RunStatus) -> Self {
        let workload = &status.spec.workload;
        let asked = workload
            .duration_ms
            .filter(|_| status.state == RunState::Done);
        Self {
            one_at_a_time: workload.load == Load::Closed { concurrency: 1 },
            open_loop: !matches!(workload.load, Load::Closed { .. }),
            steady_by: match workload.load {
                Load::Closed { concurrency } => SteadyBy::Slots(concurrency),
                Load::Burst { max_in_flight } => {
                    max_in_flight.map_or(SteadyBy::Nothing, SteadyBy::Slots)
                }
                Load::Open { .. } | Load::Trace { .. } => SteadyBy::Arrivals,
            },
            duration_ns: asked.map(|ms| ms.saturating_mul(1_000_000)),
            n_runs: u64::from(workload.n_runs),
        }
    }
}

/// A span on the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first measured request's first write.
    pub from_ns: u64,
    /// After `from_ns`.
    pub to_ns: u64,
}

impl Window {
    /// Its length.
    pub fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }

    /// Whether a request that ended then counts.
    pub fn holds(&self, done_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&done_ns)
    }
}

/// The window of a run's samples; none where nothing measured was sent and ended.
pub fn window(samples: &[Sample], shape: &Shape) -> Option<Window> {
    let mut ends = Ends::default();
    for sample in samples {
        ends.add(sample);
    }
    ends.window(shape)
}

/// What of the samples decides the window, as they stream by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends {
    /// The first measured request's first write.
    pub first_sent_ns: Option<u64>,
    /// The last end of a measured request.
    pub last_done_ns: Option<u64>,
    /// Measured requests, failed ones too.
    pub measured: u64,
}

impl Ends {
    /// Takes one request; warm-up decides nothing.
    pub fn add(&mut self, sample: &Sample) {
        if sample.warmup {
            return;
        }
        self.measured += 1;
        let first = self.first_sent_ns.into_iter().chain(sample.sent_ns).min();
        self.first_sent_ns = first;
        self.last_done_ns = self.last_done_ns.max(sample.done_ns);
    }

    /// The window of a run of this shape; none where nothing measured was sent and ended.
    pub fn window(&self, shape: &Shape) -> Option<Window> {
        let from_ns = self.first_sent_ns?;
        let last_ns = self.last_done_ns?;
        let to_ns = match shape.duration_ns {
            // All that it may come to was sent before the time was over.
            Some(_) if self.measured >= shape.n_runs => last_ns,
            // Slots that are never idle end after it, or the run ended before.
            Some(duration_ns) if !shape.open_loop => last_ns.min(from_ns + duration_ns),
            // The last request of an open loop may be over before the time is.
            Some(duration_ns) => from_ns + duration_ns,
            None => last_ns,
        };
        (to_ns > from_ns).then_some(Window { from_ns, to_ns })
    }
}

/// Whether a measured request was offered to the server: all but those that an ending run took
/// back before they were sent.
pub fn was_sent(sample: &Sample) -> bool {
    let taken_back = |error: &contracts::sample::SampleError| error.class == ErrorClass::Aborted;
    !sample.warmup && (sample.sent_ns.is_some() || !sample.error.as_ref().is_some_and(taken_back))
}

/// When a request was over as far as is known: a failed one may have no `done`. What ran into a
/// timeout was waited for as long as `limits` say; what was aborted, until the run ended, which is
/// after all that has a time.
pub fn ended_ns(sample: &Sample, limits: &Limits) -> Option<u64> {
    let known = [
        sample.done_ns,
        sample.finish_ns,
        sample.last_content_ns,
        sample.first_event_ns,
        sample.headers_ns,
        sample.sent_ns,
    ];
    let last_sign_ns = known.into_iter().max().flatten()?;
    let after = |from_ns: u64, ms: u64| from_ns.saturating_add(ms.saturating_mul(1_000_000));
    let waited_ns = match sample.error.as_ref().map(|error| error.class) {
        Some(ErrorClass::Aborted) => u64::MAX,
        Some(ErrorClass::FirstByteTimeout | ErrorClass::StallTimeout) => {
            after(last_sign_ns, limits.stall_timeout_ms)
        }
        Some(ErrorClass::TotalTimeout) => after(sample.sent_ns?, limits.request_timeout_ms),
        _ => last_sign_ns,
    };
    Some(waited_ns.max(last_sign_ns))
}
