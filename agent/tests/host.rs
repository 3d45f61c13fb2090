//! Host facts and CPU shares of the machine that runs the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use agent::host::{CpuMeter, facts, state};

#[test]
fn facts_are_stable() {
    let first = facts();
    assert_eq!(first, facts());
    assert_eq!(first.fingerprint.len(), 64);
    assert!(first.cores >= 1);
    assert!(first.memory_bytes > 64 << 20);
    assert!(!first.cpu_model.is_empty() && !first.kernel.is_empty());
    assert!(first.platform.starts_with("linux "));
}

#[test]
fn state_is_of_now() {
    let state = state();
    assert!(state.memory_available_bytes > 0);
    assert!(state.memory_available_bytes <= facts().memory_bytes);
    assert!(state.load_1m >= 0.0);
    assert!(state.now_unix_ms > 1_700_000_000_000);
}

#[test]
fn own_work_is_counted_as_own() {
    let meter = CpuMeter::start().unwrap();
    let begun = Instant::now();
    let mut used = meter.read().unwrap();
    let mut sum = 0u64;
    while used.own_ms < 100.0 || used.foreign_share.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{used:?}");
        for i in 0..10_000_000u64 {
            sum = sum.wrapping_mul(31).wrapping_add(i);
        }
        std::hint::black_box(sum);
        used = meter.read().unwrap();
    }
    let foreign = used.foreign_share.unwrap();
    let cores = f64::from(facts().cores);
    assert!((0.0..=1.0).contains(&foreign));
    // What we used, others did not: a share of all cores, give or take ticks of 10 ms.
    let own = used.own_ms / (used.interval_ms * cores);
    assert!(foreign <= 1.0 - own + 0.25, "{used:?}");
}
