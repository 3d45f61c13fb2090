//! The open loop: arrivals keep their times whatever the server does, and what waits is seen.

use std::time::Duration;

use agent::load::{DriveOutcome, Gauges};
use contracts::run::{Arrival, Load, RunSpec, Validity};
use contracts::sample::{ErrorClass, Sample};
use tokio_util::sync::CancellationToken;

use crate::queueing::{Driven, Queueing, drive_on, from_due_ms, from_sent_ms, thirds};
use crate::support::job;

fn open(rate_per_s: f64, max_in_flight: Option<u32>) -> Load {
    Load::Open {
        rate_per_s,
        arrival: Arrival::Constant,
        max_in_flight,
    }
}

fn gaps_ms(samples: &[&Sample]) -> Vec<f64> {
    let gap = |pair: &[&Sample]| (pair[1].due_ns - pair[0].due_ns) as f64 / 1e6;
    samples.windows(2).map(gap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_is_kept_when_the_server_is_slow() {
    let server = Queueing::start(64, |_| Duration::from_secs(2)).await;
    let mut job = job(&server.url, 0, 25);
    job.load = open(50.0, None);
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    let samples = driven.measured();
    assert!(
        gaps_ms(&samples)
            .iter()
            .all(|gap| (gap - 20.0).abs() < 0.001)
    );
    let arrivals = server.arrivals();
    // 25 arrivals take half a second; nothing has been answered by then.
    assert_eq!(arrivals[24].in_flight, 25);
    let seeds: Vec<_> = arrivals.iter().map(|a| a.seed).collect();
    assert_eq!(seeds, (7..32).collect::<Vec<_>>(), "in order");
    for (s, arrival) in samples.iter().zip(&arrivals) {
        assert!(
            s.due_ns <= s.start_ns && s.start_ns <= arrival.at_ns,
            "never before its time"
        );
        assert_eq!(s.released_ns, None);
    }
    let gauges = driven.end.gauges.clone().unwrap();
    assert_eq!((gauges.waiting_max, gauges.in_flight_max), (0, 25));
    assert!((gauges.offered_per_s.unwrap() - 50.0).abs() < 1e-6);
}

fn seen(driven: &Driven) -> Validity {
    let spec: RunSpec = serde_json::from_value(serde_json::json!({
        "arm": {
            "engine": {"kind": "chapter", "id": "fake"}, "mode": "online", "dtype": null,
            "device": {"kind": "cpu"}, "threads": null, "stream": true,
        },
        "workload": {
            "model": "m", "prompts": {"kind": "texts", "texts": ["p"]}, "endpoint": "auto",
            "sampling": {}, "load": {"kind": "burst"}, "n_runs": driven.end.measured.ended,
            "warmup": 0, "cache": "as_is", "allow_failures": {"kind": "count", "n": 0},
        },
        "limits": {
            "ready_timeout_ms": 1, "stop_grace_ms": 1, "request_timeout_ms": 1,
            "stall_timeout_ms": 1, "device_wait_ms": 1,
        },
    }))
    .unwrap();
    let mut gauges = Gauges::new(&spec);
    for sample in &driven.samples {
        gauges.see(sample);
    }
    let mut validity = Validity::default();
    gauges.tell(&mut validity);
    validity
}

/// Ten a second, offered twenty: the client may not hide that requests wait, wherever they wait.
async fn overloaded(max_in_flight: Option<u32>) -> Driven {
    let server = Queueing::start(1, |_| Duration::from_millis(100)).await;
    let mut job = job(&server.url, 1, 42);
    job.load = open(20.0, max_in_flight);
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    assert_eq!(driven.end.measured.ended, 42);
    let gauges = driven.end.gauges.clone().unwrap();
    assert!((gauges.offered_per_s.unwrap() - 20.0).abs() < 1e-6);
    let achieved = seen(&driven).achieved_per_s.unwrap();
    // The server's pauses last as long as they say, and longer on a busy machine.
    assert!((4.0..=10.5).contains(&achieved), "{achieved}");
    driven
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_cap_latency_from_due_grows_and_from_sent_does_not() {
    let driven = overloaded(Some(1)).await;
    let samples = driven.measured();
    let due: Vec<_> = samples.iter().map(|s| from_due_ms(s)).collect();
    let sent: Vec<_> = samples.iter().map(|s| from_sent_ms(s)).collect();
    let [first, middle, last] = thirds(&due);
    // 50 ms more with each request: 14 of them between two thirds.
    assert!(
        middle > first + 350.0 && last > middle + 350.0,
        "{first} {middle} {last}"
    );
    let [first, _, last] = thirds(&sent);
    // Growing as the other does, it would be 1400 ms more.
    assert!(last < first + 500.0, "{first} {last}");
    let gauges = driven.end.gauges.clone().unwrap();
    assert!(gauges.waiting_max >= 15, "{}", gauges.waiting_max);
    assert_eq!(gauges.in_flight_max, 1);
    // Those that waited say since when they could go, and went then.
    let waited = samples.iter().filter(|s| s.released_ns.is_some()).count();
    assert!(waited >= 38, "{waited}");
    for s in samples.iter().filter(|s| s.released_ns.is_some()) {
        let released_ns = s.released_ns.unwrap();
        assert!(s.due_ns < released_ns && released_ns <= s.start_ns);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cap_both_latencies_grow_and_differ_by_the_dispatch_lag() {
    let driven = overloaded(None).await;
    let samples = driven.measured();
    for latency in [from_due_ms, from_sent_ms] {
        let values: Vec<_> = samples.iter().map(|s| latency(s)).collect();
        let [first, middle, last] = thirds(&values);
        assert!(
            middle > first + 350.0 && last > middle + 350.0,
            "{first} {middle} {last}"
        );
    }
    let validity = seen(&driven);
    let lag_ms = validity.dispatch_lag_p99_ms.unwrap();
    for s in &samples {
        assert_eq!(s.released_ns, None);
        let connecting_ns = s.connected_ns.map_or(0, |at| at - s.start_ns);
        let apart_ms = from_due_ms(s) - from_sent_ms(s) - connecting_ns as f64 / 1e6;
        assert!(
            (0.0..=lag_ms * 1.01 + 0.01).contains(&apart_ms),
            "{apart_ms} {lag_ms}"
        );
    }
    // What the client adds is nothing beside what the server's queue does.
    assert!(validity.dispatch_lag_p50_ms.unwrap() < 20.0);
    assert_eq!(driven.end.gauges.clone().unwrap().waiting_max, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_with_a_cap_hands_over_and_waits_visibly() {
    let service = |i: usize| Duration::from_millis(60 + 30 * (i as u64 % 4));
    let server = Queueing::start(64, service).await;
    let mut job = job(&server.url, 4, 12);
    job.load = Load::Burst {
        max_in_flight: Some(4),
    };
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    let samples = driven.measured();
    assert_eq!(samples.len(), 12);
    assert!(samples.iter().all(|s| s.due_ns == samples[0].due_ns));
    let warmup = driven.samples.iter().filter(|s| s.warmup);
    let ends: Vec<_> = warmup.map(|s| s.done_ns.unwrap()).collect();
    assert!(samples[0].due_ns >= *ends.iter().min().unwrap());
    assert!(samples[0].due_ns < *ends.iter().max().unwrap(), "no drain");
    let arrivals = server.arrivals();
    assert!(arrivals[4].in_flight >= 2, "{}", arrivals[4].in_flight);
    assert_eq!(arrivals.iter().map(|a| a.in_flight).max(), Some(4));
    let gauges = driven.end.gauges.clone().unwrap();
    assert!(gauges.waiting_max >= 11, "{}", gauges.waiting_max);
    assert_eq!(gauges.offered_per_s, None);
    assert!(gauges.first_wave_ms.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_without_a_cap_comes_after_its_warm_up() {
    let server = Queueing::start(64, |_| Duration::from_millis(500)).await;
    let mut job = job(&server.url, 3, 10);
    job.load = Load::Burst {
        max_in_flight: None,
    };
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    let arrivals = server.arrivals();
    assert_eq!(arrivals[2].in_flight, 3);
    assert_eq!(arrivals[3].in_flight, 1, "the warm-up was over");
    assert_eq!(arrivals[12].in_flight, 10);
    assert_eq!(driven.end.gauges.clone().unwrap().waiting_max, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_sent_at_its_times() {
    let server = Queueing::start(64, |_| Duration::ZERO).await;
    let mut job = job(&server.url, 1, 3);
    job.load = Load::Trace {
        max_in_flight: None,
    };
    job.trace_due_ms = [0, 30, 130].into();
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    assert_eq!(gaps_ms(&driven.measured()), [30.0, 100.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_duration_every_arrival_becomes_a_sample() {
    let server = Queueing::start(1, |_| Duration::from_millis(100)).await;
    let mut job = job(&server.url, 1, 1_000_000);
    job.load = open(50.0, Some(1));
    job.duration = Some(Duration::from_millis(500));
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    // The server does five of the 25; that the others did not go is no failure of theirs.
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    let samples = driven.measured();
    let indices: Vec<_> = samples.iter().map(|s| s.index).collect();
    assert_eq!(indices, (0..25).collect::<Vec<_>>());
    let (sent, unsent): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|s| s.sent_ns.is_some());
    assert!(
        !sent.is_empty() && unsent.len() >= 15,
        "{} {}",
        sent.len(),
        unsent.len()
    );
    assert!(sent.iter().all(|s| s.error.is_none()));
    assert!(
        unsent
            .iter()
            .all(|s| s.error.as_ref().unwrap().class == ErrorClass::Aborted)
    );
    assert_eq!(driven.end.measured.ended as usize, sent.len());
}
