//! Host facts and CPU shares of the machine that runs the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent::host::{CpuMeter, facts, state};
use procfs::{CurrentSI, KernelStats};

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

/// Keeps a core busy until `stop`.
fn burn(stop: &AtomicBool) {
    let mut sum = 0u64;
    while !stop.load(Ordering::Relaxed) {
        for i in 0..1_000_000u64 {
            sum = sum.wrapping_mul(31).wrapping_add(i);
        }
        std::hint::black_box(sum);
    }
}

#[test]
fn own_work_is_counted_as_own() {
    let cores = facts().cores;
    let enough_ms = 200.0 * f64::from(cores);
    let meter = CpuMeter::start().unwrap();
    let stop = AtomicBool::new(false);
    // All cores: counted as foreign, our work would be the whole machine.
    let read = std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| burn(&stop));
        }
        let begun = Instant::now();
        let read = loop {
            std::thread::sleep(Duration::from_millis(50));
            let read = meter.read();
            let enough = read
                .as_ref()
                .is_ok_and(|used| used.own_ms >= enough_ms && used.foreign_share.is_some());
            if enough || read.is_err() || begun.elapsed() > Duration::from_secs(60) {
                break read;
            }
        };
        stop.store(true, Ordering::Relaxed);
        read
    });
    let used = read.unwrap();
    assert!(used.own_ms >= enough_ms, "{used:?}");
    let foreign = used.foreign_share.unwrap();
    assert!((0.0..=1.0).contains(&foreign));
    // What we used, others did not: a share of the machine, which may have more cores than we may
    // use, give or take ticks of 10 ms.
    let machine = KernelStats::current().unwrap().cpu_time.len();
    let own = used.own_ms / (used.interval_ms * machine as f64);
    assert!(foreign <= 1.0 - own + 0.25, "{used:?}");
}
