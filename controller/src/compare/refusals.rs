//! Every reason of NOT COMPARABLE, through [`super::compare`]: its exact words, figures of both sides
//! and no ratio, and a command that makes the sides comparable.

use contracts::run::{Doubt, Mode, RunFailure, RunState, Soundness, Stage};
use contracts::sample::{ErrorClass, TokenSource};

use super::lint::{Reason, ReasonCode};
use super::tests::{compared, compared_by, run};
use super::{Cell, Options};
use crate::cli::tests::assert_can_be_run;
use crate::fixtures;
use crate::record::RunWithSamples;

/// What commands of these tests end with.
const WORK: &str = "--model dummy:tiny-llm --prompt 'Why is the sky blue?' --repeat 5`";

/// ch01 and ch02 offline, alike in all but the engine.
fn sides() -> [RunWithSamples; 2] {
    [
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch02", Mode::Offline, &[90.0; 6]),
    ]
}

/// The one cell of ch01 against ch02 after a change of the candidate.
fn changed(change: impl Fn(&mut RunWithSamples)) -> Cell {
    let mut runs = sides();
    change(&mut runs[1]);
    cell("ch01", "ch02", &runs)
}

fn cell(base: &str, candidate: &str, runs: &[RunWithSamples]) -> Cell {
    let mut comparison = compared(base, candidate, runs);
    assert!(!comparison.comparable());
    comparison.steps.swap_remove(0).cells.swap_remove(0)
}

/// One reason of that kind, in these words, with a command to run; no ratio anywhere.
fn refused(cell: &Cell, code: ReasonCode, words: &str, todo: &str) {
    let [reason]: &[Reason; 1] = cell.reasons.as_slice().try_into().unwrap_or_else(|_| {
        unreachable!("one reason: {:?}", cell.reasons);
    });
    assert_eq!(reason.code, code);
    assert_eq!(reason.message, words);
    assert_eq!(reason.todo, todo);
    assert_can_be_run(&reason.todo);
    assert_eq!(cell.word, format!("NOT COMPARABLE: {words}"));
    let judged = |row: &&super::cell::Row| row.ratio.is_some();
    assert_eq!(cell.rows.iter().find(judged), None);
    let base_figure = |row: &super::cell::Row| row.base.value.is_some();
    assert!(cell.rows.iter().any(base_figure), "figures are shown");
}

/// Both sides in one session.
fn rerun() -> String {
    format!("run `controller run --chapter ch01,ch02 --mode offline {WORK}")
}

#[test]
fn workload() {
    let cell = changed(|side| {
        side.run.workload_key = "w2".to_owned();
        side.run.status.spec.workload.cache = contracts::run::CacheState::Warm;
        side.run.status.spec.workload.n_runs = 10;
    });
    refused(
        &cell,
        ReasonCode::WorkloadDiffers,
        "workloads differ: n_runs 20 ≠ 10, cache as_is ≠ warm",
        &rerun(),
    );
}

#[test]
fn host() {
    let other_host = |side: &mut RunWithSamples| {
        side.run.host_fingerprint = "f2".to_owned();
        side.run.hostname = "bench-2".to_owned();
        side.run.agent_name = "two".to_owned();
    };
    let cell = changed(other_host);
    let run = rerun().replace("--repeat", "--agent two --repeat");
    refused(
        &cell,
        ReasonCode::HostDiffers,
        "hosts differ: bench-1 and bench-2",
        &format!("{run}; --allow-different-hosts gives numbers and no verdict"),
    );

    let mut runs = sides();
    other_host(&mut runs[1]);
    let options = Options {
        allow_different_hosts: true,
        ..Options::default()
    };
    let comparison = compared_by(&["ch01", "ch02"], &runs, &options);
    assert!(comparison.comparable());
    let cell = &comparison.steps[0].cells[0];
    assert_eq!(
        cell.withheld,
        [format!(
            "the hosts differ, bench-1 and bench-2: {run} to have both sides on one"
        )]
    );
    assert!(cell.rows.iter().any(|row| row.ratio == Some(0.9)));
}

#[test]
fn mode() {
    let cell = changed(|side| side.run.status.spec.arm.mode = Mode::Online);
    refused(
        &cell,
        ReasonCode::ModeDiffers,
        "modes differ: offline and online",
        &format!(
            "run `controller run --chapter ch01,ch02 --mode both {WORK}; or ask for two modes with :offline and :online"
        ),
    );
}

#[test]
fn model() {
    let cell = changed(|side| {
        let provenance = side.run.status.provenance.as_mut();
        let model = provenance.and_then(|p| p.model.as_mut());
        model.into_iter().for_each(|m| m.sha256 = "m2".to_owned());
    });
    refused(
        &cell,
        ReasonCode::ModelDiffers,
        "the model's files differ: model sha256 m1 ≠ m2",
        &rerun(),
    );
}

#[test]
fn strict() {
    let mut runs = sides();
    runs[1].run.status.spec.arm.dtype = Some(contracts::run::Dtype::F16);
    let strict = Options {
        strict: true,
        ..Options::default()
    };
    let comparison = compared_by(&["ch01", "ch02"], &runs, &strict);
    let cell = &comparison.steps[0].cells[0];
    refused(
        cell,
        ReasonCode::ArmsDiffer,
        "arms differ (--strict): dtype default ≠ f16",
        &format!("{}; without --strict this is listed and no more", rerun()),
    );
    assert!(compared_by(&["ch01", "ch02"], &runs, &Options::default()).comparable());
}

#[test]
fn tokenizer() {
    let mut runs = sides();
    for (side, hash) in runs.iter_mut().zip(["t1", "t2"]) {
        let provenance = side.run.status.provenance.iter_mut();
        provenance.for_each(|p| p.tokenizer_sha256 = Some(hash.to_owned()));
        for sample in &mut side.samples {
            sample.token_source = Some(TokenSource::Tokenizer);
        }
    }
    refused(
        &cell("ch01", "ch02", &runs),
        ReasonCode::TokenizerDiffers,
        "tokens were counted by two tokenizers: counted by tokenizer t1 ≠ t2",
        &rerun(),
    );
}

#[test]
fn definition() {
    let cell = changed(|side| {
        let provenance = side.run.status.provenance.iter_mut();
        provenance.for_each(|p| p.definition = "v2".to_owned());
    });
    refused(
        &cell,
        ReasonCode::DefinitionDiffers,
        "metrics are defined differently: definition v1 ≠ v2",
        &rerun(),
    );
}

#[test]
fn failed_run() {
    let cell = changed(|side| {
        side.run.status.state = RunState::Failed;
        side.run.status.failure = Some(RunFailure {
            stage: Stage::Preflight,
            message: "cpu is taken".to_owned(),
            log_tail: Vec::new(),
        });
    });
    refused(
        &cell,
        ReasonCode::FailedRun,
        "the candidate's run 2 failed (preflight): cpu is taken",
        &format!("`controller runs show 2` says why; then {}", rerun()),
    );
}

#[test]
fn failed_requests() {
    let cell = changed(|side| {
        let failed = fixtures::failed_sample(6, ErrorClass::HttpStatus);
        side.samples.push(failed);
    });
    refused(
        &cell,
        ReasonCode::FailedRequests,
        "the candidate's run 2 has 1 failed request",
        &format!("`controller runs show 2` says why; then {}", rerun()),
    );
}

#[test]
fn client_bound() {
    let cell = changed(|side| {
        let validity = &mut side.run.status.validity;
        validity.verdict = Soundness::ClientBound;
        validity.doubts.push(Doubt {
            limit: "client_busy_share_max".to_owned(),
            verdict: Soundness::ClientBound,
            message: "the load generator used 91 % of its core".to_owned(),
        });
    });
    refused(
        &cell,
        ReasonCode::ClientBound,
        "the candidate's run 2 is client-bound: the load generator used 91 % of its core",
        &format!(
            "offer fewer requests at a time or fewer a second, or free CPU on bench-1 (`controller calibrate --client` measures its floor); then {}",
            rerun()
        ),
    );
}

#[test]
fn contaminated() {
    let disturb = |side: &mut RunWithSamples| {
        side.run.status.validity.foreign_cpu_during = Some(0.4);
    };
    let words = "others used 40.0 % of the CPU while it measured, more than 25.0 %";
    refused(
        &changed(disturb),
        ReasonCode::Contaminated,
        &format!("the candidate's run 2 is contaminated: {words}"),
        &format!(
            "free bench-1 of what disturbed it, then {}; --all uses such runs too, for numbers and no verdict",
            rerun()
        ),
    );
    let mut runs = sides();
    disturb(&mut runs[1]);
    let options = Options {
        all: true,
        ..Options::default()
    };
    let kept = compared_by(&["ch01", "ch02"], &runs, &options);
    let cell = &kept.steps[0].cells[0];
    assert!(kept.comparable() && cell.rows.iter().any(|row| row.ratio == Some(0.9)));
    assert_eq!(
        cell.withheld,
        [format!(
            "contaminated runs were kept (--all): the candidate's run 2: {words}"
        )]
    );
}

#[test]
fn nothing_measured() {
    let cell = changed(|side| side.samples.clear());
    refused(
        &cell,
        ReasonCode::NothingMeasured,
        "the candidate's run 2 has no successful request",
        &format!("`controller runs show 2` says why; then {}", rerun()),
    );
}

#[test]
fn same_runs() {
    let mut runs = sides();
    runs[1].run.label = Some("nightly".to_owned());
    let todo = format!(
        "run `controller run --chapter ch02,ch02 --mode offline {WORK}, two arms of one engine; or name two arms (#a, #b), two builds (%BUILD) or two runs (run:ID)"
    );
    refused(
        &cell("ch02", "label:nightly", &runs),
        ReasonCode::SameRuns,
        "both sides are the same runs",
        &todo,
    );
    refused(
        &cell("ch02", "ch02", &runs),
        ReasonCode::SameRuns,
        "ch02 against itself, and its newest session has one run of it",
        &todo,
    );
}

#[test]
fn ambiguous_arm() {
    let mut runs = sides().to_vec();
    let mut more_threads = run("3", "ch02", Mode::Offline, &[80.0; 6]);
    more_threads.run.arm_letter = "c".to_owned();
    runs.push(more_threads);
    for (side, letter) in runs.iter_mut().zip(["a", "b", "c"]) {
        side.run.arm_letter = letter.to_owned();
    }
    refused(
        &cell("ch01", "ch02", &runs),
        ReasonCode::AmbiguousArm,
        "the candidate names 2 arms of session 01SESSION: #b (ch02), #c (ch02)",
        "name one arm a side, as in `controller compare ch01 ch02#b`",
    );
    refused(
        &cell("session:01S", "session:01S", &runs),
        ReasonCode::AmbiguousArm,
        "session:01S names 3 arms of session 01SESSION: #a (ch01), #b (ch02), #c (ch02)",
        "name one arm a side, as in `controller compare session:01S#a session:01S#b`",
    );
}

#[test]
fn mixed_side() {
    // An old build of ch01 in block 0, the new one in block 1, which ch02 has not.
    let mut runs = sides().to_vec();
    runs.push(run("3", "ch01", Mode::Offline, &[95.0; 6]));
    runs[2].run.block = 1;
    runs[2].run.created_unix_ms += 1;
    for side in &mut runs {
        side.run.session.run_order = "abba".to_owned();
    }
    let old = runs[0].run.status.provenance.iter_mut();
    old.for_each(|p| p.engine_build = Some("0.1.0+old".to_owned()));
    refused(
        &cell("ch01", "ch02", &runs),
        ReasonCode::MixedSide,
        "the base's run 1 is not pooled with the newest run: another build of its engine (0.1.0+old)",
        &rerun(),
    );
}

#[test]
fn outputs_differ() {
    let cell = changed(|side| {
        for sample in &mut side.samples {
            sample.output_ids = Some(vec![5, 6, 9, 9]);
        }
    });
    refused(
        &cell,
        ReasonCode::OutputsDiffer,
        "outputs differ: 6 of 6 requests part at a firm step, first in request 0 at token 2",
        &format!(
            "find out which of ch01 and ch02 is wrong: fast and wrong does not win; then {}",
            rerun()
        ),
    );
}
