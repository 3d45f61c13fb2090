//! Tests of [`super`]: the printed table, blanks and dashes included.

use contracts::run::{Mode, RunFailure, RunState, Stage, Warning};
use contracts::sample::{ErrorClass, TimingSource};

use super::*;
use crate::fixtures;

#[test]
fn without_ttft_and_tpot() {
    let run = fixtures::run("01AAA", "ch01", Mode::Offline);
    let mut run = fixtures::with_walls(run, &[1224.4; 20]);
    for sample in &mut run.samples {
        sample.output_tokens = Some(39);
    }
    let run = fixtures::finish(run.run, run.samples).run;
    let expected = "  ──────────────────────────────────────────────────────\n\
                    \x20 Ch01 baseline — offline (no HTTP)\n\
                    \x20 ──────────────────────────────────────────────────────\n\
                    \x20 Req/s        : 0.82\n\
                    \x20 Tok/s        : 31.9\n\
                    \x20 Wall time    : 1224ms / request\n\
                    \x20 Tokens out   : 39 (avg over 20 runs)\n\
                    \x20 ──────────────────────────────────────────────────────\n";
    assert_eq!(run_table(&run, None), expected);
}

#[test]
fn with_ttft_and_tpot() {
    let run = fixtures::run("01BBB", "ch02", Mode::Online);
    let run = fixtures::with_timing(run, &[1224.4; 20], TimingSource::Client).run;
    let expected = "  ──────────────────────────────────────────────────────\n\
                    \x20 Ch02 token loop — online (HTTP)\n\
                    \x20 ──────────────────────────────────────────────────────\n\
                    \x20 Req/s        : 0.82\n\
                    \x20 Tok/s        : 32.7\n\
                    \x20 Wall time    : 1224ms / request\n\
                    \x20 TTFT         : 41.2ms\n\
                    \x20 TPOT         : 28.70ms\n\
                    \x20 Tokens out   : 40 (avg over 20 runs)\n\
                    \x20 ──────────────────────────────────────────────────────\n";
    assert_eq!(run_table(&run, None), expected);
}

#[test]
fn an_engine_of_others_goes_by_its_name() {
    let mut run = fixtures::run("01AAA", "vllm", Mode::Online);
    let named = |chapter: Option<&str>| EngineRef::Named {
        name: "vllm".to_owned(),
        chapter: chapter.map(str::to_owned),
    };
    run.status.spec.arm.engine = named(None);
    assert_eq!(title(&run), "vllm — online (HTTP)");
    run.status.spec.arm.engine = named(Some("ch02"));
    assert_eq!(title(&run), "vllm ch02 — online (HTTP)");
}

#[test]
fn a_run_without_figures_says_why() {
    let mut run = fixtures::run("01AAA", "ch01", Mode::Online);
    run.status.state = RunState::Failed;
    run.status.failure = Some(RunFailure {
        stage: Stage::Load,
        message: "exit 1 before it was ready".to_owned(),
        log_tail: Vec::new(),
    });
    let table = run_table(&run, None);
    let line = "  No figures   : failed (load): exit 1 before it was ready\n";
    assert!(table.contains(line), "{table}");
    run.status.failure = None;
    run.status.state = RunState::Cancelled;
    let table = run_table(&run, None);
    assert!(
        table.contains(": cancelled, no measured request succeeded\n"),
        "{table}"
    );
}

#[test]
fn footnotes_tell_what_the_table_cannot() {
    let run = fixtures::run("01AAA", "ch01", Mode::Online);
    let mut run = fixtures::with_walls(run, &[100.0, 110.0]);
    let foot = footnotes(&run);
    assert_eq!(
        foot,
        [
            "  beside the wall time: connecting none (one open connection), \
             waiting in the client 0.00ms / request",
            "  CPU used by others while measuring: 2.0 %",
        ]
    );

    for sample in &mut run.samples {
        sample.start_ns = sample.due_ns + 250_000;
        sample.connected_ns = Some(sample.start_ns + 500_000);
        sample.sent_ns = Some(sample.start_ns + 750_000);
    }
    run.samples
        .push(fixtures::failed_sample(2, ErrorClass::HttpStatus));
    run.samples
        .push(fixtures::failed_sample(3, ErrorClass::HttpStatus));
    run.run.status.warnings.push(Warning {
        code: "foreign_cpu".to_owned(),
        message: "others used 6.2 % of the CPU".to_owned(),
    });
    let foot = footnotes(&run);
    assert_eq!(
        foot,
        [
            "  failed requests: 2 of 4 (50.0 %): 2 http_status",
            "  beside the wall time: connecting 0.50ms for each new connection, \
             waiting in the client 0.50ms / request",
            "  CPU used by others while measuring: 2.0 %",
            "  warning: others used 6.2 % of the CPU",
        ]
    );
}

#[test]
fn an_offline_run_has_no_client_to_wait_in() {
    let run = fixtures::run("01AAA", "ch01", Mode::Offline);
    let foot = footnotes(&fixtures::with_walls(run, &[100.0]));
    assert_eq!(foot, ["  CPU used by others while measuring: 2.0 %"]);
}

#[test]
fn figures_of_a_run_that_did_not_end_well_say_so() {
    let run = fixtures::run("01AAA", "ch01", Mode::Offline);
    let mut run = fixtures::with_walls(run, &[100.0]);
    run.run.status.state = RunState::Cancelled;
    assert_eq!(
        footnotes(&run)[0],
        "  cancelled: the figures are of what was measured until then"
    );
}
