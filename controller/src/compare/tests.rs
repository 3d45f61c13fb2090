//! Tests of [`super`]: from stored runs to the word.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::{Mode, Soundness};

use super::*;
use crate::compare::lint::ReasonCode;
use crate::fixtures;
use crate::record::RunWithSamples;
use crate::selector::Selector;

pub(crate) fn run(id: &str, engine: &str, mode: Mode, walls: &[f64]) -> RunWithSamples {
    let mut run = fixtures::with_walls(fixtures::run(id, engine, mode), walls);
    run.run.arm_letter = format!("{engine}{mode:?}");
    run
}

/// Nobody measured a noise floor, and every chapter but ch12 promises the same tokens.
pub(crate) fn compared_by(
    words: &[&str],
    runs: &[RunWithSamples],
    options: &Options,
) -> Comparison {
    compared_with_floor(words, runs, options, &|_, _| None)
}

/// As [`compared_by`], where somebody measured a noise floor.
pub(crate) fn compared_with_floor(
    words: &[&str],
    runs: &[RunWithSamples],
    options: &Options,
    floor: &dyn Fn(&RunRecord, &str) -> Option<Floor>,
) -> Comparison {
    let sides: Vec<Selector> = words.iter().map(|w| Selector::parse(w).unwrap()).collect();
    let records: Vec<RunRecord> = runs.iter().map(|run| run.run.clone()).collect();
    let steps = options.vs.steps(&sides).into_iter();
    let pairings: Vec<Pairing> = steps
        .map(|(base, candidate)| pairing::pair(base, candidate, &records, options).unwrap())
        .collect();
    let inputs = runs
        .iter()
        .map(|run| (run.run.run_id.clone(), Input::of_samples(run)))
        .collect();
    let known = Known {
        same_tokens: &|chapter| chapter != "ch12",
        floor,
        now_unix_ms: fixtures::NOON_UNIX_MS,
    };
    compare(&pairings, &inputs, &known, options)
}

pub(crate) fn compared(base: &str, candidate: &str, runs: &[RunWithSamples]) -> Comparison {
    compared_by(&[base, candidate], runs, &Options::default())
}

#[test]
fn one_run_a_side_has_no_verdict() {
    let runs = [
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch02", Mode::Offline, &[90.0; 6]),
    ];
    let comparison = compared("ch01", "ch02", &runs);
    assert!(comparison.comparable());
    let cell = &comparison.steps[0].cells[0];
    assert_eq!(cell.kind, CellKind::Engines);
    assert_eq!(
        cell.word,
        "overall (1 primary *, Wall p50): no verdict (1 run a side: needs 3, or a noise floor of this host)"
    );
    assert_eq!(cell.overhead, None);
    assert_eq!(cell.outputs.line, "outputs identical 6/6");
}

#[test]
fn several_runs_a_side_say_how_many() {
    let mut runs = vec![
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch02", Mode::Offline, &[90.0; 6]),
        run("3", "ch02", Mode::Offline, &[90.0; 6]),
    ];
    let word = |runs: &[RunWithSamples]| {
        compared("ch01", "ch02", runs).steps[0].cells[0]
            .word
            .clone()
    };
    assert!(word(&runs).ends_with("no verdict (1 and 2 runs: needs 3 a side)"));
    runs.push(run("4", "ch01", Mode::Offline, &[100.0; 6]));
    assert!(word(&runs).ends_with("no verdict (2 runs a side: needs 3)"));
}

#[test]
fn one_engine_in_two_modes_is_the_layer_between() {
    let runs = [
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch01", Mode::Online, &[100.75; 6]),
    ];
    let comparison = compared("ch01:offline", "ch01:online", &runs);
    let cell = &comparison.steps[0].cells[0];
    assert!(comparison.comparable());
    assert_eq!(cell.kind, CellKind::NetworkLayer);
    assert_eq!(cell.overhead.as_ref().unwrap().median.ms, Some(0.75));
    assert_eq!(cell.differences[0].field, "mode");
}

#[test]
fn two_modes_of_other_options_are_not_the_layer_alone() {
    let mut online = run("2", "ch01", Mode::Online, &[200.0; 6]);
    let options = &mut online.run.status.spec.arm.options;
    options.insert("blocks".to_owned(), "7".to_owned());
    let runs = [run("1", "ch01", Mode::Offline, &[100.0; 6]), online];
    let comparison = compared("ch01:offline", "ch01:online", &runs);
    let cell = &comparison.steps[0].cells[0];
    assert_eq!(cell.kind, CellKind::Engines);
    assert_eq!(cell.overhead, None, "no cost of the server is told");
}

#[test]
fn fast_and_wrong_does_not_win() {
    let base = run("1", "ch01", Mode::Offline, &[100.0; 6]);
    let wrong = |engine: &str| {
        let mut run = run("2", engine, Mode::Offline, &[10.0; 6]);
        for sample in &mut run.samples {
            sample.output_ids = Some(vec![5, 6, 9, 9]);
        }
        run
    };
    let comparison = compared("ch01", "ch02", &[base.clone(), wrong("ch02")]);
    assert!(!comparison.comparable());
    let cell = &comparison.steps[0].cells[0];
    assert_eq!(cell.reasons[0].code, ReasonCode::OutputsDiffer);
    assert_eq!(
        cell.word,
        "NOT COMPARABLE: outputs differ: 6 of 6 requests part at a firm step, \
         first in request 0 at token 2"
    );
    assert!(cell.rows.iter().all(|row| row.ratio.is_none()));

    let near = compared("ch01", "ch12", &[base, wrong("ch12")]);
    assert!(near.comparable(), "it promises other tokens");
    assert_eq!(near.steps[0].cells[0].outputs.parted, 6);
}

#[test]
fn different_work_is_not_comparable() {
    let mut other = run("2", "ch02", Mode::Offline, &[100.0; 6]);
    other.run.workload_key = "w2".to_owned();
    other.run.status.spec.workload.sampling.max_tokens = 20;
    let runs = [run("1", "ch01", Mode::Offline, &[100.0; 6]), other];
    let comparison = compared("ch01", "ch02", &runs);
    assert!(!comparison.comparable());
    assert_eq!(
        comparison.steps[0].cells[0].word,
        "NOT COMPARABLE: workloads differ: max_tokens 40 ≠ 20"
    );
}

#[test]
fn samples_that_are_missing_are_no_figures() {
    let runs = [
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch02", Mode::Offline, &[]),
    ];
    let cell = &compared("ch01", "ch02", &runs).steps[0].cells[0];
    assert_eq!(cell.reasons[0].code, ReasonCode::NothingMeasured);
    assert_eq!(cell.candidate.requests, 0);
}

#[test]
fn warnings_of_the_runs_are_shown() {
    let mut warned = run("2", "ch02", Mode::Offline, &[100.0; 6]);
    warned.run.status.warnings.push(contracts::run::Warning {
        code: "foreign_cpu".to_owned(),
        message: "others used 6.2 % of the CPU".to_owned(),
    });
    let runs = [run("1", "ch01", Mode::Offline, &[100.0; 6]), warned];
    let comparison = compared("ch01", "ch02", &runs);
    assert!(comparison.comparable());
    assert_eq!(
        comparison.steps[0].cells[0].notes,
        ["the candidate's run 2: others used 6.2 % of the CPU"]
    );
}

#[test]
fn a_client_bound_run_is_not_comparable_and_a_degraded_one_says_so() {
    let doubted = |verdict, message: &str| {
        let mut run = run("2", "ch02", Mode::Online, &[100.0; 6]);
        run.run.status.validity.verdict = verdict;
        run.run.status.validity.doubts.push(contracts::run::Doubt {
            limit: "some_limit".to_owned(),
            verdict,
            message: message.to_owned(),
        });
        // The agent tells each doubt as a warning too.
        run.run.status.warnings.push(contracts::run::Warning {
            code: "some_limit".to_owned(),
            message: message.to_owned(),
        });
        run
    };
    let base = run("1", "ch01", Mode::Online, &[100.0; 6]);
    let degraded = doubted(Soundness::Degraded, "offered 20/s, achieved 10/s");
    let comparison = compared("ch01", "ch02", &[base.clone(), degraded]);
    assert!(comparison.comparable());
    assert_eq!(
        comparison.steps[0].cells[0].notes,
        ["the candidate's run 2 is degraded: offered 20/s, achieved 10/s"]
    );

    let bound = doubted(
        Soundness::ClientBound,
        "the load generator used 91 % of its core",
    );
    let comparison = compared("ch01", "ch02", &[base, bound]);
    assert!(!comparison.comparable());
    let cell = &comparison.steps[0].cells[0];
    assert_eq!(cell.reasons[0].code, ReasonCode::ClientBound);
    assert_eq!(
        cell.word,
        "NOT COMPARABLE: the candidate's run 2 is client-bound: the load generator used 91 % of its core"
    );
    assert!(
        cell.notes.is_empty(),
        "the reason says it: {:?}",
        cell.notes
    );
}

#[test]
fn of_two_noise_floors_the_one_that_asks_for_more_is_taken() {
    let floor = |log_sd, run_count| Floor {
        log_sd,
        run_count,
        measured_unix_ms: 0,
    };
    let runs = |mode: Mode| {
        [
            run("1", "ch01", Mode::Offline, &[100.0; 6]),
            run("2", "ch02", mode, &[100.0; 6]),
        ]
    };
    let taken = |runs: &[RunWithSamples], words: [&str; 2], of: [Option<Floor>; 2]| {
        let known = |run: &RunRecord, _: &str| of[usize::from(run.engine == "ch02")];
        let comparison = compared_with_floor(&words, runs, &Options::default(), &known);
        let floors = &comparison.steps[0].cells[0].noise_floors;
        floors.first().map(|known| known.floor.run_count)
    };
    // 5 runs: t is 2.776; 40 runs: 2.023.
    let both = [Some(floor(0.010, 5)), Some(floor(0.012, 40))];
    let alike = runs(Mode::Offline);
    assert_eq!(taken(&alike, ["ch01", "ch02"], both), Some(5));
    let one = [None, Some(floor(0.01, 12))];
    assert_eq!(taken(&alike, ["ch01", "ch02"], one), Some(12));
    // What differs by the mode is another thing.
    let modes = runs(Mode::Online);
    let words = ["ch01:offline", "ch02:online"];
    assert_eq!(taken(&modes, words, both), Some(5));
    assert_eq!(taken(&modes, words, one), None);
}
