//! Tests of [`super`]: figures, ratios and differences.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

fn run(engine: &str, mode: Mode, walls: &[f64]) -> RunWithSamples {
    fixtures::with_walls(fixtures::run("01", engine, mode), walls)
}

fn side(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
    let measured = runs.iter().map(|run| Measured {
        run: &run.run,
        samples: &run.samples,
    });
    measured.collect()
}

fn row<'a>(rows: &'a [Row], metric: &str) -> &'a Row {
    rows.iter().find(|row| row.metric == metric).unwrap()
}

#[test]
fn one_run_a_side() {
    let base = [run("ch01", Mode::Offline, &[100.0; 6])];
    let candidate = [run("ch02", Mode::Offline, &[80.0; 6])];
    let rows = rows(&side(&base), &side(&candidate), true);
    let wall = row(&rows, "wall_ms");
    assert_eq!(
        (wall.base.value, wall.candidate.value),
        (Some(100.0), Some(80.0))
    );
    assert_eq!((wall.ratio, wall.difference), (Some(0.8), Some(-20.0)));
    assert_eq!(row(&rows, "req_per_s").ratio, Some(1.25));
    assert_eq!(row(&rows, "wall_ms_p50").ratio, Some(0.8));
    assert_eq!(row(&rows, "output_tokens").ratio, Some(1.0));
    let p90 = row(&rows, "wall_ms_p90");
    assert_eq!(p90.base.missing.as_deref(), Some("n/a (needs ≥ 36, has 6)"));
    assert_eq!(p90.ratio, None);
    assert!(
        rows.iter().all(|row| row.metric != "ttft_ms"),
        "nobody measured it"
    );
}

#[test]
fn figures_of_several_runs_are_means_of_runs() {
    // Pooled over requests the mean would be 125.
    let base = [
        run("ch01", Mode::Offline, &[100.0; 18]),
        run("ch01", Mode::Offline, &[200.0; 6]),
    ];
    let candidate = [run("ch02", Mode::Offline, &[150.0; 6])];
    let rows = rows(&side(&base), &side(&candidate), true);
    assert_eq!(row(&rows, "wall_ms").base.value, Some(150.0));
    assert_eq!(row(&rows, "req_per_s").base.value, Some(7.5));
    assert_eq!(row(&rows, "wall_ms").ratio, Some(1.0));
}

#[test]
fn what_is_not_comparable_has_figures_only() {
    let base = [run("ch01", Mode::Offline, &[100.0; 6])];
    let rows = rows(&side(&base), &side(&base), false);
    assert!(
        rows.iter()
            .all(|row| row.ratio.is_none() && row.difference.is_none())
    );
    assert_eq!(row(&rows, "wall_ms").base.value, Some(100.0));
}

#[test]
fn clocks_are_not_mixed() {
    let timed = |mode, source| {
        let run = fixtures::run("01", "ch02", mode);
        [fixtures::with_timing(run, &[100.0; 6], source)]
    };
    let offline = timed(Mode::Offline, TimingSource::Engine);
    let online = timed(Mode::Online, TimingSource::Client);
    let rows_of = |base: &[RunWithSamples], candidate: &[RunWithSamples]| {
        rows(&side(base), &side(candidate), true)
    };
    let rows = rows_of(&offline, &online);
    let ttft = row(&rows, "ttft_ms");
    assert_eq!((ttft.base.value, ttft.ratio), (Some(41.25), None));
    assert_eq!(
        ttft.note.as_deref(),
        Some("not compared: the engine's clock against the client's")
    );
    assert_eq!(row(&rows, "wall_ms").ratio, Some(1.0));
    let rows = rows_of(&offline, &offline);
    assert_eq!(row(&rows, "ttft_ms").ratio, Some(1.0));
    let mut mixed = timed(Mode::Offline, TimingSource::Engine);
    mixed[0].samples[3].timing_source = Some(TimingSource::Client);
    let rows = rows_of(&offline, &mixed);
    let note = row(&rows, "tpot_ms").note.as_deref();
    assert_eq!(note, Some("a run mixes two clocks"));
}

#[test]
fn one_side_without_ttft_has_no_ratio() {
    let base = [run("ch01", Mode::Offline, &[100.0; 6])];
    let timed = fixtures::run("02", "ch02", Mode::Offline);
    let candidate = [fixtures::with_timing(
        timed,
        &[100.0; 6],
        TimingSource::Engine,
    )];
    let rows = rows(&side(&base), &side(&candidate), true);
    let ttft = row(&rows, "ttft_ms");
    assert_eq!(ttft.base.missing.as_deref(), Some("not measured"));
    assert_eq!((ttft.candidate.value, ttft.ratio), (Some(41.25), None));
}

#[test]
fn overhead_is_online_less_offline_whichever_is_the_base() {
    let offline = [run("ch01", Mode::Offline, &[100.0; 6])];
    let online = [run(
        "ch01",
        Mode::Online,
        &[100.5, 100.5, 100.5, 100.5, 100.5, 106.5],
    )];
    let expected = Overhead {
        median_ms: Some(0.5),
        mean_ms: Some(1.5),
    };
    assert_eq!(overhead(&side(&offline), &side(&online)), expected);
    assert_eq!(overhead(&side(&online), &side(&offline)), expected);
}
