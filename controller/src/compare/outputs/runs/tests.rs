//! Tests of [`super`]: which answers are compared, and sides that disagree with themselves.

use contracts::run::Mode;

use super::super::judge;
use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

/// A run of a session's block with one answer.
fn run(id: &str, cache: CacheState, block: u32, ids: &[u32]) -> RunWithSamples {
    let mut run = fixtures::run(id, "ch02", Mode::Offline);
    run.status.spec.workload.cache = cache;
    run.status.spec.salt = format!("S/{block}");
    let mut sample = fixtures::sample(0, 10.0, 4);
    sample.output_ids = Some(ids.to_vec());
    fixtures::finish(run, vec![sample])
}

fn side(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
    runs.iter().map(fixtures::in_comparison).collect()
}

#[test]
fn cold_prompts_are_compared_within_a_block() {
    let of = |cache| {
        let base = [run("1", cache, 0, &[1]), run("2", cache, 1, &[2])];
        let candidate = [run("3", cache, 1, &[2]), run("4", cache, 2, &[9])];
        judge(&side(&base), &side(&candidate)).line
    };
    assert_eq!(of(CacheState::Cold), "outputs identical 1/1");
    assert_eq!(
        of(CacheState::AsIs),
        "outputs identical 0/2, 2 part at a firm step",
        "the same prompts in every run"
    );
}

#[test]
fn cold_prompts_of_two_sessions_are_not_judged() {
    let base = [run("1", CacheState::Cold, 0, &[1])];
    let mut candidate = [run("2", CacheState::Cold, 0, &[2])];
    candidate[0].run.status.spec.salt = "T/0".to_owned();
    let outputs = judge(&side(&base), &side(&candidate));
    assert_eq!(
        outputs.line,
        "outputs not judged: no two runs were asked the same, since prompts were cold"
    );
}

#[test]
fn a_side_that_disagrees_with_itself_is_told() {
    let runs = [
        run("1", CacheState::AsIs, 0, &[1]),
        run("2", CacheState::AsIs, 1, &[1]),
        run("3", CacheState::AsIs, 2, &[7]),
    ];
    assert_eq!(unsteady("base", &side(&runs[..2])), None);
    assert_eq!(
        unsteady("base", &side(&runs)).as_deref(),
        Some("the base is not deterministic: its run 3 answers 1 request otherwise than its run 1")
    );
    let cold = [
        run("1", CacheState::Cold, 0, &[1]),
        run("2", CacheState::Cold, 1, &[7]),
    ];
    assert_eq!(unsteady("base", &side(&cold)), None, "other prompts");
}

#[test]
fn of_unequal_sides_no_run_goes_unseen() {
    let right = |id: &str| run(id, CacheState::AsIs, 0, &[1]);
    let base = [right("1")];
    let candidate = [right("2"), right("3"), run("4", CacheState::AsIs, 2, &[9])];
    let expected = "outputs identical 2/3, 1 part at a firm step";
    assert_eq!(judge(&side(&base), &side(&candidate)).line, expected);
    assert_eq!(judge(&side(&candidate), &side(&base)).line, expected);
}
