//! Tests of [`super`]: figures, ratios, families and verdicts.
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
    assert!((wall.ratio.unwrap() - 0.8).abs() < 1e-12);
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
fn figures_of_several_runs_are_geometric_means_of_runs() {
    // Pooled over requests the mean would be 125, and the arithmetic one of the runs 250.
    let base = [
        run("ch01", Mode::Offline, &[100.0; 18]),
        run("ch01", Mode::Offline, &[400.0; 6]),
    ];
    let candidate = [run("ch02", Mode::Offline, &[200.0; 6])];
    let rows = rows(&side(&base), &side(&candidate), &terms(true));
    let wall = row(&rows, "wall_ms");
    assert!((wall.base.value.unwrap() - 200.0).abs() < 1e-9);
    assert!((row(&rows, "req_per_s").base.value.unwrap() - 5.0).abs() < 1e-9);
    assert!((wall.ratio.unwrap() - 1.0).abs() < 1e-12);
    let logs_apart = 4f64.ln() / 2f64.sqrt();
    assert!((wall.base.spread.unwrap() - logs_apart).abs() < 1e-12);
    assert_eq!(wall.candidate.spread, None, "one run has no spread");
    let values: Vec<f64> = wall.base_runs.iter().map(|run| run.value).collect();
    assert_eq!(values, [100.0, 400.0]);
}

#[test]
fn what_is_not_comparable_has_figures_only() {
    let base = [run("ch01", Mode::Offline, &[100.0; 6])];
    let rows = rows(&side(&base), &side(&base), &terms(false));
    assert!(
        rows.iter()
            .all(|row| row.ratio.is_none() && row.verdict.is_none() && row.effect.is_none())
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
        assert_eq!(row.ratio, None, "{metric}");
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
    assert_eq!(itl.ratio, None, "0 has no logarithm");
    assert_eq!(
        itl.note.as_deref(),
        Some("no ratio: a run's value is 0, negative or not finite")
    );
    let p95 = row(&rows, "itl_ms_p95").base.missing.as_deref();
    assert_eq!(p95, Some("n/a (needs ≥ 72, has 6)"));
}

/// `n` runs whose walls lie around `wall_ms`, 1 % apart from each other.
fn several(engine: &str, mode: Mode, wall_ms: f64, n: u32) -> Vec<RunWithSamples> {
    let runs = (0..n).map(|i| {
        let wall_ms = wall_ms * (1.0 + f64::from(i % 3) / 100.0);
        let mut run = fixtures::run(&format!("{engine}{i}"), engine, mode);
        run.block = i;
        fixtures::with_timing(run, &[wall_ms; 6], TimingSource::Client)
    });
    runs.collect()
}

#[test]
fn primaries_have_verdicts_and_all_else_is_exploratory() {
    let base = several("ch01", Mode::Online, 100.0, 5);
    let candidate = several("ch02", Mode::Online, 120.0, 5);
    let rows = rows(&side(&base), &side(&candidate), &terms(true));
    for row in &rows {
        assert_eq!(row.verdict.is_some(), row.primary, "{}", row.metric);
    }
    let wall = row(&rows, "wall_ms_p50");
    assert!(matches!(wall.verdict, Some(Verdict::Slower { .. })));
    let effect = wall.effect.as_ref().unwrap();
    let of_figures = wall.candidate.value.unwrap() / wall.base.value.unwrap();
    assert!(effect.interval.0 < of_figures && of_figures < effect.interval.1);
    assert!((wall.ratio.unwrap() - of_figures).abs() < 1e-12);
    assert!(effect.p_holm.unwrap() >= effect.p);
    let mean = row(&rows, "wall_ms").effect.as_ref().unwrap();
    assert_eq!(mean.p_holm, None, "outside of a family");
    // Every request has the same TTFT: nothing says how much it varies.
    let ttft = row(&rows, "ttft_ms_p50");
    assert!(matches!(ttft.verdict, Some(Verdict::None { .. })));
    assert_eq!(wall.base_runs[4].block, 4);
    assert_eq!(wall.candidate_runs[0].run_id, "ch020");
}

#[test]
fn withheld_verdicts_leave_the_numbers() {
    let base = several("ch01", Mode::Offline, 100.0, 5);
    let candidate = several("ch02", Mode::Offline, 120.0, 5);
    let terms = Terms {
        withheld: Some("hosts differ"),
        ..terms(true)
    };
    let rows = rows(&side(&base), &side(&candidate), &terms);
    let wall = row(&rows, "wall_ms_p50");
    assert!(wall.effect.is_some());
    let why = "hosts differ".to_owned();
    assert_eq!(wall.verdict, Some(Verdict::None { why }));
}

#[test]
fn a_metric_that_one_engine_cannot_have_is_no_primary() {
    let plain = [run("ch01", Mode::Online, &[100.0; 6])];
    let timed = several("ch02", Mode::Online, 100.0, 1);
    let rows = rows(&side(&plain), &side(&timed), &terms(true));
    let ttft = row(&rows, "ttft_ms_p50");
    assert!(!ttft.primary);
    let note = ttft.note.as_deref().unwrap();
    assert!(note.starts_with("a primary metric that one side did not measure"));
    assert!(row(&rows, "tok_per_s").primary);
    // Too few requests are something else: then it is judged by, and there is no verdict.
    let few = [run("ch01", Mode::Online, &[100.0; 3])];
    let rows = super::rows(&side(&few), &side(&plain), &terms(true));
    let wall = row(&rows, "wall_ms_p50");
    assert!(wall.primary);
    let why = "n/a (needs ≥ 6, has 3)".to_owned();
    assert_eq!(wall.verdict, Some(Verdict::None { why }));
}

#[test]
fn one_run_a_side_is_looked_at_request_by_request() {
    let walls = |from: f64| (0..20).map(|i| from + f64::from(i)).collect::<Vec<f64>>();
    let base = [run("ch01", Mode::Offline, &walls(1000.0))];
    let candidate = [run("ch02", Mode::Offline, &walls(1100.0))];
    let without = rows(&side(&base), &side(&candidate), &terms(true));
    let wall = row(&without, "wall_ms_p50");
    let pair = wall.within_pair.as_ref().unwrap();
    assert!((pair.ratio - 1.099).abs() < 0.001, "{pair:?}");
    assert!(pair.interval.0 < pair.ratio && pair.ratio < pair.interval.1);
    assert!(matches!(wall.verdict, Some(Verdict::None { .. })));

    let floor = Floor {
        log_sd: 0.01,
        run_count: 12,
        measured_unix_ms: 0,
    };
    let terms = Terms {
        floor: &|metric| (metric == "wall_ms_p50").then_some(floor),
        ..terms(true)
    };
    let with = rows(&side(&base), &side(&candidate), &terms);
    let verdict = row(&with, "wall_ms_p50").verdict.as_ref();
    assert!(
        matches!(verdict, Some(Verdict::Slower { .. })),
        "{verdict:?}"
    );
}
