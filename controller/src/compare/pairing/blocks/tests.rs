//! Tests of [`super`]: what is used, and why nothing is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::{Mode, RunState};

use super::*;
use crate::fixtures;

fn side(engine: &str, blocks: &[u32]) -> Vec<RunRecord> {
    let run = |block: &u32| {
        let mut run = fixtures::run(&format!("{engine}-{block}"), engine, Mode::Offline);
        run.block = *block;
        run
    };
    blocks.iter().map(run).collect()
}

fn used_of<'a>(base: &'a [RunRecord], candidate: &'a [RunRecord]) -> Used<'a> {
    let base: Vec<&RunRecord> = base.iter().collect();
    let candidate: Vec<&RunRecord> = candidate.iter().collect();
    used(&base, &candidate, true, false)
}

fn blocks(side: &[&RunRecord]) -> Vec<u32> {
    side.iter().map(|run| run.block).collect()
}

#[test]
fn a_run_without_its_block_s_other_run_is_left_out() {
    let (base, candidate) = (side("ch01", &[0, 1, 2]), side("ch02", &[0, 1]));
    let used = used_of(&base, &candidate);
    assert_eq!(used.design, Design::Paired);
    assert_eq!(blocks(&used.base), [0, 1]);
    assert_eq!(used.excluded[0].why, "its block's other run was not made");
}

#[test]
fn sides_come_in_the_order_of_their_blocks() {
    let (base, candidate) = (side("ch01", &[2, 0, 1]), side("ch02", &[1, 2, 0]));
    let used = used_of(&base, &candidate);
    assert_eq!(blocks(&used.base), [0, 1, 2]);
    assert_eq!(blocks(&used.candidate), [0, 1, 2]);
}

#[test]
fn blocks_that_are_not_shared_or_hold_two_runs_pair_nothing() {
    let (base, candidate) = (side("ch01", &[0, 1]), side("ch02", &[5, 6]));
    let apart = used_of(&base, &candidate);
    assert_eq!(apart.design, Design::Unpaired);
    assert_eq!(apart.base.len(), 2);
    let twice = side("ch01", &[0, 0, 1]);
    assert_eq!(used_of(&twice, &candidate).design, Design::Unpaired);
}

#[test]
fn where_nothing_is_left_all_is_shown_with_the_reason() {
    let (mut base, mut candidate) = (side("ch01", &[0, 1]), side("ch02", &[0, 1]));
    base[0].status.state = RunState::Failed;
    candidate[1].status.validity.foreign_cpu_during = Some(0.9);
    let used = used_of(&base, &candidate);
    assert_eq!((used.base.len(), used.candidate.len()), (2, 2));
    assert_eq!(used.design, Design::Unpaired);
    let reason = &used.reasons[0];
    assert_eq!(reason.code, ReasonCode::FailedRun);
    assert_eq!(
        reason.message,
        "the base's run ch01-0 failed; the candidate's run ch02-1 is contaminated: \
         others used 90.0 % of the CPU while it measured, more than 25.0 %"
    );
}

#[test]
fn builds_that_share_no_block_are_a_mixed_side() {
    let (mut base, mut candidate) = (side("ch01", &[0, 1]), side("ch02", &[0, 1]));
    let old = |run: &mut RunRecord| {
        run.status.provenance.as_mut().unwrap().engine_build = Some("old".to_owned());
    };
    old(&mut base[0]);
    let used_one = used_of(&base, &candidate);
    assert_eq!(blocks(&used_one.candidate), [1]);
    assert_eq!(
        used_one.excluded[1].why,
        "its block's other run is of another build or spec"
    );
    candidate.pop();
    let reason = used_of(&base, &candidate).reasons.swap_remove(0);
    assert_eq!(reason.code, ReasonCode::MixedSide);
}

#[test]
fn of_many_faults_the_first_are_named() {
    let mut base = side("ch01", &[0, 1, 2, 3]);
    for run in &mut base {
        run.status.state = RunState::Cancelled;
    }
    let candidate = side("ch02", &[0, 1, 2, 3]);
    let message = used_of(&base, &candidate).reasons.swap_remove(0).message;
    assert_eq!(
        message,
        "the base's run ch01-0 was cancelled; the base's run ch01-1 was cancelled; and 2 more"
    );
}
