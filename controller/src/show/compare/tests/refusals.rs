//! Refusals, as carefully as results: each says why, and what to run.

use contracts::run::{Doubt, RunFailure, RunState, Soundness, Stage};
use contracts::sample::{ErrorClass, TokenSource};

use super::*;

/// From the words on: the head and the figures are as elsewhere.
fn from_the_words(comparison: &Comparison) -> String {
    let text = text(comparison);
    let place = text.find("NOT COMPARABLE");
    text.get(place.unwrap()..).unwrap().to_owned()
}

/// Three runs a side, of which one of ch02's is changed.
fn with(change: impl Fn(&mut RunWithSamples)) -> Comparison {
    let mut runs = chapters(1110.0, 3);
    let last = runs.iter_mut().rfind(|run| run.run.engine == "ch02");
    change(last.unwrap());
    compared("ch01", "ch02", &runs)
}

/// Every run of ch02 is changed.
fn with_all(change: impl Fn(&mut RunWithSamples)) -> Comparison {
    let mut runs = chapters(1110.0, 3);
    let ch02 = runs.iter_mut().filter(|run| run.run.engine == "ch02");
    ch02.for_each(change);
    compared("ch01", "ch02", &runs)
}

#[test]
fn a_refusal_has_figures_and_neither_ratios_nor_verdicts() {
    let comparison = with_all(|run| {
        run.run.workload_key = "w2".to_owned();
        run.run.status.spec.workload.n_runs = 21;
    });
    insta::assert_snapshot!("refused_text", text(&comparison));
    let markdown = render(&comparison, Format::Markdown).unwrap();
    insta::assert_snapshot!("refused_markdown", markdown);
}

#[test]
fn hosts_differ() {
    let comparison = with_all(|run| {
        run.run.host_fingerprint = "f2".to_owned();
        run.run.hostname = "bench-2".to_owned();
    });
    insta::assert_snapshot!("refused_host", from_the_words(&comparison));
}

#[test]
fn models_differ() {
    let comparison = with_all(|run| {
        let provenance = run.run.status.provenance.as_mut().unwrap();
        provenance.model.as_mut().unwrap().sha256 = "m2".to_owned();
    });
    insta::assert_snapshot!("refused_model", from_the_words(&comparison));
}

#[test]
fn tokenizers_differ() {
    let mut runs = chapters(1110.0, 3);
    for run in &mut runs {
        let hash = format!("of {}", run.run.engine);
        run.run.status.provenance.as_mut().unwrap().tokenizer_sha256 = Some(hash);
        for sample in &mut run.samples {
            sample.token_source = Some(TokenSource::Tokenizer);
        }
    }
    let comparison = compared("ch01", "ch02", &runs);
    insta::assert_snapshot!("refused_tokenizer", from_the_words(&comparison));
}

#[test]
fn every_run_was_disturbed() {
    let comparison = with_all(|run| run.run.status.validity.foreign_cpu_during = Some(0.4));
    insta::assert_snapshot!("refused_contaminated", from_the_words(&comparison));
}

#[test]
fn no_block_has_one_build_a_side() {
    // ch01 was built anew after the first block, and ch02 has no other.
    let mut runs = chapters(1110.0, 2);
    runs.retain(|run| run.run.engine == "ch01" || run.run.block == 0);
    let first = runs.iter_mut().find(|run| run.run.engine == "ch01");
    let provenance = first.unwrap().run.status.provenance.as_mut();
    provenance.unwrap().engine_build = Some("0.1.0+old".to_owned());
    let comparison = compared("ch01", "ch02", &runs);
    insta::assert_snapshot!("refused_mixed_side", from_the_words(&comparison));
}

#[test]
fn definitions_differ() {
    let comparison = with_all(|run| {
        run.run.status.provenance.as_mut().unwrap().definition = "v0".to_owned();
    });
    insta::assert_snapshot!("refused_definition", from_the_words(&comparison));
}

#[test]
fn every_run_failed() {
    let comparison = with_all(|run| {
        run.run.status.state = RunState::Failed;
        run.run.status.failure = Some(RunFailure {
            stage: Stage::Load,
            message: "exit 1 before it was ready".to_owned(),
            log_tail: Vec::new(),
        });
        run.samples.clear();
    });
    insta::assert_snapshot!("refused_failed_run", from_the_words(&comparison));
}

#[test]
fn a_request_failed() {
    let comparison = with(|run| {
        run.samples
            .push(fixtures::failed_sample(20, ErrorClass::HttpStatus));
    });
    insta::assert_snapshot!("refused_failed_request", from_the_words(&comparison));
}

#[test]
fn the_client_may_be_what_was_measured() {
    let comparison = with(|run| {
        let verdict = Soundness::ClientBound;
        run.run.status.validity.verdict = verdict;
        run.run.status.validity.doubts.push(Doubt {
            limit: "some_limit".to_owned(),
            verdict,
            message: "the load generator used 91 % of its core".to_owned(),
        });
    });
    insta::assert_snapshot!("refused_client_bound", from_the_words(&comparison));
}

#[test]
fn outputs_differ() {
    let comparison = with_all(|run| {
        for sample in &mut run.samples {
            sample.output_ids = Some(vec![5, 6, 70, 8]);
            sample.text = Some("Light bends".to_owned());
        }
    });
    insta::assert_snapshot!("refused_outputs", from_the_words(&comparison));
}

#[test]
fn both_sides_are_the_same_runs() {
    let comparison = compared("run:01001", "run:01001", &chapters(1110.0, 3));
    insta::assert_snapshot!("refused_same_runs", from_the_words(&comparison));
}

#[test]
fn modes_differ_and_nobody_asked_for_that() {
    let comparison = with_all(|run| run.run.status.spec.arm.mode = Mode::Online);
    insta::assert_snapshot!("refused_mode", from_the_words(&comparison));
}

#[test]
fn nothing_was_measured() {
    let comparison = with_all(|run| run.samples.clear());
    insta::assert_snapshot!("refused_nothing_measured", from_the_words(&comparison));
}

#[test]
fn a_side_that_is_two_arms() {
    let comparison = compared("session:01SESSION", "ch02", &chapters(1110.0, 3));
    insta::assert_snapshot!("refused_arms", from_the_words(&comparison));
}

#[test]
fn arms_are_set_up_differently_where_that_is_forbidden() {
    let mut runs = chapters(1110.0, 3);
    for run in runs.iter_mut().filter(|run| run.run.engine == "ch02") {
        let options = &mut run.run.status.spec.arm.options;
        options.insert("max_batch".to_owned(), "8".to_owned());
    }
    let strict = Options {
        strict: true,
        ..Options::default()
    };
    let comparison = compared_by(&["ch01", "ch02"], &runs, &strict);
    insta::assert_snapshot!("refused_strict", from_the_words(&comparison));
}
