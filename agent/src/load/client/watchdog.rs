//! The bounds of one request's waits: first byte, silence, total, and the order to stop. One timer
//! serves all of them; it is not reset by each read but looks, when it fires, what there has been.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use contracts::sample::{ErrorClass, SampleError};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::WaitForCancellationFuture;

use super::shared::Timeouts;
use crate::load::answer::failure;
use crate::load::clock::Clock;

/// Watches one request from its start.
pub struct Watchdog {
    clock: Clock,
    timeouts: Timeouts,
    start_ns: u64,
    timer: Pin<Box<Sleep>>,
}

impl Watchdog {
    /// Starts to watch.
    pub fn start(clock: Clock, timeouts: Timeouts) -> Self {
        let Timeouts {
            first_byte,
            stall,
            total,
            ..
        } = timeouts;
        Self {
            clock,
            timeouts,
            start_ns: clock.now_ns(),
            timer: Box::pin(sleep(first_byte.min(stall).min(total))),
        }
    }

    /// Asked when the request has to wait: ready if it must not wait longer. `last_read_ns` is the
    /// last read of its answer.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        last_read_ns: Option<u64>,
        mut cancelled: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> Poll<SampleError> {
        while self.timer.as_mut().poll(cx).is_ready() {
            match self.left(self.clock.now_ns(), last_read_ns) {
                Ok(left) => self.timer.as_mut().reset(Instant::now() + left),
                Err(error) => return Poll::Ready(error),
            }
        }
        cancelled.as_mut().poll(cx).map(|()| cancelled_error())
    }

    /// Whether the total bound had passed at `at_ns`: for a server that never lets the request
    /// wait, so that no timer is asked.
    pub fn check_total(&self, at_ns: u64) -> Result<(), SampleError> {
        if Duration::from_nanos(at_ns.saturating_sub(self.start_ns)) > self.timeouts.total {
            return Err(self.total_error());
        }
        Ok(())
    }

    /// Time until the next bound, or the bound that has passed.
    fn left(&self, now_ns: u64, last_read_ns: Option<u64>) -> Result<Duration, SampleError> {
        let left_of = |bound: Duration, since_ns: u64| {
            bound
                .checked_sub(Duration::from_nanos(now_ns.saturating_sub(since_ns)))
                .filter(|left| !left.is_zero())
        };
        let total =
            left_of(self.timeouts.total, self.start_ns).ok_or_else(|| self.total_error())?;
        let silence = match last_read_ns {
            None => left_of(self.timeouts.first_byte, self.start_ns).ok_or_else(|| {
                let bound = self.timeouts.first_byte;
                let message = format!("no byte of an answer within {bound:?}");
                failure(ErrorClass::FirstByteTimeout, message)
            })?,
            Some(at_ns) => left_of(self.timeouts.stall, at_ns).ok_or_else(|| {
                let bound = self.timeouts.stall;
                let message = format!("silence for {bound:?} within the answer");
                failure(ErrorClass::StallTimeout, message)
            })?,
        };
        // A first byte may come at any time, and from then on `stall` counts.
        Ok(total.min(silence).min(self.timeouts.stall))
    }

    fn total_error(&self) -> SampleError {
        let message = format!("not done within {:?}", self.timeouts.total);
        failure(ErrorClass::TotalTimeout, message)
    }
}

/// The order to stop came within the request.
pub fn cancelled_error() -> SampleError {
    failure(ErrorClass::Aborted, "cancelled within the request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_bound_is_a_class_of_its_own() {
        let timeouts = Timeouts {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_secs(20),
            stall: Duration::from_secs(5),
            total: Duration::from_secs(60),
        };
        let mut watchdog = Watchdog::start(Clock::start(), timeouts);
        watchdog.start_ns = 0;
        let class = |at_s: u64, read_s: Option<u64>| {
            let read_ns = read_s.map(|s| s * 1_000_000_000);
            watchdog
                .left(at_s * 1_000_000_000, read_ns)
                .map_err(|e| e.class)
        };
        let seconds = Duration::from_secs;
        assert_eq!(class(1, None), Ok(seconds(5)), "a read may start the stall");
        assert_eq!(class(18, None), Ok(seconds(2)));
        assert_eq!(class(20, None), Err(ErrorClass::FirstByteTimeout));
        assert_eq!(class(30, Some(28)), Ok(seconds(3)));
        assert_eq!(class(30, Some(25)), Err(ErrorClass::StallTimeout));
        assert_eq!(class(58, Some(57)), Ok(seconds(2)));
        assert_eq!(class(60, Some(60)), Err(ErrorClass::TotalTimeout));
        assert!(watchdog.check_total(60_000_000_000).is_ok());
        let late = watchdog.check_total(60_000_000_001);
        assert_eq!(late.map_err(|e| e.class), Err(ErrorClass::TotalTimeout));
    }
}
