//! Tests of [`super`].

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

fn run(mode: Mode, walls: &[f64]) -> RunWithSamples {
    fixtures::with_walls(fixtures::run("01", "ch01", mode), walls)
}

fn side(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
    runs.iter().map(fixtures::in_comparison).collect()
}

#[test]
fn overhead_is_online_less_offline_whichever_is_the_base() {
    let offline = [run(Mode::Offline, &[100.0; 6])];
    let online = [run(
        Mode::Online,
        &[100.5, 100.5, 100.5, 100.5, 100.5, 106.5],
    )];
    let expected = Overhead {
        median_ms: Some(0.5),
        median_interval_ms: None,
        mean_ms: Some(1.5),
        mean_interval_ms: None,
    };
    assert_eq!(overhead(&side(&offline), &side(&online)), expected);
    assert_eq!(overhead(&side(&online), &side(&offline)), expected);
}
