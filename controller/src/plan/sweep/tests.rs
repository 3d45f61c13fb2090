//! Sweeps of servers whose goodput is known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

const FROM_ONE: Range = Range::Concurrency { from: 1 };

fn at(level: f64, good_per_s: f64) -> Point {
    Point {
        level,
        good_per_s: Some(good_per_s),
        client_bound: false,
    }
}

/// Sweeps a server whose goodput is known; gives the levels in the order of running.
fn sweep(range: Range, server: impl Fn(f64) -> Point) -> (Search, Vec<f64>) {
    let mut search = Search::new(range);
    let mut levels = Vec::new();
    while let Some(level) = search.next() {
        levels.push(level);
        search.take(server(level));
        assert!(levels.len() < 40, "{levels:?}");
    }
    (search, levels)
}

#[test]
fn a_server_that_saturates_is_left_after_two_flat_doublings() {
    let (search, levels) = sweep(FROM_ONE, |n| at(n, 10.0 * n.min(5.0)));
    assert_eq!(levels, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 6.0, 12.0]);
    assert_eq!(search.stop(), Some(Stop::Flat));
    assert_eq!(search.knee(), Some(6.0));
    assert!(search.curve().is_sorted_by(|a, b| a.level < b.level));
}

#[test]
fn goodput_that_falls_ends_the_sweep_on_the_second_fall() {
    let fall = |n: f64| at(n, if n <= 8.0 { n } else { 64.0 / n });
    let (search, levels) = sweep(FROM_ONE, fall);
    assert_eq!(levels, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 6.0, 12.0]);
    assert_eq!(search.stop(), Some(Stop::Fell));
    assert_eq!(search.knee(), Some(8.0));
}

#[test]
fn one_disturbed_point_ends_nothing() {
    let dip = |n: f64| at(n, if n == 4.0 { 1.0 } else { n.min(64.0) });
    let (search, levels) = sweep(FROM_ONE, dip);
    assert!(levels.contains(&64.0), "{levels:?}");
    assert_eq!(search.knee(), Some(64.0));
}

#[test]
fn rates_are_raised_from_where_the_user_says() {
    let range = Range::Rate {
        from_per_s: 0.5,
        arrival: Arrival::Poisson,
        max_in_flight: None,
    };
    let (search, levels) = sweep(range, |rate| at(rate, rate.min(3.0)));
    assert_eq!(levels, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 3.0, 6.0]);
    assert_eq!(search.knee(), Some(3.0));
    assert_eq!(
        range.load(3.0),
        Load::Open {
            rate_per_s: 3.0,
            arrival: Arrival::Poisson,
            max_in_flight: None
        }
    );
    assert_eq!(range.requests(3.0, 20), 30);
    assert_eq!(range.requests(0.5, 20), 20);
}

#[test]
fn it_ends_at_the_highest_load() {
    let from = Range::Concurrency { from: 3_000 };
    let (search, levels) = sweep(from, |n| at(n, n));
    assert_eq!(levels, [3000.0, 4096.0, 3548.0]);
    assert_eq!(search.stop(), Some(Stop::Most));
}

#[test]
fn a_run_that_failed_or_was_bound_by_the_client_ends_the_raising() {
    let failing = |n: f64| Point {
        good_per_s: (n < 4.0).then_some(n),
        ..at(n, 0.0)
    };
    let (search, levels) = sweep(FROM_ONE, failing);
    assert_eq!(
        (search.stop(), search.knee()),
        (Some(Stop::Failed), Some(3.0))
    );
    assert_eq!(levels, [1.0, 2.0, 4.0, 3.0]);
    let bound = |n: f64| Point {
        client_bound: n >= 4.0,
        ..at(n, n)
    };
    let (search, levels) = sweep(FROM_ONE, bound);
    assert_eq!(search.stop(), Some(Stop::ClientBound));
    assert_eq!((search.knee(), levels.len()), (Some(3.0), 4));
    let (search, levels) = sweep(FROM_ONE, |n| Point {
        good_per_s: None,
        ..at(n, 0.0)
    });
    assert_eq!((search.knee(), levels.len()), (None, 1));
}

#[test]
fn without_one_good_request_there_is_no_knee_and_no_use_in_more_load() {
    let (search, levels) = sweep(FROM_ONE, |n| at(n, 0.0));
    assert_eq!((search.stop(), search.knee()), (Some(Stop::NoneGood), None));
    assert_eq!(levels, [1.0, 2.0]);
}

#[test]
fn a_point_has_requests_for_its_load() {
    assert_eq!(FROM_ONE.requests(1.0, 20), 20);
    assert_eq!(FROM_ONE.requests(64.0, 20), 512);
    assert_eq!(FROM_ONE.load(64.0), Load::Closed { concurrency: 64 });
}

proptest! {
    /// Whatever comes: it ends, no level is measured twice, and the knee is one of them.
    #[test]
    fn every_sweep_ends(values in prop::collection::vec((0.0..100.0, 0..8u8), 40), rate: bool) {
        let range = if rate {
            Range::Rate { from_per_s: 0.7, arrival: Arrival::Constant, max_in_flight: None }
        } else {
            FROM_ONE
        };
        let mut search = Search::new(range);
        let mut seen = Vec::new();
        while let Some(level) = search.next() {
            let (good, kind) = values[seen.len()];
            prop_assert!(!seen.contains(&level), "{seen:?} {level}");
            prop_assert!(level <= range.most());
            seen.push(level);
            search.take(Point {
                level,
                good_per_s: (kind != 0).then_some(good),
                client_bound: kind == 1,
            });
        }
        prop_assert!(search.stop().is_some());
        prop_assert!(search.knee().is_none_or(|knee| seen.contains(&knee)));
    }
}

#[test]
fn words_of_a_stop_are_those_of_the_rule() {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    assert!(Stop::Fell.words().contains(&percent(FALL_SHARE)));
    assert!(Stop::Flat.words().contains(&percent(RISE_SHARE)));
    assert!(sound(&at(1.0, 2.0)).unwrap() > 0.0);
}
