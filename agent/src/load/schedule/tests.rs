//! Schedules span what their rate says, keep a trace's times, and repeat by seed.

use proptest::prelude::*;

use super::*;

fn counts(warmup: usize, measured: usize) -> Counts {
    Counts {
        warmup,
        measured,
        duration: None,
    }
}

fn arrivals() -> impl Strategy<Value = Arrival> {
    prop_oneof![
        Just(Arrival::Constant),
        Just(Arrival::Poisson),
        (0.01f64..100.0).prop_map(|shape| Arrival::Gamma { shape }),
    ]
}

proptest! {
    #[test]
    fn a_schedule_is_in_order_and_spans_what_its_rate_says(
        arrival in arrivals(),
        rate in 0.01f64..100_000.0,
        seed: u64,
        warmup in 0usize..50,
        measured in 1usize..300,
    ) {
        let made = Schedule::open(rate, arrival, seed, counts(warmup, measured)).unwrap();
        prop_assert_eq!(made.offsets_ns.len(), warmup + measured);
        prop_assert!(made.offsets_ns.is_sorted());
        prop_assert_eq!(made.offsets_ns[0], 0);
        let from_ns = warmup as f64 / rate * 1e9;
        prop_assert!((made.offsets_ns[warmup] as f64 - from_ns).abs() <= 1.0 + from_ns * 1e-9);
        let span_ns = measured as f64 / rate * 1e9;
        prop_assert!((made.span_ns as f64 - span_ns).abs() <= 1.0 + span_ns * 1e-9);
        let end_ns = made.offsets_ns[warmup] + made.span_ns;
        prop_assert!(*made.offsets_ns.last().unwrap() <= end_ns + 1);
        let again = Schedule::open(rate, arrival, seed, counts(warmup, measured)).unwrap();
        prop_assert_eq!(made, again);
    }

    #[test]
    fn with_a_duration_all_arrive_within_it(
        arrival in arrivals(),
        rate in 1.0f64..1_000.0,
        seed: u64,
        warmup in 0usize..20,
        duration_ms in 1u64..2_000,
        most in 1usize..500,
    ) {
        let counts = Counts {
            warmup,
            measured: most,
            duration: Some(Duration::from_millis(duration_ms)),
        };
        let made = Schedule::open(rate, arrival, seed, counts).unwrap();
        prop_assert!(made.offsets_ns.is_sorted());
        let measured = &made.offsets_ns[warmup..];
        prop_assert!(!measured.is_empty() && measured.len() <= most);
        prop_assert!(measured.iter().all(|ns| ns - measured[0] < duration_ms * 1_000_000));
    }

    #[test]
    fn a_trace_keeps_its_times_and_its_order(
        mut due_ms in prop::collection::vec(0u64..100_000, 1..40),
        warmup in 0usize..60,
        measured in 1usize..100,
    ) {
        due_ms.sort_unstable();
        let made = Schedule::trace(&due_ms, counts(warmup, measured));
        prop_assert_eq!(made.offsets_ns.len(), warmup + measured);
        prop_assert!(made.offsets_ns.is_sorted());
        let from_ns = made.offsets_ns[warmup];
        for (at, due) in made.offsets_ns[warmup..].iter().zip(&due_ms) {
            prop_assert_eq!(at - from_ns, (due - due_ms[0]) * 1_000_000);
        }
    }
}

/// Mean and coefficient of variation of the measured gaps, in units of the mean gap.
fn moments(arrival: Arrival) -> (f64, f64) {
    let made = Schedule::open(1.0, arrival, 7, counts(0, 20_000)).unwrap();
    let gaps: Vec<f64> = made
        .offsets_ns
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e9)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let var = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    (mean, var.sqrt() / mean)
}

#[test]
fn gaps_have_the_moments_of_their_distribution() {
    for (arrival, cv) in [
        (Arrival::Constant, 0.0),
        (Arrival::Poisson, 1.0),
        (Arrival::Gamma { shape: 1.0 }, 1.0),
        (Arrival::Gamma { shape: 4.0 }, 0.5),
        (Arrival::Gamma { shape: 0.25 }, 2.0),
    ] {
        let (mean, spread) = moments(arrival);
        assert!((mean - 1.0).abs() < 0.001, "{arrival:?}: mean {mean}");
        assert!(
            (spread - cv).abs() < 0.05 * cv + 1e-6,
            "{arrival:?}: {spread} is not {cv}"
        );
    }
}

#[test]
fn the_measured_arrivals_do_not_depend_on_the_warm_up() {
    let gaps = |warmup: usize| -> Vec<u64> {
        let made = Schedule::open(10.0, Arrival::Poisson, 3, counts(warmup, 50)).unwrap();
        let from_ns = made.offsets_ns[warmup];
        made.offsets_ns[warmup..]
            .iter()
            .map(|ns| ns - from_ns)
            .collect()
    };
    let (without, with) = (gaps(0), gaps(9));
    assert_eq!(without, with);
}

#[test]
fn seeds_differ() {
    let of = |seed| Schedule::open(10.0, Arrival::Poisson, seed, counts(0, 50)).unwrap();
    assert_ne!(of(1), of(2));
}

#[test]
fn a_trace_that_is_used_up_begins_again() {
    let made = Schedule::trace(&[100, 110, 130], counts(1, 4));
    let ms: Vec<u64> = made.offsets_ns.iter().map(|ns| ns / 1_000_000).collect();
    // One of warm-up, then the trace from its start, 10 ms later; 15 ms is the mean gap.
    assert_eq!(ms, [0, 10, 20, 40, 55]);
    assert_eq!(made.span_ns, 55_000_000);
    let alone = Schedule::trace(&[5], counts(0, 3));
    assert_eq!(alone.offsets_ns, [0, 0, 0]);
}

#[test]
fn a_duration_with_too_many_arrivals_is_refused_by_field() {
    let counts = Counts {
        warmup: 0,
        measured: N_RUNS_MAX as usize,
        duration: Some(Duration::from_secs(3600)),
    };
    let error = Schedule::open(1_000.0, Arrival::Constant, 0, counts).unwrap_err();
    assert_eq!(
        error.to_string(),
        "workload.duration_ms: 1000/s for 3600s are 3600000 requests; a run has at most 1000000"
    );
}

#[test]
fn a_burst_is_due_at_once() {
    let made = Schedule::burst(counts(2, 3));
    assert_eq!(
        (made.offsets_ns, made.warmup, made.span_ns),
        (vec![0; 5], 2, 0)
    );
}

#[test]
fn times_beyond_all_clocks_are_the_last_one() {
    let made = Schedule::open(1e-300, Arrival::Poisson, 0, counts(2, 3)).unwrap();
    assert!(made.offsets_ns.is_sorted());
    assert_eq!(made.offsets_ns[2..], [u64::MAX; 3]);
    let made = Schedule::trace(&[0, u64::MAX], counts(1, 4));
    assert!(made.offsets_ns.is_sorted());
    assert_eq!(made.offsets_ns[4], u64::MAX);
}
