//! Tests of [`super`]: looks and plans.

use contracts::run::{Mode, RunState};

use super::*;
use crate::cli::tests::assert_can_be_run;
use crate::fixtures;

/// One side of a session of five blocks.
fn side() -> Vec<RunRecord> {
    let run = |block: u32| {
        let mut run = fixtures::run(&format!("0{block}"), "ch02", Mode::Offline);
        run.block = block;
        run.session.repeat_count = 5;
        run
    };
    (0..5).map(run).collect()
}

fn withheld_of(runs: &[RunRecord]) -> Vec<String> {
    let side: Vec<&RunRecord> = runs.iter().collect();
    withheld(&side, &side)
}

#[test]
fn a_session_that_ended_as_planned_may_have_a_verdict() {
    let mut runs = side();
    runs[2].status.state = RunState::Failed;
    assert_eq!(withheld_of(&runs), [] as [String; 0], "it ended by itself");
    assert_eq!(looks(&runs[0], &runs[1]), 1);
}

#[test]
fn declared_extensions_cost_alpha_and_others_the_verdict() {
    let extended = |declared: u32, times: u32| {
        let mut runs = side();
        for look in 1..=times {
            let mut more = side();
            for run in &mut more {
                run.look = look;
                run.block += 5 * look;
            }
            runs.extend(more);
        }
        for run in &mut runs {
            run.session.max_extend = declared;
            run.session.extended_count = times;
            run.session.planned_count = 5 * (1 + times);
        }
        runs
    };
    let declared = extended(2, 1);
    assert!(withheld_of(&declared).is_empty());
    assert_eq!(looks(&declared[0], &declared[1]), 3, "whether used or not");

    let why = withheld_of(&extended(0, 2));
    assert_eq!(
        why,
        [
            "the session was extended 2 times and did not declare it: run `controller run --chapter ch02,ch02 --mode offline --model dummy:tiny-llm --prompt 'Why is the sky blue?' --repeat 5 --max-extend 2`"
        ]
    );
    let why = withheld_of(&extended(1, 2));
    assert!(
        why[0].starts_with("the session was extended 2 times and declared 1 (--max-extend 1): run"),
        "{why:?}"
    );
}

#[test]
fn a_session_that_was_stopped_has_no_verdict() {
    let mut runs = side();
    runs.truncate(4);
    runs[3].status.state = RunState::Cancelled;
    let why = withheld_of(&runs);
    assert_eq!(
        why,
        [
            "3 of the 5 blocks that session 01SESSION planned of ch02 are there: run `controller run --chapter ch02,ch02 --mode offline --model dummy:tiny-llm --prompt 'Why is the sky blue?' --repeat 5`, and let it end"
        ]
    );
    assert_can_be_run(&why[0]);
    assert_eq!(withheld_of(&runs[..1]).len(), 1, "one run picked by hand");
}

#[test]
fn an_extension_that_was_stopped_or_goes_on_has_no_verdict() {
    let mut runs = side();
    let mut more = side().swap_remove(0);
    more.look = 1;
    more.block = 5;
    runs.push(more);
    for run in &mut runs {
        run.session.max_extend = 1;
        run.session.extended_count = 1;
        run.session.planned_count = 6;
    }
    assert!(withheld_of(&runs).is_empty());
    // Runs under way are no side: of those that were not made there is no run either.
    let why = withheld_of(&runs[..5]);
    assert!(
        why[0].starts_with(
            "5 of the 6 blocks that session 01SESSION planned of ch02 with its extensions are there: wait for an extension that goes on; if it was stopped, run `controller run "
        ),
        "{why:?}"
    );
    assert_can_be_run(&why[0]);
    runs[5].status.state = RunState::Cancelled;
    assert_eq!(withheld_of(&runs), why);
}
