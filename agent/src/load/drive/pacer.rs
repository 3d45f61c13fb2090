//! Tells the load thread when arrivals are due. A thread of its own sleeps until each instant: the
//! kernel's timers are as exact as its slack, 50 µs unless a program asks for more, where those of
//! the load thread's runtime count in milliseconds; and it sleeps, where a loop that watches the
//! clock would use up a core.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use crate::load::clock::Clock;

/// How many arrivals are due; dropping it ends the thread.
pub(super) struct Pacer {
    due: Arc<Due>,
    /// Its end wakes the thread from its sleep.
    _end: mpsc::Sender<()>,
}

#[derive(Default)]
struct Due {
    count: AtomicUsize,
    news: Notify,
}

impl Pacer {
    /// Arrival `i` is due `offsets_ns[i]` after `base_ns`; they are in order.
    pub fn start(offsets_ns: Arc<[u64]>, base_ns: u64, clock: Clock) -> io::Result<Self> {
        let due = Arc::new(Due::default());
        let (end, ended) = mpsc::channel();
        let told = Arc::clone(&due);
        thread::Builder::new()
            .name("pacer".to_owned())
            .spawn(move || pace(&offsets_ns, base_ns, clock, &told, &ended))?;
        Ok(Self { due, _end: end })
    }

    /// Arrivals that are due by now.
    pub fn due(&self) -> usize {
        self.due.count.load(Ordering::Acquire)
    }

    /// Returns when more are due than at the last look.
    pub async fn more(&self) {
        self.due.news.notified().await;
    }
}

fn pace(offsets_ns: &[u64], base_ns: u64, clock: Clock, due: &Due, ended: &mpsc::Receiver<()>) {
    let mut count = 0;
    while let Some(offset_ns) = offsets_ns.get(count) {
        let wait_ns = base_ns
            .saturating_add(*offset_ns)
            .saturating_sub(clock.now_ns());
        if wait_ns > 0 {
            match ended.recv_timeout(Duration::from_nanos(wait_ns)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        // All that have become due meanwhile are told with one word.
        let passed_ns = clock.now_ns().saturating_sub(base_ns);
        let rest = offsets_ns.get(count..).unwrap_or_default();
        count += rest.partition_point(|offset_ns| *offset_ns <= passed_ns);
        due.count.store(count, Ordering::Release);
        due.news.notify_one();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arrivals_are_told_in_order_and_never_before_their_time() {
        let offsets_ns: Vec<u64> = (0..50).map(|i| i * 1_000_000).collect();
        let clock = Clock::start();
        let base_ns = clock.now_ns() + 2_000_000;
        let pacer = Pacer::start(offsets_ns.clone().into(), base_ns, clock).unwrap();
        let mut seen = 0;
        while seen < offsets_ns.len() {
            pacer.more().await;
            let due = pacer.due();
            assert!(due >= seen);
            if let Some(last) = due.checked_sub(1) {
                assert!(base_ns + offsets_ns[last] <= clock.now_ns());
            }
            seen = due;
        }
    }

    #[tokio::test]
    async fn dropping_it_ends_its_thread() {
        let hour_ns = 3_600_000_000_000;
        let pacer = Pacer::start(vec![hour_ns].into(), 0, Clock::start()).unwrap();
        let due = Arc::downgrade(&pacer.due);
        drop(pacer);
        for _ in 0..1_000 {
            if due.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        unreachable!("the thread sleeps on");
    }
}
