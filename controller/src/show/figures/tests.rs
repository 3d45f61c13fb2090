//! Tests of [`super`]: the block that stands under an online run's table.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::{Arrival, Load, Mode};
use contracts::sample::{ErrorClass, TimingSource, TokenSource};

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;
use crate::show::session::run_text;

/// Requests that are due each 50 ms and of which the server does ten a second, one at a time.
fn saturated() -> RunWithSamples {
    let mut run = fixtures::run("01AAA", "ch02", Mode::Online);
    let spec = &mut run.status.spec;
    spec.workload.load = Load::Open {
        rate_per_s: 20.0,
        arrival: Arrival::Constant,
        max_in_flight: Some(8),
    };
    spec.slo = Some(Slo {
        ttft_ms: Some(200.0),
        wall_ms: Some(2000.0),
        ..Slo::default()
    });
    let validity = &mut run.status.validity;
    validity.verdict = contracts::run::Soundness::Degraded;
    validity.waiting_max = Some(32);
    validity.doubts.push(contracts::run::Doubt {
        limit: "achieved_share_min".to_owned(),
        verdict: contracts::run::Soundness::Degraded,
        message: "offered 20/s, achieved 10/s".to_owned(),
    });
    let samples = (0u32..80).map(|i| {
        let due = u64::from(i) * 50;
        let sent = due.max(u64::from(i.saturating_sub(7)) * 100);
        let done = u64::from(i) * 100 + 100;
        let mut sample = fixtures::sent(i, sent, done);
        sample.due_ns = due * 1_000_000;
        sample.engine_wall_ms = Some(100.0);
        sample.first_content_ns = Some((done - 90) * 1_000_000);
        sample.ttft_ms = Some((done - 90 - sent) as f64);
        sample.tpot_ms = Some(10.0);
        sample.timing_source = Some(TimingSource::Client);
        sample.planned_input_tokens = Some(9);
        sample.reconnected = i == 5;
        sample
    });
    let mut samples: Vec<_> = samples.collect();
    samples[79].token_source = Some(TokenSource::Events);
    let mut run = fixtures::finish(run, samples);
    for _ in 0..80 {
        run.gaps.push(&[10_000, 20_000, 30_100]);
    }
    run
}

#[test]
fn an_open_loop_shows_where_requests_wait() {
    let run = saturated();
    insta::assert_snapshot!("open_loop_text", run_text(&run));
    let figures = Online::of(&run).unwrap();
    let markdown = markdown(&figures, &run.run.status);
    insta::assert_snapshot!("open_loop_markdown", markdown);
}

#[test]
fn a_closed_loop_shows_its_slots_and_its_failures() {
    let mut run = fixtures::run("01AAA", "ch02", Mode::Online);
    run.status.spec.workload.load = Load::Closed { concurrency: 2 };
    run.status.validity.in_flight_asked = Some(2);
    let mut warmup = fixtures::sent(0, 0, 150);
    warmup.warmup = true;
    let mut samples = vec![warmup];
    for i in 0u32..8 {
        let sent = 100 + u64::from(i / 2) * 100 + u64::from(i % 2) * 50;
        let mut sample = fixtures::sent(i, sent, sent + 100);
        sample.engine_wall_ms = Some(50.0);
        samples.push(sample);
    }
    let mut failed = fixtures::failed_sample(8, ErrorClass::HttpStatus);
    failed.status = Some(503);
    samples.push(failed);
    insta::assert_snapshot!(
        "closed_loop_text",
        run_text(&fixtures::finish(run, samples))
    );
}

#[test]
fn one_at_a_time_is_short() {
    let run = fixtures::run("01AAA", "ch02", Mode::Online);
    let mut run = fixtures::with_timing(run, &[1224.0; 20], TimingSource::Client);
    run.gaps.push(&[41_250, 69_950, 98_650]);
    insta::assert_snapshot!("one_at_a_time_text", run_text(&run));
    let three = fixtures::with_walls(run.run, &[10.0, 20.0, 30.0]);
    insta::assert_snapshot!("three_requests_text", run_text(&three));
}
