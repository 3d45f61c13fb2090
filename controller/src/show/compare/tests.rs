//! Tests of [`super`]: what `compare` prints, its refusals too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::Mode;
use contracts::sample::{ErrorClass, TimingSource};

use super::*;
use crate::compare::tests::compared;
use crate::fixtures;
use crate::record::RunWithSamples;

fn walls(first_ms: f64) -> Vec<f64> {
    (0..20).map(|i| first_ms + f64::from(i) / 8.0).collect()
}

fn arm(id: &str, engine: &str, mode: Mode, letter: &str) -> crate::record::RunRecord {
    let mut run = fixtures::run(id, engine, mode);
    run.arm_letter = letter.to_owned();
    run
}

/// ch01 and ch02 offline; two answers of ch02 part at a near tie.
fn chapters() -> Vec<RunWithSamples> {
    let ch01 = arm("01AAA", "ch01", Mode::Offline, "a");
    let ch02 = arm("01BBB", "ch02", Mode::Offline, "b");
    let mut runs = vec![
        fixtures::with_walls(ch01, &walls(1224.0)),
        fixtures::with_timing(ch02, &walls(1210.5), TimingSource::Engine),
    ];
    for (base, candidate) in [(5, 5), (9, 9)] {
        runs[0].samples[base].firm_steps = Some(2);
        runs[1].samples[candidate].output_ids = Some(vec![5, 6, 70, 8]);
        runs[1].samples[candidate].text = Some("Light bends".to_owned());
    }
    runs
}

#[test]
fn two_chapters() {
    let comparison = compared("ch01", "ch02", &chapters());
    let text = render(&comparison, Format::Text).unwrap();
    insta::assert_snapshot!("compare_text", text);
    let markdown = render(&comparison, Format::Markdown).unwrap();
    insta::assert_snapshot!("compare_markdown", markdown);
}

#[test]
fn the_network_and_server_layer() {
    let offline = arm("01AAA", "ch02", Mode::Offline, "a");
    let online = arm("01BBB", "ch02", Mode::Online, "b");
    let runs = [
        fixtures::with_timing(offline, &walls(1224.0), TimingSource::Engine),
        fixtures::with_timing(online, &walls(1224.625), TimingSource::Client),
    ];
    let comparison = compared("ch02:offline", "ch02:online", &runs);
    let text = render(&comparison, Format::Text).unwrap();
    insta::assert_snapshot!("compare_layer_text", text);
}

#[test]
fn a_refusal_says_why_and_what_to_run() {
    let mut runs = chapters();
    runs[1].run.workload_key = "w2".to_owned();
    runs[1].run.status.spec.workload.n_runs = 21;
    runs[1]
        .samples
        .push(fixtures::failed_sample(20, ErrorClass::HttpStatus));
    let comparison = compared("ch01", "ch02", &runs);
    let text = render(&comparison, Format::Text).unwrap();
    insta::assert_snapshot!("compare_refused_text", text);
    let markdown = render(&comparison, Format::Markdown).unwrap();
    insta::assert_snapshot!("compare_refused_markdown", markdown);
}

#[test]
fn json_has_all_that_the_text_has() {
    let comparison = compared("ch01", "ch02", &chapters());
    let json = render(&comparison, Format::Json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["schema"], 1);
    let cell = &document["steps"][0]["cells"][0];
    assert_eq!(cell["word"], "no verdict: one run a side");
    assert_eq!(cell["rows"][0]["unit"], "req/s");
    assert_eq!(cell["outputs"]["near_tie"], 2);
    assert_eq!(cell["outputs"]["first_difference"]["candidate"], "5 6 70 8");
}

#[test]
fn what_is_left_out_is_noted() {
    let mut runs = chapters();
    let mut other = runs[0].clone();
    other.run.run_id = "01CCC".to_owned();
    other.run.workload_key = "w9".to_owned();
    runs.push(other);
    let comparison = compared("ch01", "ch02", &runs);
    let text = render(&comparison, Format::Text).unwrap();
    let last = "  left out: 1 of ch01's workloads, which ch02 has not run on the same host\n";
    assert!(text.ends_with(last), "{text}");
}

#[test]
fn a_difference_that_rounds_to_nothing_has_no_sign() {
    assert_eq!(signed(-0.0004, 3), "0.000");
    assert_eq!(signed(-0.0006, 3), "−0.001");
    assert_eq!(signed(1.5, 2), "+1.50");
}

#[test]
fn two_engines_online_in_an_open_loop() {
    let of = |id: &str, engine: &str, letter: &str, first_ms: f64| {
        let mut run = arm(id, engine, Mode::Online, letter);
        run.status.spec.workload.load = contracts::run::Load::Burst {
            max_in_flight: Some(4),
        };
        let mut run = fixtures::with_timing(run, &walls(first_ms), TimingSource::Client);
        for _ in 0..80 {
            run.gaps.push(&[0, 10_000]);
        }
        run
    };
    let runs = [
        of("01AAA", "ch02", "a", 1224.0),
        of("01BBB", "llama-cpp", "b", 1210.5),
    ];
    let comparison = compared("ch02", "engine:llama-cpp", &runs);
    let text = render(&comparison, Format::Text).unwrap();
    insta::assert_snapshot!("compare_online_text", text);
}
