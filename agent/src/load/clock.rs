//! The one monotonic clock of a run. When a run happened, in wall-clock time, is not its matter.

use std::time::Instant;

/// Nanoseconds since one origin; all instants of a run's samples are on it.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Nanoseconds since the origin. A u64 of them lasts 584 years.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time from `from_ns` to `to_ns` in ms; 0 if they are the wrong way round.
pub(super) fn ms_between(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}
