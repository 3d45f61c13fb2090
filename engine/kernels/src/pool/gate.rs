//! The gate before a job: who may look at it, and when nobody does any more.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
};

use super::wait::wait;

/// How many threads are inside.
const INSIDE: u64 = 0xffff;
/// Threads may enter.
const OPEN: u64 = 1 << 16;
/// The caller sleeps until the last has left.
const ASLEEP: u64 = 1 << 17;
/// There will be no more jobs.
const CLOSED: u64 = 1 << 18;
/// From here up jobs are counted. After 2³² of them a thread may take a job for its last one, and
/// wait for the next.
const JOB: u64 = 1 << 32;

/// One word, so that its parts change together; alone in its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Gate {
    state: AtomicU64,
    /// Whom the last to leave wakes, where [`ASLEEP`] is set: set before that is, which the lock
    /// makes seen, and never taken out again.
    sleeper: Mutex<Option<Thread>>,
}

/// Being inside; dropping it leaves.
pub(super) struct Inside<'a>(&'a Gate);

impl Gate {
    /// Opens it for a next job. Who enters sees all that was written before.
    pub(super) fn open(&self) {
        // Nobody is inside: a caller opens only after it, or the caller before, has shut.
        let job = self.state.load(Ordering::Relaxed) & !(JOB - 1);
        self.state
            .store(job.wrapping_add(JOB) | OPEN, Ordering::Release);
    }

    /// Shuts it, and returns when all have left.
    pub(super) fn shut(&self) {
        // Acquire, here and below: what was written inside is seen once all have left.
        let before = self.state.fetch_and(!OPEN, Ordering::Acquire);
        let empty = || self.state.load(Ordering::Acquire) & INSIDE == 0;
        if before & INSIDE == 0 || wait(empty) {
            return;
        }
        *self.sleeper() = Some(thread::current());
        self.state.fetch_or(ASLEEP, Ordering::Relaxed);
        while !empty() {
            thread::park();
        }
        self.state.fetch_and(!ASLEEP, Ordering::Relaxed);
    }

    /// Ends all waiting, for ever. Nobody has a job any more.
    pub(super) fn close_for_good(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Waits until there is another job than `last`, and says which; none if there will be no more.
    /// Who opens or closes the gate must unpark this thread.
    pub(super) fn wait_for_job(&self, last: u64) -> Option<u64> {
        let job = || self.state.load(Ordering::Acquire) & (!(JOB - 1) | CLOSED);
        if !wait(|| job() != last) {
            while job() == last {
                thread::park();
            }
        }
        Some(job()).filter(|job| job & CLOSED == 0)
    }

    /// Enters, if it is open.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        let enter = |state| (state & OPEN != 0).then_some(state + 1);
        let entered = self
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, enter);
        // Made only where it entered: one that is made leaves.
        entered.is_ok().then(|| Inside(self))
    }

    /// Wakes the caller. It may have seen that all have left, and be gone, and the next caller may
    /// sleep: that one wakes for nothing, and stays in its place for who leaves its job as the last.
    fn wake(&self) {
        if let Some(caller) = &*self.sleeper() {
            caller.unpark();
        }
    }

    fn sleeper(&self) -> MutexGuard<'_, Option<Thread>> {
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: the caller sees what we wrote.
        let before = self.0.state.fetch_sub(1, Ordering::Release);
        if before & INSIDE == 1 && before & ASLEEP != 0 {
            self.0.wake();
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    /// Who left as the last of one job, and was put aside before it woke the caller, may do so in a
    /// later job. The last to leave that one must still find whom to wake.
    #[test]
    fn a_late_waker_takes_no_caller_from_another() {
        let gate = Arc::new(Gate::default());
        gate.open();
        let inside = gate.enter().unwrap();
        let caller = thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.shut()
        });
        while gate.state.load(Ordering::Relaxed) & ASLEEP == 0 {
            thread::yield_now();
        }
        gate.wake();
        thread::sleep(Duration::from_millis(20));
        assert!(!caller.is_finished());
        drop(inside);
        for _ in 0..1000 {
            if caller.is_finished() {
                return caller.join().unwrap();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the caller was not woken");
    }
}
