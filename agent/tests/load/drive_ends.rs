//! How a drive with many requests in flight ends before its time: what ended is kept, what was in
//! flight or due is marked.

use std::time::Duration;

use agent::load::DriveOutcome;
use contracts::run::{AllowFailures, Arrival, Load, Stage};
use contracts::sample::ErrorClass;
use tokio_util::sync::CancellationToken;

use crate::queueing::{Driven, Queueing, drive_on};
use crate::support::{self, Script, Step, job, json, usual_stream};

fn aborted(driven: &Driven) -> usize {
    let classes = driven.samples.iter().filter_map(|s| s.error.as_ref());
    classes.filter(|e| e.class == ErrorClass::Aborted).count()
}

fn cancel_after(ms: u64) -> CancellationToken {
    let cancel = CancellationToken::new();
    let order = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        order.cancel();
    });
    cancel
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_keeps_what_ended_and_marks_what_did_not() {
    // Some requests end at once, the others never: in time all slots hang.
    let hang = Script::bytes(support::stream_head().into_bytes()).then(Step::Hang);
    let script = move |i: usize| {
        if i % 5 == 4 {
            hang.clone()
        } else {
            usual_stream()
        }
    };
    let server = support::serve(script).await;
    let mut job = job(&server.url, 0, 1_000);
    job.load = Load::Closed { concurrency: 6 };
    let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
    let driven = drive_on(clock, &job, &cancel_after(500)).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Cancelled);
    assert_eq!(aborted(&driven), 6);
    let ended = driven.samples.iter().filter(|s| s.error.is_none()).count();
    // Six hang: at least 24 came before them.
    assert!(ended >= 24, "{ended}");
    assert_eq!(driven.samples.len(), ended + 6);
    assert_eq!(
        (driven.end.measured.ended, driven.end.measured.failed),
        (ended as u32, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_an_open_loop_marks_what_waited() {
    let server = Queueing::start(2, |_| Duration::from_secs(60)).await;
    let mut job = job(&server.url, 0, 1_000);
    job.load = Load::Open {
        rate_per_s: 100.0,
        arrival: Arrival::Poisson,
        max_in_flight: Some(2),
    };
    let driven = drive_on(server.clock, &job, &cancel_after(400)).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Cancelled);
    assert_eq!(aborted(&driven), driven.samples.len());
    let sent = driven.samples.iter().filter(|s| s.sent_ns.is_some());
    assert_eq!(sent.count(), 2);
    let samples = driven.measured();
    // About 40 were due; none of the rest of the thousand was.
    assert!((10..=400).contains(&samples.len()), "{}", samples.len());
    let indices: Vec<_> = samples.iter().map(|s| s.index as usize).collect();
    assert_eq!(indices, (0..samples.len()).collect::<Vec<_>>());
}

/// Samples of what was never sent all say the same: beyond a number they are counted, not stored.
#[tokio::test(flavor = "multi_thread")]
async fn no_arrival_is_dropped_in_silence() {
    let server = Queueing::start(1, |_| Duration::from_secs(60)).await;
    let mut job = job(&server.url, 0, 12_000);
    job.load = Load::Burst {
        max_in_flight: Some(1),
    };
    let driven = drive_on(server.clock, &job, &cancel_after(400)).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Cancelled);
    let unstored = driven.end.gauges.as_ref().unwrap().unstored;
    assert!(unstored > 0);
    assert_eq!(driven.samples.len() + unstored as usize, 12_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_connecting_leaves_no_sample() {
    let full = support::FullListener::open();
    let mut job = job(&full.url, 4, 9);
    job.load = Load::Closed { concurrency: 4 };
    let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
    let driven = drive_on(clock, &job, &cancel_after(200)).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Cancelled);
    assert_eq!(driven.samples.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_stops_the_run_and_aborts_the_rest() {
    // The tenth request fails while the other slots are in the middle of theirs.
    let script = |i: usize| match i {
        9 => json(500, r#"{"error":{"message":"boom"}}"#),
        0..9 => usual_stream(),
        _ => Script::default().then(Step::Hang),
    };
    let server = support::serve(script).await;
    let mut job = job(&server.url, 4, 100);
    job.load = Load::Closed { concurrency: 4 };
    let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
    let driven = drive_on(clock, &job, &CancellationToken::new()).await;
    let DriveOutcome::Failed { stage, message } = &driven.end.outcome else {
        unreachable!("{:?}", driven.end);
    };
    assert_eq!(*stage, Stage::Measure);
    assert!(
        message.contains("of 100 failed") && message.contains("boom"),
        "{message}"
    );
    let requests = server.requests().len();
    assert!(requests <= 14, "{requests}");
    assert_eq!(
        driven.samples.len(),
        requests,
        "each that was sent is there"
    );
    let good = driven.samples.iter().filter(|s| s.error.is_none()).count();
    assert_eq!((good, driven.end.measured.failed), (9, 1));
    assert_eq!(aborted(&driven), requests - 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_failures_do_not_stop_a_run() {
    let script = |i: usize| match i % 10 {
        3 => json(500, "{}"),
        _ => usual_stream(),
    };
    for (percent, fails) in [(10.0, false), (9.0, true)] {
        let server = support::serve(script).await;
        let mut job = job(&server.url, 0, 40);
        job.load = Load::Closed { concurrency: 3 };
        job.allow_failures = AllowFailures::Percent { percent };
        let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
        let driven = drive_on(clock, &job, &CancellationToken::new()).await;
        let failed = matches!(driven.end.outcome, DriveOutcome::Failed { .. });
        assert_eq!(failed, fails, "{percent}");
        if !fails {
            assert_eq!((driven.samples.len(), driven.end.measured.failed), (40, 4));
        }
    }
}
