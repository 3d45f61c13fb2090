//! Tests of [`super`]: figures, ratios and differences.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::Mode;
use contracts::sample::{TimingSource, TokenSource};

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

fn run(engine: &str, mode: Mode, walls: &[f64]) -> RunWithSamples {
    fixtures::with_walls(fixtures::run("01", engine, mode), walls)
}

fn side(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
    runs.iter().map(fixtures::in_comparison).collect()
}

fn terms(comparable: bool) -> Terms<'static> {
    Terms {
        comparable,
        withheld: None,
        design: Design::Unpaired,
        rules: Rules {
            alpha: 0.05,
            margin: 0.05,
            looks: 1,
        },
        floor: &|_| None,
    }
}

fn row<'a>(rows: &'a [Row], metric: &str) -> &'a Row {
    rows.iter().find(|row| row.metric == metric).unwrap()
}

#[test]
fn one_run_a_side() {
    let base = [run("ch01", Mode::Offline, &[100.0; 6])];
    let candidate = [run("ch02", Mode::Offline, &[80.0; 6])];
    let rows = rows(&side(&base), &side(&candidate), &terms(true));
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
    let rows = rows(&side(&base), &side(&candidate), &terms(true));
    assert_eq!(row(&rows, "wall_ms").base.value, Some(150.0));
    assert_eq!(row(&rows, "req_per_s").base.value, Some(7.5));
    assert_eq!(row(&rows, "wall_ms").ratio, Some(1.0));
}

#[test]
fn what_is_not_comparable_has_figures_only() {
    let base = [run("ch01", Mode::Offline, &[100.0; 6])];
    let rows = rows(&side(&base), &side(&base), &terms(false));
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
        rows(&side(base), &side(candidate), &terms(true))
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
fn events_are_not_compared_with_tokens() {
    let base = [run("ch01", Mode::Online, &[100.0; 6])];
    let mut candidate = [run("ch02", Mode::Online, &[100.0; 6])];
    for sample in &mut candidate[0].samples {
        sample.token_source = Some(TokenSource::Events);
    }
    let rows_of = |base: &[RunWithSamples], candidate: &[RunWithSamples]| {
        rows(&side(base), &side(candidate), &terms(true))
    };
    let mixed = rows_of(&base, &candidate);
    for metric in ["tok_per_s", "output_tokens"] {
        let row = row(&mixed, metric);
        assert_eq!((row.ratio, row.difference), (None, None), "{metric}");
        assert!(row.note.as_ref().unwrap().contains("--tokenizer"));
    }
    assert_eq!(row(&mixed, "req_per_s").ratio, Some(1.0));
    let alike = rows_of(&candidate, &candidate);
    assert_eq!(row(&alike, "tok_per_s").ratio, Some(1.0));
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
    let rows = rows(&side(&base), &side(&candidate), &terms(true));
    let ttft = row(&rows, "ttft_ms");
    assert_eq!(ttft.base.missing.as_deref(), Some("not measured"));
    assert_eq!((ttft.candidate.value, ttft.ratio), (Some(41.25), None));
}

#[test]
fn online_runs_are_judged_by_medians_and_by_tails_where_they_have_the_requests() {
    let timed = |n: usize| {
        let run = fixtures::run("01", "ch02", Mode::Online);
        [fixtures::with_timing(
            run,
            &vec![100.0; n],
            TimingSource::Client,
        )]
    };
    let primary = |runs: &[RunWithSamples], mode: &str| {
        let rows = rows(&side(runs), &side(runs), &terms(true));
        let primary = rows.iter().filter(|row| row.primary);
        let names: Vec<String> = primary.map(|row| row.metric.clone()).collect();
        assert!(rows.iter().any(|row| row.metric == "ttft_ms_p50"), "{mode}");
        names
    };
    let few = primary(&timed(20), "few");
    assert_eq!(few, ["tok_per_s", "wall_ms_p50", "ttft_ms_p50"]);
    let mut many = timed(72);
    assert_eq!(
        primary(&many, "many"),
        ["tok_per_s", "wall_ms_p95", "ttft_ms_p95"]
    );
    many[0].run.status.spec.workload.load = contracts::run::Load::Burst {
        max_in_flight: None,
    };
    let open = primary(&many, "open");
    assert_eq!(open, ["tok_per_s", "wall_from_due_ms_p95", "ttft_ms_p95"]);
}

#[test]
fn gaps_between_events_are_compared_where_both_have_them() {
    let run = fixtures::run("01", "ch02", Mode::Online);
    let mut base = [fixtures::with_timing(
        run,
        &[100.0; 6],
        TimingSource::Client,
    )];
    let of = |base: &[RunWithSamples], candidate: &[RunWithSamples]| {
        rows(&side(base), &side(candidate), &terms(true))
    };
    assert!(
        of(&base, &base)
            .iter()
            .all(|row| !row.metric.starts_with("itl"))
    );
    base[0]
        .gaps
        .push(&[0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
    let mut candidate = base.clone();
    candidate[0].gaps.push(&[0; 14]);
    let rows = of(&base, &candidate);
    let itl = row(&rows, "itl_ms_p50");
    assert_eq!(
        (itl.base.value, itl.candidate.value),
        (Some(10.0), Some(0.0))
    );
    assert_eq!((itl.ratio, itl.difference), (Some(0.0), Some(-10.0)));
    let p95 = row(&rows, "itl_ms_p95").base.missing.as_deref();
    assert_eq!(p95, Some("n/a (needs ≥ 72, has 6)"));
}
