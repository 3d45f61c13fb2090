//! Tests of [`super`].
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::compare::judge::Rules;
use crate::fixtures;
use crate::record::RunWithSamples;

fn run(mode: Mode, walls: &[f64]) -> RunWithSamples {
    fixtures::with_walls(fixtures::run("01", "ch01", mode), walls)
}

fn side(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
    runs.iter().map(fixtures::in_comparison).collect()
}

fn terms(design: Design) -> Terms<'static> {
    Terms {
        comparable: true,
        withheld: None,
        design,
        rules: Rules {
            alpha: 0.05,
            margin: 0.05,
            looks: 1,
        },
        floor: &|_| None,
    }
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
    let terms = terms(Design::Unpaired);
    assert_eq!(overhead(&side(&offline), &side(&online), &terms), expected);
    assert_eq!(overhead(&side(&online), &side(&offline), &terms), expected);
}

#[test]
fn three_runs_a_side_have_an_interval_and_blocks_narrow_it() {
    let of = |mode, walls: [f64; 3]| walls.map(|wall| run(mode, &[wall; 6]));
    // The host gets slower from block to block; the layer costs about 1 ms in each.
    let offline = of(Mode::Offline, [100.0, 110.0, 120.0]);
    let online = of(Mode::Online, [101.0, 111.1, 120.9]);
    let interval = |design| {
        let overhead = overhead(&side(&offline), &side(&online), &terms(design));
        assert!((overhead.median_ms.unwrap() - 1.0).abs() < 1e-9);
        overhead.median_interval_ms.unwrap()
    };
    let (low, high) = interval(Design::Paired);
    // Differences 1.0, 1.1, 0.9: 1 ± 4.3027·0.1/√3.
    assert!((low - 0.7516).abs() < 1e-3 && (high - 1.2484).abs() < 1e-3);
    let (low, high) = interval(Design::Unpaired);
    assert!(low < 0.0 && high > 2.0, "drift is in it");
    let two = overhead(
        &side(&offline[..2]),
        &side(&online[..2]),
        &terms(Design::Paired),
    );
    assert_eq!(two.median_interval_ms, None);
}
