//! Tests of [`super`]: which runs are chosen.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sessions;

use contracts::run::Mode;

use super::*;
use crate::compare::lint::ReasonCode;
use crate::fixtures;

/// A run of an engine's arm in a session, made `age` minutes after noon.
fn run(id: &str, engine: &str, session: &str, age: i64) -> RunRecord {
    let mut run = fixtures::run(id, engine, Mode::Offline);
    run.session_id = session.to_owned();
    run.arm_letter = if engine == "ch01" { "a" } else { "b" }.to_owned();
    run.created_unix_ms += age * 60_000;
    run
}

fn online(mut run: RunRecord) -> RunRecord {
    run.status.spec.arm.mode = Mode::Online;
    run.arm_letter = run.arm_letter.to_uppercase();
    run
}

fn paired(base: &str, candidate: &str, runs: &[RunRecord]) -> Pairing {
    let base = Selector::parse(base).unwrap();
    let candidate = Selector::parse(candidate).unwrap();
    pair(&base, &candidate, runs, &Options::default()).unwrap()
}

/// Ids of both sides of each pair.
fn ids(pairing: &Pairing) -> Vec<(Vec<&str>, Vec<&str>)> {
    let of = |group: &'static str, pair| -> Vec<&str> {
        let pair: &Pair = pair;
        let group = if group == "base" {
            &pair.base
        } else {
            &pair.candidate
        };
        group.runs().map(|run| run.run_id.as_str()).collect()
    };
    let pairs = pairing.pairs.iter();
    pairs
        .map(|pair| (of("base", pair), of("candidate", pair)))
        .collect()
}

#[test]
fn the_newest_session_with_both_sides_is_taken() {
    let runs = [
        run("1", "ch01", "S1", 1),
        run("2", "ch02", "S1", 2),
        run("3", "ch01", "S2", 3),
        run("4", "ch02", "S2", 4),
        run("5", "ch01", "S3", 5),
    ];
    let pairing = paired("ch01", "ch02", &runs);
    assert_eq!(ids(&pairing), [(vec!["3"], vec!["4"])]);
    assert!(pairing.pairs[0].reasons.is_empty());
    assert!(pairing.pairs[0].notes.is_empty());
    assert_eq!(pairing.run_ids(), ["3", "4"]);
}

#[test]
fn else_the_newest_session_of_each() {
    let runs = [
        run("1", "ch01", "S1", 1),
        run("2", "ch01", "S2", 2),
        run("3", "ch02", "S3", 3),
    ];
    let pairing = paired("ch01", "ch02", &runs);
    assert_eq!(ids(&pairing), [(vec!["2"], vec!["3"])]);
    assert!(pairing.pairs[0].notes[0].contains("different sessions"));
}

#[test]
fn all_runs_of_a_session_are_one_side() {
    let runs = [
        run("1", "ch01", "S", 1),
        run("2", "ch02", "S", 2),
        run("3", "ch02", "S", 3),
        run("4", "ch01", "S", 4),
    ];
    assert_eq!(
        ids(&paired("ch01", "ch02", &runs)),
        [(vec!["1", "4"], vec!["2", "3"])]
    );
}

#[test]
fn builds_are_never_pooled() {
    let mut before = run("1", "ch01", "S", 1);
    if let Some(provenance) = &mut before.status.provenance {
        provenance.engine_build = Some("0.1.0+old".to_owned());
    }
    let runs = [before, run("2", "ch01", "S", 2), run("3", "ch02", "S", 3)];
    let pairing = paired("ch01", "ch02", &runs);
    assert_eq!(ids(&pairing), [(vec!["2"], vec!["3"])]);
    let excluded = &pairing.pairs[0].excluded;
    assert_eq!(excluded.len(), 1);
    assert_eq!(
        (excluded[0].side, excluded[0].why.as_str()),
        (
            "base",
            "it is not pooled with the newest run: another build of its engine (0.1.0+old)"
        )
    );
}

#[test]
fn two_arms_are_one_too_many() {
    let mut other = run("3", "ch02", "S", 3);
    other.arm_letter = "c".to_owned();
    let runs = [run("1", "ch01", "S", 1), run("2", "ch02", "S", 2), other];
    let pairing = paired("ch01", "ch02", &runs);
    let reason = &pairing.pairs[0].reasons[0];
    assert_eq!(reason.code, ReasonCode::AmbiguousArm);
    assert_eq!(
        reason.message,
        "the candidate names 2 arms of session S: #b (ch02), #c (ch02)"
    );
    let pairing = paired("ch02#b", "ch02#c", &runs);
    assert_eq!(ids(&pairing), [(vec!["2"], vec!["3"])]);
    assert!(pairing.pairs[0].reasons.is_empty());
}

/// `controller compare ch02#a ch02#b`, of the first reason.
fn proposed(base: &str, candidate: &str, runs: &[RunRecord]) -> String {
    let todo = &paired(base, candidate, runs).pairs[0].reasons[0].todo;
    todo.split('`').nth(1).unwrap().to_owned()
}

#[test]
fn what_is_proposed_are_two_arms_and_not_one_twice() {
    let mut runs = [
        run("1", "ch02", "S", 1),
        run("2", "ch02", "S", 2),
        run("3", "ch02", "S", 3),
    ];
    for (run, letter) in runs.iter_mut().zip(["a", "b", "c"]) {
        run.arm_letter = letter.to_owned();
    }
    for (base, candidate, expected) in [
        ("ch02#a", "ch02", "ch02#a ch02#b"),
        ("ch02", "ch02#a", "ch02#b ch02#a"),
        ("session:S", "ch02", "session:S#a ch02#b"),
        ("ch02", "ch02", "ch02#a ch02#b"),
    ] {
        let words = proposed(base, candidate, &runs);
        assert_eq!(words, format!("controller compare {expected}"));
    }
}

#[test]
fn an_older_session_stands_against_the_newest_of_the_same_arm() {
    let runs = [run("1", "ch02", "OLD", 1), run("2", "ch02", "NEW", 2)];
    let pairing = paired("session:OLD", "ch02", &runs);
    assert_eq!(ids(&pairing), [(vec!["1"], vec!["2"])]);
    let refused = paired("session:NEW", "ch02", &runs);
    assert_eq!(refused.pairs[0].reasons[0].code, ReasonCode::SameRuns);
}

#[test]
fn one_side_against_itself_is_refused() {
    let runs = [run("1", "ch01", "S", 1)];
    let pairing = paired("ch01", "label:x", &{
        let mut labelled = runs.clone();
        labelled[0].label = Some("x".to_owned());
        labelled
    });
    assert_eq!(pairing.pairs[0].reasons[0].code, ReasonCode::SameRuns);
}

#[test]
fn modes_are_cells_of_their_own_unless_two_are_asked_for() {
    let runs = [
        run("1", "ch01", "S", 1),
        online(run("2", "ch01", "S", 2)),
        run("3", "ch02", "S", 3),
        online(run("4", "ch02", "S", 4)),
    ];
    let pairing = paired("ch01", "ch02", &runs);
    assert!(!pairing.across_modes);
    assert_eq!(
        ids(&pairing),
        [(vec!["2"], vec!["4"]), (vec!["1"], vec!["3"])],
        "the newest cell first"
    );
    let pairing = paired("ch01:offline", "ch01:online", &runs);
    assert!(pairing.across_modes);
    assert_eq!(ids(&pairing), [(vec!["1"], vec!["2"])]);
    let pairing = paired("ch01:offline", "ch02", &runs);
    assert!(!pairing.across_modes);
    assert_eq!(ids(&pairing), [(vec!["1"], vec!["3"])]);
    assert_eq!(
        pairing.notes,
        ["left out: 1 of ch02's workloads on a host and in a mode, which ch01:offline has not run"]
    );
    assert!(paired("run:1", "run:2", &runs).across_modes);
}

#[test]
fn where_nothing_pairs_the_nearest_are_shown() {
    let mut far = run("2", "ch02", "S", 5);
    far.host_fingerprint = "f2".to_owned();
    let mut near = run("3", "ch02", "S", 1);
    near.workload_key = "w2".to_owned();
    let runs = [run("1", "ch01", "S", 0), far, near];
    let pairing = paired("ch01", "ch02", &runs);
    assert_eq!(
        ids(&pairing),
        [(vec!["1"], vec!["3"])],
        "the same host first"
    );
}

#[test]
fn runs_that_have_not_ended_are_no_side() {
    let mut waiting = run("1", "ch01", "S", 1);
    waiting.status.state = RunState::Measuring;
    let mut cancelled = run("2", "ch02", "S", 1);
    cancelled.status.state = RunState::Cancelled;
    let runs = [waiting, cancelled, run("3", "ch03", "S", 1)];
    let error = |base: &str| {
        let base = Selector::parse(base).unwrap();
        pair(
            &base,
            &Selector::parse("ch03").unwrap(),
            &runs,
            &Options::default(),
        )
        .unwrap_err()
    };
    let expected = |word: &str| CompareError::NotEnded {
        word: word.to_owned(),
    };
    assert_eq!(error("ch01"), expected("ch01"));
    assert_eq!(error("ch02"), expected("ch02"));
    assert_eq!(
        ids(&paired("run:2", "ch03", &runs)),
        [(vec!["2"], vec!["3"])]
    );
    assert!(matches!(error("ch09"), CompareError::Selector(_)));
}
