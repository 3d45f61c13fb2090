//! Each limit casts its doubt, and small runs are not condemned by chance.

use super::*;

/// A run with nothing to say against it.
fn sound() -> (Validity, Basis) {
    let validity = Validity {
        foreign_cpu_during: Some(0.01),
        error_share: Some(0.0),
        dispatch_lag_p50_ms: Some(0.1),
        dispatch_lag_p99_ms: Some(0.4),
        client_busy_share: Some(0.2),
        offered_per_s: Some(20.0),
        achieved_per_s: Some(19.8),
        in_flight_asked: Some(64),
        in_flight_mean: Some(63.9),
        truncated_share: Some(0.0),
        short_share: Some(0.0),
        drift_share: Some(0.02),
        ..Validity::default()
    };
    let basis = Basis {
        sent: 100,
        window_ms: 5_000.0,
        early_wall_ms: Some(100.0),
        drift_noise_share: 0.05,
    };
    (validity, basis)
}

fn doubts(change: impl Fn(&mut Validity, &mut Basis)) -> Vec<(String, Soundness, String)> {
    let (mut validity, mut basis) = sound();
    change(&mut validity, &mut basis);
    judge(&mut validity, &basis, Some(20.0));
    let worst = validity.doubts.iter().map(|doubt| doubt.verdict).max();
    assert_eq!(validity.verdict, worst.unwrap_or_default());
    let doubts = validity.doubts.into_iter();
    doubts.map(|d| (d.limit, d.verdict, d.message)).collect()
}

type Change = fn(&mut Validity, &mut Basis);

#[test]
fn a_sound_run_has_no_doubts_and_nothing_known_is_no_doubt() {
    assert_eq!(doubts(|_, _| ()), []);
    assert_eq!(
        doubts(|v, b| {
            *v = Validity::default();
            *b = Basis::default();
        }),
        []
    );
}

#[test]
fn each_limit_has_its_doubt() {
    let rows: [(Change, &str, Soundness, &str); 12] = [
        (
            |v, _| v.dispatch_lag_p99_ms = Some(31.26),
            "dispatch_lag_p99_ms_max",
            Soundness::ClientBound,
            "the client sent requests 31 ms after they could go (p99; limit 10 ms)",
        ),
        (
            |v, _| v.client_busy_share = Some(0.91),
            "client_busy_share_max",
            Soundness::ClientBound,
            "the load generator used 91 % of its core (limit 85 %)",
        ),
        (
            |v, _| v.in_flight_mean = Some(50.0),
            "in_flight_share_min",
            Soundness::ClientBound,
            "50 of 64 requests were in flight on average (limit 97.5 %)",
        ),
        (
            |v, _| v.achieved_per_s = Some(10.04),
            "achieved_share_min",
            Soundness::Degraded,
            "offered 20/s, achieved 10/s",
        ),
        (
            |v, _| {
                v.offered_per_s = Some(22.0);
                v.achieved_per_s = Some(10.04);
            },
            "achieved_share_min",
            Soundness::Degraded,
            "offered 20/s (22/s as drawn), achieved 10/s",
        ),
        (
            |v, _| v.drift_share = Some(0.4),
            "drift_share_max",
            Soundness::Degraded,
            "the last third of the requests took 40 % longer than the first (limit 25 %)",
        ),
        (
            |v, _| v.error_share = Some(0.05),
            "error_share_max",
            Soundness::Degraded,
            "5 % of the requests failed (limit 1 %)",
        ),
        (
            |v, _| v.truncated_share = Some(0.01),
            "truncated_share_max",
            Soundness::Degraded,
            "1 % of the answers broke off (limit 0 %)",
        ),
        (
            |v, _| v.short_share = Some(0.125),
            "short_share_max",
            Soundness::Degraded,
            "12.5 % of the answers are shorter than asked, in spite of ignore_eos (limit 0 %)",
        ),
        (
            |v, _| v.input_mismatch_share = Some(1.0),
            "input_mismatch_share_max",
            Soundness::Degraded,
            "100 % of the prompts are of another length, by the server's count, than they were made (limit 0 %)",
        ),
        (
            |v, _| v.token_mismatch_share = Some(0.06),
            "token_mismatch_share_max",
            Soundness::Degraded,
            "6 % of the answers have another number of tokens by the server's count than by the tokenizer's (limit 5 %)",
        ),
        (
            |v, _| v.foreign_cpu_during = Some(0.084),
            "foreign_cpu_warn_share",
            Soundness::Degraded,
            "others used 8.4 % of the CPU while measuring",
        ),
    ];
    for (change, limit, verdict, message) in rows {
        let expected = (limit.to_owned(), verdict, message.to_owned());
        assert_eq!(doubts(change), [expected]);
    }
}

#[test]
fn the_worst_doubt_decides() {
    let all = doubts(|v, _| {
        v.error_share = Some(0.5);
        v.client_busy_share = Some(1.0);
    });
    assert_eq!(all.len(), 2);
    assert!(Soundness::ClientBound > Soundness::Degraded);
}

#[test]
fn small_runs_are_not_condemned_by_chance() {
    let rows: [Change; 6] = [
        // One late request of few is the largest value, not a 99th percentile.
        |v, b| {
            b.sent = 19;
            v.dispatch_lag_p99_ms = Some(50.0);
        },
        |v, _| {
            v.in_flight_asked = Some(4);
            v.in_flight_mean = Some(3.8);
        },
        |v, b| {
            b.window_ms = 100.0;
            b.early_wall_ms = Some(1.0);
            v.client_busy_share = Some(1.0);
        },
        // 10 requests at 10/s that take 1 s each end within 2 s: nothing is saturated.
        |v, b| {
            v.offered_per_s = Some(10.0);
            v.achieved_per_s = Some(5.3);
            b.window_ms = 1_900.0;
            b.early_wall_ms = Some(1_000.0);
        },
        // 1 s of wall at the end of 12 s.
        |v, b| {
            v.offered_per_s = Some(10.0);
            v.achieved_per_s = Some(9.2);
            b.window_ms = 12_000.0;
            b.early_wall_ms = Some(1_000.0);
        },
        |v, b| {
            v.drift_share = Some(-0.4);
            b.drift_noise_share = 0.6;
        },
    ];
    for (row, change) in rows.into_iter().enumerate() {
        assert_eq!(doubts(change), [], "row {row}");
    }
    // The median of few is judged.
    let late = doubts(|v, b| {
        b.sent = 5;
        v.dispatch_lag_p50_ms = Some(20.0);
    });
    assert_eq!(late.len(), 1);
}

#[test]
fn two_doubts_keep_the_codes_of_their_warnings() {
    let code = |limit: &str| warning_code(&degraded(limit, String::new())).to_owned();
    assert_eq!(code("foreign_cpu_warn_share"), "foreign_cpu");
    assert_eq!(code("token_mismatch_share_max"), "token_count_mismatch");
    assert_eq!(code("drift_share_max"), "drift_share_max");
}
