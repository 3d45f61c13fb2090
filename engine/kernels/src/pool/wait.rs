//! How threads wait before they sleep.

use std::{
    hint::spin_loop,
    thread::yield_now,
    time::{Duration, Instant},
};

/// How long to spin: jobs of one token follow each other within some microseconds, and a longer
/// spin would take a core from the server and the load generator.
const SPIN: Duration = Duration::from_micros(50);
/// How long to yield to others after that: a wake from sleep takes some 50 µs on both sides.
const YIELD: Duration = Duration::from_micros(200);
/// Looks between two looks at the clock: some microseconds.
const LOOKS: usize = 64;

/// Waits until `done`, first spinning, then yielding; false if it was not within the time for that.
pub(super) fn wait(done: impl Fn() -> bool) -> bool {
    // Under an interpreter threads take turns only where they yield, and its clock is its own.
    if cfg!(miri) {
        yield_now();
        return done();
    }
    let start = Instant::now();
    while start.elapsed() < SPIN {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
            spin_loop();
        }
    }
    while start.elapsed() < SPIN + YIELD {
        if done() {
            return true;
        }
        yield_now();
    }
    done()
}
