//! What samples come to, seen one by one.

use contracts::sample::SampleError;

use super::*;
use crate::run::testing::fake_spec;

const MS: u64 = 1_000_000;

/// Due at `due_ms`, sent 1 ms later, done after `wall_ms`.
fn sample(index: u32, due_ms: u64, wall_ms: u64) -> Sample {
    Sample {
        index,
        due_ns: due_ms * MS,
        start_ns: due_ms * MS,
        sent_ns: Some((due_ms + 1) * MS),
        done_ns: Some((due_ms + 1 + wall_ms) * MS),
        requested_tokens: 4,
        output_tokens: Some(4),
        ..Sample::default()
    }
}

fn failed(index: u32, class: ErrorClass) -> Sample {
    let message = "m".to_owned();
    Sample {
        error: Some(SampleError { class, message }),
        ..sample(index, u64::from(index) * 10, 10)
    }
}

fn told(spec: &RunSpec, samples: &[Sample]) -> (Validity, Basis) {
    let mut gauges = Gauges::new(spec);
    for sample in samples {
        gauges.see(sample);
    }
    let mut validity = Validity::default();
    let basis = gauges.tell(&mut validity);
    (validity, basis)
}

fn about(value: Option<f64>, expected: f64) {
    let value = value.unwrap();
    assert!(
        (value - expected).abs() <= expected.abs() * 0.002,
        "{value} is not {expected}"
    );
}

#[test]
fn rates_are_those_of_the_window() {
    let samples: Vec<_> = (0..11).map(|i| sample(i, u64::from(i) * 100, 99)).collect();
    let (validity, basis) = told(&fake_spec(), &samples);
    about(validity.sent_per_s, 10.0);
    // 11 requests from the first write at 1 ms to the last end at 1100 ms.
    about(validity.achieved_per_s, 11.0 / 1.099);
    about(validity.dispatch_lag_p99_ms, 1.0);
    about(Some(basis.window_ms), 1_099.0);
    assert_eq!((basis.sent, validity.error_share), (11, Some(0.0)));
}

#[test]
fn lag_is_from_when_a_request_could_go_less_connecting() {
    let mut waited = sample(0, 10, 5);
    waited.released_ns = Some(50 * MS);
    waited.start_ns = 52 * MS;
    waited.connected_ns = Some(55 * MS);
    waited.sent_ns = Some(56 * MS);
    // 6 ms after its release, 3 of them for the connection.
    assert_eq!(lag_ns(&waited, 56 * MS), 3 * MS);
    waited.released_ns = Some(2 * MS);
    assert_eq!(lag_ns(&waited, 56 * MS), 43 * MS);
}

#[test]
fn warm_up_and_aborted_requests_are_not_judged() {
    let mut warmup = failed(0, ErrorClass::Reset);
    warmup.warmup = true;
    let (validity, basis) = told(&fake_spec(), &[warmup, failed(0, ErrorClass::Aborted)]);
    assert_eq!((validity.failed_requests, basis.sent), (0, 1));
    assert_eq!(
        (validity.error_share, validity.truncated_share),
        (None, None)
    );
}

#[test]
fn failures_and_broken_answers_are_shares_of_what_ended() {
    let mut broke_off = failed(3, ErrorClass::StallTimeout);
    broke_off.first_content_ns = Some(1);
    let samples = [
        sample(0, 0, 9),
        failed(1, ErrorClass::HttpStatus),
        failed(2, ErrorClass::Truncated),
        broke_off,
    ];
    let (validity, _) = told(&fake_spec(), &samples);
    assert_eq!(
        (validity.failed_requests, validity.error_share),
        (3, Some(0.75))
    );
    assert_eq!(validity.truncated_share, Some(0.5));
}

#[test]
fn lengths_and_counts_are_compared_where_both_are_known() {
    let mut spec = fake_spec();
    spec.workload.sampling.ignore_eos = true;
    let mut short = sample(0, 0, 9);
    short.output_tokens = Some(3);
    short.planned_input_tokens = Some(8);
    short.input_tokens = Some(9);
    short.usage_tokens = Some(10);
    short.local_tokens = Some(9);
    let mut apart = sample(1, 10, 9);
    apart.finish_reason = Some(FinishReason::Length);
    apart.planned_input_tokens = Some(8);
    apart.input_tokens = Some(8);
    apart.usage_tokens = Some(10);
    apart.local_tokens = Some(5);
    let samples = [short, apart, sample(2, 20, 9), sample(3, 30, 9)];
    let (validity, _) = told(&spec, &samples);
    assert_eq!(validity.short_share, Some(0.25));
    assert_eq!(validity.length_share, Some(0.25));
    assert_eq!(validity.input_mismatch_share, Some(0.5));
    // One more by the server is the token that ended the answer.
    assert_eq!(validity.token_mismatch_share, Some(0.5));
    spec.workload.sampling.ignore_eos = false;
    assert_eq!(told(&spec, &samples).0.short_share, None);
}

#[test]
fn drift_is_the_last_third_over_the_first() {
    let mut spec = fake_spec();
    spec.workload.n_runs = 60;
    let run = |wall: fn(u32) -> u64| -> Vec<Sample> {
        (0..60)
            .map(|i| sample(i, u64::from(i) * 100, wall(i)))
            .collect()
    };
    let (steady, basis) = told(&spec, &run(|i| 50 + u64::from(i % 5)));
    assert!(steady.drift_share.unwrap().abs() < 0.01);
    assert!(basis.drift_noise_share > 0.0 && basis.drift_noise_share < 0.1);
    about(basis.early_wall_ms, 54.0);
    let (slower, _) = told(&spec, &run(|i| if i < 30 { 50 } else { 75 }));
    about(slower.drift_share, 0.5);
    // By time, where there is a duration: 6 s of 60 requests.
    spec.workload.duration_ms = Some(6_000);
    let (slower, _) = told(&spec, &run(|i| if i < 30 { 50 } else { 75 }));
    about(slower.drift_share, 0.5);
    // Too few say nothing.
    let (few, _) = told(&spec, &run(|_| 50)[..29]);
    assert_eq!(few.drift_share, None);
}

#[test]
fn answers_beyond_their_ceiling_are_counted_and_the_ending_token_is_not() {
    let mut gauges = Gauges::new(&fake_spec());
    for (index, made) in [(0, 4), (1, 5), (2, 6), (3, 29)] {
        let output_tokens = Some(made);
        gauges.see(&Sample {
            output_tokens,
            ..sample(index, 0, 10)
        });
    }
    assert_eq!(gauges.too_long(), 2);
}

#[test]
fn too_few_events_at_the_ceiling_are_told_where_nothing_better_counts() {
    let mut gauges = Gauges::new(&fake_spec());
    let answer = |index, made, source, reason| Sample {
        output_tokens: Some(made),
        token_source: Some(source),
        finish_reason: Some(reason),
        ..sample(index, 0, 10)
    };
    gauges.see(&answer(0, 2, TokenSource::Events, FinishReason::Length));
    gauges.see(&answer(1, 4, TokenSource::Events, FinishReason::Length));
    gauges.see(&answer(2, 2, TokenSource::Events, FinishReason::Stop));
    gauges.see(&answer(3, 2, TokenSource::Usage, FinishReason::Length));
    assert_eq!(gauges.undercounted(), 1);
}
