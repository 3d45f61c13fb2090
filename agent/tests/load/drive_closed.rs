//! The closed loop: slots that are all opened first, hand over without a drain, and go on as they
//! become free.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::load::{DriveOutcome, Phase};
use contracts::run::{AllowFailures, Load, Stage};
use contracts::sample::ErrorClass;
use tokio_util::sync::CancellationToken;

use crate::queueing::{Queueing, drive_on};
use crate::support::{RefusingPort, job};

#[tokio::test(flavor = "multi_thread")]
async fn slots_hand_over_from_warm_up_to_measurement() {
    const SLOTS: u32 = 8;
    // Each slot is at another point of its request when the first one becomes free.
    let service = |i: usize| Duration::from_millis(60 + 30 * (i as u64 % 8));
    let server = Queueing::start(64, service).await;
    let mut job = job(&server.url, SLOTS, 40);
    job.load = Load::Closed { concurrency: SLOTS };
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    assert_eq!(driven.phases, [Phase::Warmup, Phase::Measure]);
    assert_eq!(
        (driven.end.warmup.ended, driven.end.measured.ended),
        (SLOTS, 40)
    );

    let arrivals = server.arrivals();
    assert_eq!(arrivals.len(), 48);
    assert_eq!(
        arrivals[0].connections, 8,
        "all were open before the first request"
    );
    let used: BTreeSet<_> = arrivals.iter().map(|a| a.connection).collect();
    assert_eq!(used.len(), 8);
    assert_eq!(arrivals.iter().map(|a| a.in_flight).max(), Some(8));
    // From the first measured request to the last one, the other slots are at work.
    let measured = &arrivals[8..];
    assert!(
        measured.iter().all(|a| a.in_flight >= 6),
        "{:?}",
        measured.iter().map(|a| a.in_flight).collect::<Vec<_>>()
    );

    let samples = driven.measured();
    let indices: Vec<_> = samples.iter().map(|s| s.index).collect();
    assert_eq!(indices, (0..40).collect::<Vec<_>>());
    let sent: Vec<_> = samples.iter().map(|s| s.sent_ns.unwrap()).collect();
    assert!(sent.is_sorted(), "a free slot takes the next request");
    for s in &samples {
        assert!(s.due_ns <= s.start_ns && s.start_ns <= s.sent_ns.unwrap());
        assert_eq!((s.released_ns, s.connected_ns), (None, None));
    }
    let gauges = driven.end.gauges.clone().unwrap();
    assert_eq!((gauges.in_flight_asked, gauges.in_flight_max), (Some(8), 8));
    assert!(gauges.in_flight_mean.unwrap() > 7.5, "{gauges:?}");
    assert_eq!((gauges.waiting_max, gauges.offered_per_s), (0, None));
    assert!(gauges.first_wave_ms.is_some());
    assert!(gauges.client_busy_share.unwrap() < 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_warm_up_the_first_wave_is_measured() {
    // Long enough for all four to be there before the first is answered, on a busy machine too.
    let server = Queueing::start(8, |_| Duration::from_millis(400)).await;
    let mut job = job(&server.url, 0, 9);
    job.load = Load::Closed { concurrency: 4 };
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.phases, [Phase::Measure]);
    assert_eq!(driven.samples.len(), 9);
    assert_eq!(server.arrivals()[3].in_flight, 4);
}

/// More slots than requests: the others never begin.
#[tokio::test(flavor = "multi_thread")]
async fn slots_without_a_request_stay_idle() {
    let server = Queueing::start(8, |_| Duration::from_millis(20)).await;
    let mut job = job(&server.url, 0, 2);
    job.load = Load::Closed { concurrency: 5 };
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    assert_eq!(server.arrivals().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_cannot_be_opened_fail_the_run_in_its_warm_up() {
    let refusing = RefusingPort::open();
    let mut job = job(&refusing.url, 4, 9);
    job.load = Load::Closed { concurrency: 4 };
    let server = Queueing::start(1, |_| Duration::ZERO).await;
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    let DriveOutcome::Failed { stage, message } = driven.end.outcome else {
        unreachable!("{:?}", driven.end);
    };
    assert_eq!(stage, Stage::Warmup);
    assert!(message.contains("127.0.0.1"), "{message}");
    assert_eq!(driven.samples.len(), 1, "the first request says why");
    let class = driven.samples[0].error.clone().unwrap().class;
    assert_eq!(class, ErrorClass::Refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duration_ends_sending_and_drains() {
    let server = Queueing::start(8, |_| Duration::from_millis(30)).await;
    let mut job = job(&server.url, 2, 1_000_000);
    job.load = Load::Closed { concurrency: 2 };
    job.duration = Some(Duration::from_millis(400));
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    let measured = driven.measured();
    // 2 slots of 30 ms each for 400 ms: 26, fewer on a busy machine.
    assert!((4..=28).contains(&measured.len()), "{}", measured.len());
    let first_ns = measured[0].start_ns;
    for s in &measured {
        assert_eq!(s.error, None);
        // A second for a machine that does something else between the look at the clock and this.
        assert!(s.start_ns < first_ns + 1_400_000_000);
    }
    assert_eq!(driven.end.measured.ended as usize, measured.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_makes_no_flood_of_failures() {
    let refusing = RefusingPort::open();
    let mut job = job(&refusing.url, 0, 1_000_000);
    job.load = Load::Closed { concurrency: 2 };
    job.keepalive = false;
    job.duration = Some(Duration::from_millis(400));
    job.allow_failures = AllowFailures::Percent { percent: 100.0 };
    let server = Queueing::start(1, |_| Duration::ZERO).await;
    let driven = drive_on(server.clock, &job, &CancellationToken::new()).await;
    let measured = driven.measured();
    // 2 slots that rest 100 ms after each.
    assert!((2..=10).contains(&measured.len()), "{}", measured.len());
    for s in &measured {
        // The rest is no lag of the client.
        assert!(s.start_ns < s.due_ns + 50_000_000, "{s:?}");
    }
}
