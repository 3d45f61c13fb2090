//! Tests of [`super`]: one run in full, in each format.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::{EventKind, Mode, RunFailure, RunState, Stage};
use contracts::sample::{ErrorClass, TimingSource};

use super::*;
use crate::fixtures;

fn done() -> RunWithSamples {
    let walls: Vec<f64> = (0..40).map(|i| 1200.0 + f64::from(i)).collect();
    let mut run = fixtures::run("01AAA", "ch02", Mode::Online);
    run.label = Some("nightly".to_owned());
    run.tags.insert("gpu".to_owned(), "none".to_owned());
    fixtures::with_timing(run, &walls, TimingSource::Client)
}

fn failed() -> RunWithSamples {
    let mut run = fixtures::run("01BBB", "ch01", Mode::Offline);
    run.status.state = RunState::Failed;
    run.status.provenance = None;
    run.status.lifecycle.killed = true;
    run.status.lifecycle.swept = 2;
    run.status.validity.foreign_cpu_during = None;
    run.status.failure = Some(RunFailure {
        stage: Stage::Measure,
        message: "signal 9 in request 2".to_owned(),
        log_tail: vec!["loading".to_owned(), "out of memory".to_owned()],
    });
    let samples = vec![
        fixtures::sample(0, 1224.5, 40),
        fixtures::failed_sample(1, ErrorClass::Aborted),
    ];
    fixtures::finish(run, samples)
}

#[test]
fn a_finished_run() {
    let text = render(&done(), &[], false, Format::Text).unwrap();
    insta::assert_snapshot!("run_text", text);
    let markdown = render(&done(), &[], false, Format::Markdown).unwrap();
    insta::assert_snapshot!("run_markdown", markdown);
}

#[test]
fn a_failed_run_with_its_requests_and_log() {
    let text = render(&failed(), &[], true, Format::Text).unwrap();
    insta::assert_snapshot!("run_failed_text", text);
    let markdown = render(&failed(), &[], true, Format::Markdown).unwrap();
    insta::assert_snapshot!("run_failed_markdown", markdown);
}

#[test]
fn json_has_all_that_the_text_has() {
    let run = done();
    let events = [RunEvent {
        seq: 1,
        at_ms: 7,
        what: EventKind::Log {
            line: "loading".to_owned(),
        },
    }];
    let json = render(&run, &events, true, Format::Json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["schema"], 1);
    let record: RunRecord = serde_json::from_value(document["run"].clone()).unwrap();
    assert_eq!(record, run.run);
    assert_eq!(document["wall_ms_percentiles"][0]["name"], "p50");
    assert_eq!(
        document["wall_ms_percentiles"][0]["percentile"]["value"],
        1219.5
    );
    assert_eq!(
        document["wall_ms_percentiles"][3]["percentile"]["needs"],
        368
    );
    assert_eq!(document["footnotes"].as_array().unwrap().len(), 3);
    let ttft = &document["figures"]["latency"]["ttft_ms"];
    assert_eq!((&ttft["n"], &ttft["mean"]), (&40.into(), &41.25.into()));
    assert_eq!(ttft["p90"]["kind"], "known");
    assert_eq!(ttft["p99.9"]["needs"], 3688);
    assert_eq!(document["figures"]["counts"]["succeeded"], 40);
    let read: Vec<RunEvent> = serde_json::from_value(document["events"].clone()).unwrap();
    assert_eq!(read, events);
    assert_eq!(document["samples"].as_array().unwrap().len(), 41);
    let json = render(&run, &events, false, Format::Json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(document.get("samples").is_none());
}
