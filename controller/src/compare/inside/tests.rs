//! Tests of [`super`].

use contracts::run::Mode;

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

fn told(runs: &[Vec<f64>]) -> Vec<String> {
    let runs: Vec<RunWithSamples> = (0..)
        .zip(runs)
        .map(|(i, walls)| {
            let run = fixtures::run(&format!("01R{i}"), "ch01", Mode::Offline);
            fixtures::with_walls(run, walls)
        })
        .collect();
    let measured = runs.iter().map(fixtures::in_comparison);
    warnings("base", &measured.collect::<Vec<_>>())
}

/// Up, down, and a little of a third thing: neighbours differ, and nothing moves.
fn steady() -> Vec<f64> {
    let walls = (0..20).map(|i| 100.0 + f64::from(i * 7 % 10));
    walls.collect()
}

#[test]
fn steady_runs_are_not_mentioned() {
    assert!(
        told(&[steady(), steady()]).is_empty(),
        "{:?}",
        told(&[steady()])
    );
    assert!(
        told(&[vec![100.0; 20]]).is_empty(),
        "no spread is no warning"
    );
    assert!(told(&[vec![100.0]]).is_empty());
    assert!(told(&[]).is_empty());
}

#[test]
fn drift_names_the_run_that_drifts_most() {
    let rising: Vec<f64> = (0..20).map(|i| 100.0 + 2.0 * f64::from(i)).collect();
    let lines = told(&[steady(), rising, steady()]);
    assert_eq!(
        lines,
        [
            "the base's wall time drifts within 1 of 3 runs, most in 01R1 by +18.3% from its first half to its second"
        ]
    );
}

#[test]
fn neighbours_are_told_where_most_runs_show_it() {
    let waves: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i / 5 % 2)).collect();
    let lines = told(&[waves.clone(), waves.clone(), steady()]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("resemble their neighbours in 2 of 3 runs"),
        "{lines:?}"
    );
    assert!(told(&[waves, steady(), steady()]).is_empty());
}

#[test]
fn outliers_are_counted_and_stay() {
    let mut walls = steady();
    for place in [3, 9, 15] {
        walls[place] = 500.0;
    }
    let lines = told(&[walls]);
    assert_eq!(
        lines,
        [
            "the base's wall times have outliers in 1 of 1 runs, most in 01R0: 3 of 20 requests; none is left out"
        ]
    );
}
