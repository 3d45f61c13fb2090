//! Tests of [`super`]: commands that make two sides comparable.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::generate::SamplingParams;
use contracts::run::{Arrival, CacheState, Dtype, Endpoint, Length, Load, PromptSource};

use super::*;
use crate::cli::tests::{assert_can_be_run, workload_key_of};
use crate::fixtures;

/// What every command ends with here.
const REST: &str = "--model dummy:tiny-llm --prompt 'Why is the sky blue?' --repeat 5`";

fn chapter(id: &str) -> RunRecord {
    fixtures::run("01", id, Mode::Offline)
}

fn engine(engine: EngineRef, mode: Mode) -> RunRecord {
    let mut run = fixtures::run("01", "other", mode);
    run.status.spec.arm.engine = engine;
    run
}

fn named(name: &str, chapter: Option<&str>) -> RunRecord {
    let engine_ref = EngineRef::Named {
        name: name.to_owned(),
        chapter: chapter.map(str::to_owned),
    };
    engine(engine_ref, Mode::Offline)
}

fn url(url: &str) -> RunRecord {
    let engine_ref = EngineRef::Url {
        url: url.to_owned(),
        served_name: None,
    };
    engine(engine_ref, Mode::Online)
}

fn arms(base: &RunRecord, candidate: &RunRecord) -> String {
    let command = rerun(base, candidate, "");
    assert_can_be_run(&command);
    let arms = command.strip_prefix("run `controller run ").unwrap();
    arms.strip_suffix(REST).unwrap().trim_end().to_owned()
}

#[test]
fn sides_alike_share_their_flags() {
    let two = arms(&chapter("ch01"), &chapter("ch02"));
    assert_eq!(two, "--chapter ch01,ch02 --mode offline");
    let builds = arms(
        &named("before", Some("ch02")),
        &named("after", Some("ch02")),
    );
    assert_eq!(
        builds,
        "--engine before,after --chapter ch02 --mode offline"
    );
    let foreign = arms(&named("vllm", None), &named("llama-cpp", None));
    assert_eq!(foreign, "--engine vllm,llama-cpp --mode offline");
    let servers = arms(&url("http://h:1"), &url("http://h:2"));
    assert_eq!(
        servers, "--url http://h:1 --url http://h:2",
        "--mode is refused beside --url"
    );
    let mut threads = chapter("ch02");
    threads.status.spec.arm.threads = Some(2);
    threads.status.spec.arm.dtype = Some(Dtype::F32);
    assert_eq!(
        arms(&threads, &threads),
        "--chapter ch02,ch02 --mode offline --dtype f32 --threads 2"
    );
}

#[test]
fn sides_unlike_have_arms_of_their_own() {
    assert_eq!(
        arms(&chapter("ch02"), &named("llama-cpp", None)),
        "--arm 'base: --chapter ch02 --mode offline' --arm 'candidate: --engine llama-cpp --mode offline'"
    );
    assert_eq!(
        arms(&url("http://h:1"), &chapter("ch01")),
        "--arm 'base: --url http://h:1' --arm 'candidate: --chapter ch01 --mode offline'"
    );
    let mut threads = chapter("ch02");
    threads.status.spec.arm.threads = Some(2);
    assert_eq!(
        arms(&chapter("ch02"), &threads),
        "--arm 'base: --chapter ch02 --mode offline' --arm 'candidate: --chapter ch02 --mode offline --threads 2'"
    );
}

#[test]
fn one_engine_in_two_modes_is_one_arm_in_both() {
    let online = fixtures::run("02", "ch02", Mode::Online);
    assert_eq!(
        arms(&chapter("ch02"), &online),
        "--chapter ch02 --mode both"
    );
}

#[test]
fn across_modes_the_work_is_what_offline_can_do() {
    let mut online = fixtures::run("02", "ch02", Mode::Online);
    online.status.spec.workload.load = Load::Closed { concurrency: 8 };
    assert_eq!(
        arms(&online, &chapter("ch02")),
        "--chapter ch02 --mode both"
    );
}

#[test]
fn a_plan_of_more_passes_and_more_flags_stay() {
    let mut run = chapter("ch01");
    run.session.repeat_count = 9;
    let command = rerun(&run, &chapter("ch02"), " --max-extend 2");
    assert!(command.ends_with("--repeat 9 --max-extend 2`"), "{command}");
    run.agent_name = "gpu box".to_owned();
    assert!(rerun(&run, &run, "").contains(" --agent 'gpu box' "));
}

#[test]
fn the_command_asks_for_the_same_work() {
    let mut run = fixtures::run("01", "ch02", Mode::Online);
    let plain = run.status.spec.workload.clone();
    let mut check = |change: &dyn Fn(&mut contracts::run::Workload)| {
        let mut workload = plain.clone();
        change(&mut workload);
        let expected = crate::plan::workload_key(&workload);
        run.status.spec.workload = workload;
        let command = rerun(&run, &run, "");
        assert_eq!(workload_key_of(&command), expected, "{command}");
    };
    check(&|_| {});
    check(&|w| {
        w.sampling = SamplingParams {
            temperature: 0.5,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.1,
            repetition_penalty: 1.1,
            presence_penalty: -0.5,
            frequency_penalty: 0.25,
            stop: vec![
                "</s>".to_owned(),
                "it's - \"x\"".to_owned(),
                "--".to_owned(),
            ],
            seed: 7,
            ignore_eos: true,
            max_tokens: 20,
            ..SamplingParams::default()
        };
    });
    check(&|w| {
        w.n_runs = 100;
        w.warmup = 8;
        w.load = Load::Closed { concurrency: 8 };
        w.endpoint = Endpoint::Completions;
        w.cache = CacheState::Cold;
        w.tokenizer = Some("t/tokenizer.json".to_owned());
    });
    check(&|w| {
        w.load = Load::Open {
            rate_per_s: 2.5,
            arrival: Arrival::Gamma { shape: 0.5 },
            max_in_flight: Some(16),
        };
        w.prompts = PromptSource::Synthetic {
            input: Length::Uniform {
                low_tokens: 10,
                high_tokens: 20,
            },
            output: Some(Length::Fixed { tokens: 30 }),
            prefix: None,
        };
        w.sampling.max_tokens = 30;
        w.cache = CacheState::Cold;
    });
    check(&|w| {
        w.load = Load::Burst {
            max_in_flight: Some(4),
        };
        w.duration_ms = Some(1500);
        w.n_runs = contracts::defaults::N_RUNS_MAX;
        let it = "Don't stop: \"why\"?".to_owned();
        w.prompts = PromptSource::Texts { texts: vec![it] };
    });
}

#[test]
fn what_lies_in_a_file_is_named_by_its_flag() {
    let mut run = chapter("ch01");
    let texts = vec!["a".to_owned(), "b".to_owned()];
    run.status.spec.workload.prompts = PromptSource::Texts { texts };
    assert!(rerun(&run, &run, "").contains(" --prompts FILE "));
}

#[test]
fn words_are_quoted_for_a_shell() {
    assert_eq!(quoted("engine:vllm#a"), "engine:vllm#a");
    assert_eq!(quoted("label:my runs"), "'label:my runs'");
    assert_eq!(quoted("don't"), r"'don'\''t'");
    assert_eq!(quoted(""), "''");
}
