//! Tests of [`super`]: what `compare` prints, its refusals too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod evidence;
mod numbers_agree;
mod refusals;

use contracts::run::{Load, Mode, RunState};
use contracts::sample::TimingSource;

use super::*;
use crate::compare::judge::Floor;
use crate::compare::tests::{compared, compared_by, compared_with_floor};
use crate::compare::{Options, Vs};
use crate::fixtures::{self, NOON_UNIX_MS};
use crate::record::{RunRecord, RunWithSamples, SessionFacts};

/// How the runs of two equal arms differ: by a percent or less.
const NOISE: [[f64; 5]; 2] = [
    [1.000, 1.006, 0.995, 1.003, 0.998],
    [1.002, 0.997, 1.004, 0.999, 1.001],
];

/// 20 requests around a wall time.
fn walls(first_ms: f64) -> Vec<f64> {
    (0..20)
        .map(|i| first_ms + f64::from(i * 7 % 10) / 8.0)
        .collect()
}

/// Offline, the engine's clock; online, the client's.
fn run_of(record: RunRecord, wall_ms: f64) -> RunWithSamples {
    let source = match record.status.spec.arm.mode {
        Mode::Offline => TimingSource::Engine,
        Mode::Online => TimingSource::Client,
    };
    let mut run = fixtures::with_timing(record, &walls(wall_ms), source);
    for (sample, step) in run.samples.iter_mut().zip(0..) {
        sample.ttft_ms = Some(wall_ms / 30.0 + f64::from(step * 7 % 10) / 100.0);
    }
    fixtures::finish(run.run, run.samples)
}

/// One session, `blocks` passes A B, B A, … over arms of an engine, a mode and a wall time.
fn session(arms: &[(&str, Mode, f64)], blocks: u32) -> Vec<RunWithSamples> {
    let mut runs = Vec::new();
    for block in 0..blocks {
        for (place, (engine, mode, wall_ms)) in (0..).zip(arms) {
            let arms = u32::try_from(arms.len()).unwrap();
            let turn = if block % 2 == 0 {
                place
            } else {
                arms - 1 - place
            };
            let position = block * arms + turn;
            let letter = char::from(b'a' + u8::try_from(place).unwrap());
            let mut run = fixtures::run(&format!("01{position:03}"), engine, *mode);
            run.arm_letter = letter.to_string();
            (run.block, run.position) = (block, position);
            run.created_unix_ms = NOON_UNIX_MS + 60_000 * i64::from(position);
            run.session = SessionFacts {
                run_order: "abba".to_owned(),
                repeat_count: blocks,
                created_unix_ms: NOON_UNIX_MS,
                ..SessionFacts::default()
            };
            let noise = NOISE[place as usize % 2][block as usize % 5];
            runs.push(run_of(run, wall_ms * noise));
        }
    }
    runs.sort_by_key(|run| run.run.position);
    runs
}

/// ch01 at 1224 ms and ch02 at another wall time, offline.
fn chapters(ch02_ms: f64, blocks: u32) -> Vec<RunWithSamples> {
    session(
        &[
            ("ch01", Mode::Offline, 1224.0),
            ("ch02", Mode::Offline, ch02_ms),
        ],
        blocks,
    )
}

fn text(comparison: &Comparison) -> String {
    render(comparison, Format::Text).unwrap()
}

fn with_margin(margin: f64) -> Options {
    Options {
        margin,
        ..Options::default()
    }
}

#[test]
fn faster() {
    let comparison = compared("ch01", "ch02", &chapters(1110.0, 5));
    insta::assert_snapshot!("faster_text", text(&comparison));
    let markdown = render(&comparison, Format::Markdown).unwrap();
    insta::assert_snapshot!("faster_markdown", markdown);
}

#[test]
fn slower() {
    let comparison = compared("ch01", "ch02", &chapters(1322.0, 5));
    insta::assert_snapshot!("slower_text", text(&comparison));
}

#[test]
fn equivalent() {
    let comparison = compared("ch01", "ch02", &chapters(1224.5, 5));
    insta::assert_snapshot!("equivalent_text", text(&comparison));
}

#[test]
fn a_small_difference_may_be_sure_and_practically_nothing() {
    let comparison = compared("ch01", "ch02", &chapters(1200.0, 5));
    insta::assert_snapshot!("practically_equal_text", text(&comparison));
}

#[test]
fn what_the_runs_cannot_show_says_how_many_would() {
    let runs = chapters(1218.0, 5);
    let comparison = compared_by(&["ch01", "ch02"], &runs, &with_margin(0.005));
    insta::assert_snapshot!("no_difference_text", text(&comparison));
}

#[test]
fn a_difference_that_only_holm_denies_says_so() {
    let mut runs = online(1211.5);
    for run in &mut runs {
        for sample in &mut run.samples {
            // TTFTs that do not differ take no part of alpha with them.
            sample.ttft_ms = Some(40.0 * NOISE[0][run.run.position as usize * 3 % 5]);
        }
        *run = fixtures::finish(run.run.clone(), run.samples.clone());
    }
    let comparison = compared_by(&["ch01", "ch02"], &runs, &with_margin(0.002));
    let printed = text(&comparison);
    assert!(
        printed.contains("only Holm's correction for 3 primary metrics"),
        "{printed}"
    );
    insta::assert_snapshot!("only_holm_text", printed);
}

/// ch01 and ch02 online, five blocks.
fn online(ch02_ms: f64) -> Vec<RunWithSamples> {
    session(
        &[
            ("ch01", Mode::Online, 1224.0),
            ("ch02", Mode::Online, ch02_ms),
        ],
        5,
    )
}

#[test]
fn two_runs_a_side_need_a_third() {
    let comparison = compared("ch01", "ch02", &chapters(1110.0, 2));
    insta::assert_snapshot!("two_runs_text", text(&comparison));
}

#[test]
fn one_run_a_side_without_and_with_a_noise_floor() {
    let runs = chapters(1110.0, 1);
    insta::assert_snapshot!("one_run_text", text(&compared("ch01", "ch02", &runs)));
    let floor = Floor {
        log_sd: 0.009,
        run_count: 12,
        measured_unix_ms: NOON_UNIX_MS - 2 * 86_400_000 - 1000,
    };
    let floors = |_: &RunRecord, metric: &str| (metric == "wall_ms_p50").then_some(floor);
    let words = ["ch01", "ch02"];
    let comparison = compared_with_floor(&words, &runs, &Options::default(), &floors);
    insta::assert_snapshot!("one_run_floor_text", text(&comparison));
}

#[test]
fn a_failed_run_takes_its_block_with_it() {
    let mut runs = chapters(1110.0, 5);
    let failed = runs.iter_mut().find(|run| run.run.engine == "ch02");
    failed.unwrap().run.status.state = RunState::Failed;
    let comparison = compared("ch01", "ch02", &runs);
    insta::assert_snapshot!("excluded_text", text(&comparison));
}

#[test]
fn different_hosts_have_numbers_and_no_verdict_where_that_is_asked_for() {
    let mut runs = chapters(1110.0, 3);
    for run in runs.iter_mut().filter(|run| run.run.engine == "ch02") {
        run.run.host_fingerprint = "f2".to_owned();
        run.run.hostname = "bench-2".to_owned();
    }
    let options = Options {
        allow_different_hosts: true,
        ..Options::default()
    };
    let comparison = compared_by(&["ch01", "ch02"], &runs, &options);
    insta::assert_snapshot!("withheld_text", text(&comparison));
}

#[test]
fn one_arm_against_itself_is_split_by_block() {
    let comparison = compared("ch01", "ch01", &chapters(1110.0, 6));
    insta::assert_snapshot!("split_text", text(&comparison));
}

#[test]
fn several_sides_each_against_the_one_before() {
    let runs = session(
        &[
            ("ch01", Mode::Offline, 1224.0),
            ("ch02", Mode::Offline, 1110.0),
            ("ch04", Mode::Offline, 612.0),
        ],
        4,
    );
    let options = Options {
        vs: Vs::Previous,
        ..Options::default()
    };
    let comparison = compared_by(&["ch01", "ch02", "ch04"], &runs, &options);
    insta::assert_snapshot!("previous_text", text(&comparison));
    let first = compared_by(&["ch01", "ch02", "ch04"], &runs, &Options::default());
    let printed = text(&first);
    assert!(
        printed.contains("all steps, each against the first"),
        "{printed}"
    );
    assert!(!printed.contains("product"), "{printed}");
}

#[test]
fn the_network_and_server_layer_costs_milliseconds() {
    let runs = session(
        &[
            ("ch02", Mode::Offline, 1224.0),
            ("ch02", Mode::Online, 1225.5),
        ],
        5,
    );
    let comparison = compared("ch02:offline", "ch02:online", &runs);
    insta::assert_snapshot!("overhead_text", text(&comparison));
    let once: Vec<RunWithSamples> = runs.into_iter().filter(|run| run.run.block == 0).collect();
    let printed = text(&compared("ch02:offline", "ch02:online", &once));
    let line = "online − offline, each request: +3.951ms (medians), +3.951ms (means); an interval needs 3 runs a side\n";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn an_open_loop_is_judged_from_due() {
    let mut runs = online(1110.0);
    for run in &mut runs {
        run.run.status.spec.workload.load = Load::Burst {
            max_in_flight: Some(4),
        };
        for _ in 0..80 {
            run.gaps.push(&[0, 10_000]);
        }
    }
    let comparison = compared("ch01", "ch02", &runs);
    insta::assert_snapshot!("open_loop_text", text(&comparison));
}

#[test]
fn only_the_metrics_that_are_asked_for_are_shown_and_all_primaries_are_judged() {
    let mut comparison = compared("ch01", "ch02", &online(1110.0));
    let word = comparison.steps[0].cells[0].word.clone();
    comparison
        .show_only(&["ttft_ms_p50".to_owned(), "wall_ms".to_owned()])
        .unwrap();
    assert_eq!(comparison.steps[0].cells[0].word, word);
    insta::assert_snapshot!("metric_text", text(&comparison));
}

#[test]
fn json_has_the_runs_and_what_it_rests_on() {
    let comparison = compared("ch01", "ch02", &chapters(1110.0, 5));
    let json = render(&comparison, Format::Json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["rules"]["margin"], 0.05);
    let cell = &document["steps"][0]["cells"][0];
    let rows = cell["rows"].as_array().unwrap();
    let wall = rows
        .iter()
        .find(|row| row["metric"] == "wall_ms_p50")
        .unwrap();
    assert_eq!(wall["verdict"]["word"], "faster");
    assert_eq!(wall["primary"], true);
    let runs = wall["candidate_runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    assert_eq!(runs[1]["run_id"], "01002");
    assert_eq!(runs[1]["block"], 1);
    assert!(wall["effect"]["interval"][0].is_f64());
    let provenance = &cell["provenance"];
    assert_eq!(provenance["base"]["engine_build"], "0.1.0+abc1234");
    assert_eq!(provenance["base"]["dirty"], false);
    assert_eq!(provenance["base"]["profile"], "release");
    assert_eq!(provenance["model_sha256"], "m1");
    assert_eq!(provenance["runs"], serde_json::json!([5, 5]));
    assert_eq!(provenance["sessions"][0]["run_order"], "abba");
    assert_eq!(provenance["rules"]["alpha"], 0.05);
    assert_eq!(cell["overall"]["faster"], 1);
}

#[test]
fn what_is_left_out_is_noted() {
    let mut runs = chapters(1110.0, 3);
    let mut other = runs[0].clone();
    other.run.run_id = "01CCC".to_owned();
    other.run.workload_key = "w9".to_owned();
    runs.push(other);
    let printed = text(&compared("ch01", "ch02", &runs));
    let last =
        "  left out: 1 of ch01's workloads on a host and in a mode, which ch02 has not run\n";
    assert!(printed.ends_with(last), "{printed}");
}
