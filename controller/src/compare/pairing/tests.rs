//! Tests of [`super`]: which runs are chosen.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

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
        ["left out: 1 of ch02's workloads, which ch01:offline has not run on the same host"]
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

/// A session of ch01 (#a) and ch02 (#b) in `abba` order, its runs `a0`, `b0`, `b1`, `a1`, …
fn session(blocks: u32) -> Vec<RunRecord> {
    let mut runs = Vec::new();
    for block in 0..blocks {
        let mut arms = [("a", "ch01"), ("b", "ch02")];
        if block % 2 == 1 {
            arms.reverse();
        }
        for (letter, engine) in arms {
            let position = u32::try_from(runs.len()).unwrap();
            let mut run = run(
                &format!("{letter}{block}"),
                engine,
                "S",
                i64::from(position),
            );
            run.block = block;
            run.position = position;
            run.session.run_order = "abba".to_owned();
            run.session.repeat_count = blocks;
            runs.push(run);
        }
    }
    runs
}

fn with(id: &str, runs: &mut [RunRecord], change: impl Fn(&mut RunRecord)) {
    change(runs.iter_mut().find(|run| run.run_id == id).unwrap());
}

fn one_pair(base: &str, candidate: &str, runs: &[RunRecord]) -> Pair {
    paired(base, candidate, runs).pairs.swap_remove(0)
}

fn side(group: &Group) -> Vec<&str> {
    group.runs().map(|run| run.run_id.as_str()).collect()
}

#[test]
fn an_interleaved_session_is_paired_by_block() {
    let pair = one_pair("ch01", "ch02", &session(5));
    assert_eq!(pair.design, Design::Paired);
    assert_eq!(side(&pair.base), ["a0", "a1", "a2", "a3", "a4"]);
    assert_eq!(side(&pair.candidate), ["b0", "b1", "b2", "b3", "b4"]);
    assert_eq!(pair.order().as_deref(), Some("ABBAABBAAB"));
    assert_eq!((pair.looks, pair.withheld), (1, Vec::new()));
    assert_eq!(pair.excluded, []);
}

#[test]
fn a_session_in_blocked_order_and_two_sessions_are_not_paired() {
    let mut blocked = session(3);
    for run in &mut blocked {
        run.session.run_order = "blocked".to_owned();
    }
    assert_eq!(one_pair("ch01", "ch02", &blocked).design, Design::Unpaired);
    let mut two = session(3);
    for run in two.iter_mut().filter(|run| run.engine == "ch02") {
        run.session_id = "T".to_owned();
    }
    let pair = one_pair("ch01", "ch02", &two);
    assert_eq!((pair.design, pair.order()), (Design::Unpaired, None));
}

#[test]
fn a_failed_run_drops_its_block() {
    let mut runs = session(5);
    with("b1", &mut runs, |run| run.status.state = RunState::Failed);
    with("a3", &mut runs, |run| {
        run.status.state = RunState::Cancelled
    });
    let pair = one_pair("ch01", "ch02", &runs);
    assert_eq!(pair.design, Design::Paired);
    assert_eq!(side(&pair.base), ["a0", "a2", "a4"]);
    assert_eq!(side(&pair.candidate), ["b0", "b2", "b4"]);
    let excluded: Vec<_> = pair
        .excluded
        .iter()
        .map(|e| (&*e.run_id, e.block, &*e.why))
        .collect();
    assert_eq!(
        excluded,
        [
            ("a1", 1, "its block's other run failed"),
            ("b1", 1, "it failed"),
            ("a3", 3, "it was cancelled"),
            ("b3", 3, "its block's other run was cancelled"),
        ]
    );
    assert_eq!(pair.order().as_deref(), Some("ABABAB"));
}

#[test]
fn without_blocks_only_the_failed_run_goes() {
    let mut runs = session(3);
    for run in &mut runs {
        run.session.run_order = "blocked".to_owned();
    }
    with("b1", &mut runs, |run| run.status.state = RunState::Failed);
    let pair = one_pair("ch01", "ch02", &runs);
    assert_eq!(side(&pair.base), ["a0", "a1", "a2"]);
    assert_eq!(side(&pair.candidate), ["b0", "b2"]);
}

#[test]
fn contaminated_runs_are_left_out_or_cost_the_verdict() {
    let mut runs = session(3);
    with("a1", &mut runs, |run| {
        run.status.validity.foreign_cpu_during = Some(0.4);
    });
    let pair = one_pair("ch01", "ch02", &runs);
    assert_eq!(side(&pair.candidate), ["b0", "b2"]);
    assert_eq!(
        pair.excluded[0].why,
        "it is contaminated: others used 40.0 % of the CPU while it measured, more than 25.0 %"
    );
    assert!(pair.withheld.is_empty());

    let options = Options {
        all: true,
        ..Options::default()
    };
    let [base, candidate] = ["ch01", "ch02"].map(|word| Selector::parse(word).unwrap());
    let kept = pair_with(&base, &candidate, &runs, &options);
    assert_eq!(side(&kept.base), ["a0", "a1", "a2"]);
    assert_eq!(
        kept.withheld,
        [
            "contaminated runs were kept (--all): the base's run a1: others used 40.0 % of the CPU while it measured, more than 25.0 %"
        ]
    );
    with("a1", &mut runs, |run| {
        run.status.validity.foreign_cpu_during = Some(0.25);
    });
    let clean = pair_with(&base, &candidate, &runs, &options);
    assert!(clean.withheld.is_empty(), "--all changed nothing");
}

fn pair_with(base: &Selector, candidate: &Selector, runs: &[RunRecord], options: &Options) -> Pair {
    pair(base, candidate, runs, options)
        .unwrap()
        .pairs
        .swap_remove(0)
}

#[test]
fn one_arm_against_itself_is_split_by_block() {
    let mut runs = session(5);
    with("a2", &mut runs, |run| run.status.state = RunState::Failed);
    let pair = one_pair("ch01", "ch01", &runs);
    assert_eq!(pair.design, Design::Unpaired);
    assert_eq!(side(&pair.base), ["a0", "a4"]);
    assert_eq!(side(&pair.candidate), ["a1", "a3"]);
    assert_eq!(
        pair.notes,
        ["ch01 against itself: its blocks 0, 2, 4 against 1, 3"]
    );
    assert!(
        pair.reasons.is_empty() && pair.withheld.is_empty(),
        "{pair:?}"
    );
}

#[test]
fn two_arms_of_one_engine_are_each_other_s_sides() {
    let mut runs = session(3);
    for run in &mut runs {
        run.engine = "ch02".to_owned();
        run.status.spec.arm.engine = contracts::run::EngineRef::Chapter {
            id: "ch02".to_owned(),
        };
    }
    let pair = one_pair("ch02", "ch02", &runs);
    assert_eq!(pair.design, Design::Paired);
    assert_eq!(side(&pair.base), ["a0", "a1", "a2"]);
    assert_eq!(side(&pair.candidate), ["b0", "b1", "b2"]);
    assert_eq!(
        pair.notes,
        ["ch02 has two arms in session S: #a is the base, #b the candidate"]
    );
}

#[test]
fn hosts_that_differ_are_paired_where_that_is_asked_for() {
    let mut runs = session(3);
    for run in runs.iter_mut().filter(|run| run.engine == "ch02") {
        run.host_fingerprint = "f2".to_owned();
        run.hostname = "bench-2".to_owned();
        run.agent_name = "two".to_owned();
    }
    let [base, candidate] = ["ch01", "ch02"].map(|word| Selector::parse(word).unwrap());
    let options = Options {
        allow_different_hosts: true,
        ..Options::default()
    };
    let pair = pair_with(&base, &candidate, &runs, &options);
    assert_eq!(
        (side(&pair.base).len(), side(&pair.candidate).len()),
        (3, 3)
    );
    assert_eq!((pair.design, pair.order()), (Design::Unpaired, None));
    assert_eq!(pair.withheld.len(), 1);
    assert!(
        pair.withheld[0].starts_with("the hosts differ, bench-1 and bench-2: run `controller run "),
        "{:?}",
        pair.withheld
    );
}

#[test]
fn a_run_that_two_files_hold_counts_once() {
    let mut runs = session(3);
    let mut again = runs.clone();
    for run in &mut again {
        run.file = Some("a.json".to_owned());
    }
    runs.extend(again);
    let pair = one_pair("ch01", "ch02", &runs);
    assert_eq!(side(&pair.base), ["a0", "a1", "a2"]);
    assert_eq!(pair.design, Design::Paired);
}
