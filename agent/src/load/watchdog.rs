//! The bounds of one request's waits: first byte, silence, total. One timer serves all three; it
//! is not reset by each read but looks, when it fires, whether there has been one since.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use contracts::sample::{ErrorClass, SampleError};
use tokio::time::{Instant, Sleep, sleep};

use super::answer::failure;
use super::clock::Clock;
use super::stamped::Stamps;

/// Watches one request from its start.
pub struct Watchdog {
    clock: Clock,
    start_ns: u64,
    stall: Duration,
    total: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Watchdog {
    /// Starts to watch.
    pub fn start(clock: Clock, stall: Duration, total: Duration) -> Self {
        Self {
            clock,
            start_ns: clock.now_ns(),
            stall,
            total,
            timer: Box::pin(sleep(stall.min(total))),
        }
    }

    /// Waits for `wanted` as long as the bounds allow.
    pub async fn guard<T>(
        &mut self,
        stamps: &Stamps,
        wanted: impl Future<Output = T>,
    ) -> Result<T, SampleError> {
        let mut wanted = pin!(wanted);
        poll_fn(|cx| {
            if let Poll::Ready(value) = wanted.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                match self.left(stamps.last_read_ns()) {
                    Ok(left) => self.timer.as_mut().reset(Instant::now() + left),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Time until the next bound, or the bound that has passed.
    fn left(&self, last_read_ns: Option<u64>) -> Result<Duration, SampleError> {
        let now_ns = self.clock.now_ns();
        let since = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns));
        let total_left = self.total.checked_sub(since(self.start_ns));
        let stall_left = self
            .stall
            .checked_sub(since(last_read_ns.unwrap_or(self.start_ns)));
        match (total_left, stall_left, last_read_ns) {
            (None | Some(Duration::ZERO), _, _) => Err(failure(
                ErrorClass::TotalTimeout,
                format!("not done within {:?}", self.total),
            )),
            (Some(total), Some(stall), _) if !stall.is_zero() => Ok(total.min(stall)),
            (_, _, None) => Err(failure(
                ErrorClass::FirstByteTimeout,
                format!("no byte of an answer within {:?}", self.stall),
            )),
            (_, _, Some(_)) => Err(failure(
                ErrorClass::StallTimeout,
                format!("silence for {:?} within the answer", self.stall),
            )),
        }
    }
}
