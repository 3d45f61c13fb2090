//! Tests of [`super`]: what differs, and what forbids a comparison.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::{Device, Dtype, EngineRef, Mode, RunState};
use contracts::sample::{ErrorClass, TimingSource, TokenSource};

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

fn measured(run: &RunWithSamples) -> Measured<'_> {
    fixtures::in_comparison(run)
}

fn plain(engine: &str) -> RunWithSamples {
    fixtures::with_walls(fixtures::run("01", engine, Mode::Offline), &[100.0; 6])
}

fn fields(base: &RunWithSamples, candidate: &RunWithSamples) -> Vec<&'static str> {
    let differences = differences(&measured(base), &measured(candidate));
    differences.iter().map(|d| d.field).collect()
}

fn reasons_of(base: &RunWithSamples, candidate: &RunWithSamples) -> Vec<Reason> {
    let differences = differences(&measured(base), &measured(candidate));
    let allowed = Allowed {
        modes: false,
        hosts: false,
        arms: true,
    };
    reasons(&base.run, &candidate.run, allowed, &differences)
}

#[test]
fn what_does_not_differ_is_not_listed() {
    assert!(fields(&plain("ch01"), &plain("ch02")).is_empty());
    assert!(reasons_of(&plain("ch01"), &plain("ch02")).is_empty());
}

#[test]
fn an_arm_may_differ_and_is_listed() {
    let base = plain("ch01");
    let mut candidate = plain("ch01");
    let arm = &mut candidate.run.status.spec.arm;
    arm.device = Device::Cuda { index: 1 };
    arm.dtype = Some(Dtype::Bf16);
    arm.stream = false;
    arm.options.insert("step_us".to_owned(), "5".to_owned());
    let provenance = candidate.run.status.provenance.as_mut().unwrap();
    provenance.engine_build = Some("0.1.0+fff".to_owned());
    provenance.engine_profile = None;
    provenance.agent_build = "0.2.0".to_owned();
    let model = provenance.model.as_mut().unwrap();
    model.threads = 8;
    model.weights = "bf16".to_owned();
    assert_eq!(
        fields(&base, &candidate),
        [
            "agent build",
            "dtype",
            "weights",
            "device",
            "threads",
            "stream",
            "options",
            "engine build",
            "engine profile"
        ]
    );
    let differences = differences(&measured(&base), &measured(&candidate));
    let device = differences.iter().find(|d| d.field == "device").unwrap();
    assert_eq!(
        (device.base.as_str(), device.candidate.as_str()),
        ("cpu", "cuda:1")
    );
    let profile = differences.last().unwrap();
    assert_eq!(profile.candidate, "not known");
    assert!(reasons_of(&base, &candidate).is_empty());
}

#[test]
fn how_it_was_measured_is_listed() {
    let base = plain("ch02");
    let mut candidate = fixtures::with_timing(base.run.clone(), &[100.0; 6], TimingSource::Client);
    for sample in &mut candidate.samples {
        sample.token_source = Some(TokenSource::Usage);
        sample.input_ids_sha256 = Some("0123456789abcdef".to_owned());
    }
    assert_eq!(
        fields(&base, &candidate),
        [
            "timing source",
            "token source",
            "counting",
            "prompt token ids sha256"
        ]
    );
}

#[test]
fn another_workload_is_named_field_by_field() {
    let base = plain("ch01");
    let mut candidate = plain("ch02");
    candidate.run.workload_key = "w2".to_owned();
    candidate.run.agent_name = "box".to_owned();
    let workload = &mut candidate.run.status.spec.workload;
    workload.sampling.max_tokens = 20;
    workload.n_runs = 6;
    workload.sampling.temperature = 0.5;
    let reasons = reasons_of(&base, &candidate);
    assert_eq!(reasons.len(), 1);
    assert_eq!(reasons[0].code, ReasonCode::WorkloadDiffers);
    assert_eq!(
        reasons[0].message,
        "workloads differ: max_tokens 40 ≠ 20, sampling greedy ≠ temperature 0.5 seed 0, n_runs 20 ≠ 6"
    );
    assert_eq!(
        reasons[0].todo,
        "run `controller run --chapter ch01,ch02 --mode offline --model dummy:tiny-llm --prompt 'Why is the sky blue?' --agent box --repeat 5`"
    );

    let mut same_words = plain("ch02");
    same_words.run.workload_key = "w2".to_owned();
    assert_eq!(
        reasons_of(&base, &same_words)[0].message,
        "workloads differ: their keys are not the same"
    );
}

#[test]
fn prompts_that_begin_alike_are_told_apart() {
    let base = plain("ch01");
    let mut candidate = plain("ch01");
    let contracts::run::PromptSource::Texts { texts } =
        &mut candidate.run.status.spec.workload.prompts
    else {
        unreachable!("fixtures have texts")
    };
    texts.push("And the sea?".to_owned());
    assert_eq!(fields(&base, &candidate), ["prompts"]);
}

#[test]
fn host_mode_model_and_definition_forbid() {
    let base = plain("ch01");
    let changed = |change: fn(&mut RunRecord)| {
        let mut run = plain("ch02");
        change(&mut run.run);
        let reasons = reasons_of(&base, &run);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        (reasons[0].code, reasons[0].message.clone())
    };
    let (code, message) = changed(|run| {
        run.host_fingerprint = "f2".to_owned();
        run.hostname = "bench-2".to_owned();
    });
    assert_eq!(code, ReasonCode::HostDiffers);
    assert_eq!(message, "hosts differ: bench-1 and bench-2");
    let (code, message) = changed(|run| run.status.spec.arm.mode = Mode::Online);
    assert_eq!(code, ReasonCode::ModeDiffers);
    assert_eq!(message, "modes differ: offline and online");
    let (code, message) = changed(|run| {
        let provenance = run.status.provenance.as_mut().unwrap();
        provenance.model.as_mut().unwrap().sha256 = "m2".to_owned();
    });
    assert_eq!(code, ReasonCode::ModelDiffers);
    assert_eq!(message, "the model's files differ: model sha256 m1 ≠ m2");
    let (code, message) = changed(|run| {
        run.status.provenance.as_mut().unwrap().definition = "v2".to_owned();
    });
    assert_eq!(code, ReasonCode::DefinitionDiffers);
    assert_eq!(
        message,
        "metrics are defined differently: definition v1 ≠ v2"
    );
}

#[test]
fn a_model_that_nobody_reports_is_listed_and_forbids_nothing() {
    let mut other = plain("vllm");
    other.run.status.provenance.as_mut().unwrap().model = None;
    assert!(fields(&plain("ch01"), &other).contains(&"model sha256"));
    assert!(reasons_of(&plain("ch01"), &other).is_empty());
}

#[test]
fn failed_requests_are_faults_of_runs_that_ended_as_they_should() {
    let of = |run: &RunWithSamples| faults("base", &[measured(run)], "run it again").pop();
    assert_eq!(of(&plain("ch01")), None);

    let mut failed_request = plain("ch01");
    let failed = fixtures::failed_sample(6, ErrorClass::HttpStatus);
    failed_request.samples.push(failed);
    let fault = of(&failed_request).unwrap();
    assert_eq!(fault.code, ReasonCode::FailedRequests);
    assert_eq!(fault.message, "the base's run 01 has 1 failed request");
    assert_eq!(
        fault.todo,
        "`controller runs show 01` says why; then run it again"
    );

    let nothing = fixtures::finish(plain("ch01").run, Vec::new());
    assert_eq!(of(&nothing).unwrap().code, ReasonCode::NothingMeasured);
    let runs = [&failed_request, &nothing, &failed_request].map(measured);
    let messages = faults("base", &runs, "run it again").into_iter();
    assert_eq!(
        messages.map(|reason| reason.message).collect::<Vec<_>>(),
        [
            "the base's run 01 has 1 failed request; likewise 1 more run",
            "the base's run 01 has no successful request"
        ]
    );

    failed_request.run.status.state = RunState::Failed;
    assert_eq!(of(&failed_request), None, "its block was dropped already");
}

#[test]
fn a_tokenizer_matters_where_it_counted() {
    let with = |source, hash: &str| {
        let mut run = plain("vllm");
        run.run.status.provenance.as_mut().unwrap().tokenizer_sha256 = Some(hash.to_owned());
        for sample in &mut run.samples {
            sample.token_source = Some(source);
        }
        run
    };
    let reasons = |source| reasons_of(&with(source, "t1"), &with(source, "t2"));
    assert_eq!(reasons(TokenSource::Usage), []);
    let reasons = reasons(TokenSource::Tokenizer);
    assert_eq!(reasons[0].code, ReasonCode::TokenizerDiffers);
    assert_eq!(
        reasons[0].message,
        "tokens were counted by two tokenizers: counted by tokenizer t1 ≠ t2"
    );
    let by_one = reasons_of(
        &with(TokenSource::Tokenizer, "t1"),
        &with(TokenSource::Usage, "t2"),
    );
    assert_eq!(by_one, [], "the server's own count is another matter");
}

#[test]
fn the_promise_binds_in_f32_on_a_cpu() {
    let all = |_: &str| true;
    let ch01 = plain("ch01").run;
    assert!(must_agree(&ch01, &plain("ch02").run, &all));
    assert!(!must_agree(&ch01, &plain("ch12").run, &|id| id != "ch12"));
    let mut gpu = plain("ch02").run;
    gpu.status.spec.arm.device = Device::Cuda { index: 0 };
    assert!(!must_agree(&ch01, &gpu, &all));
    let mut quantised = plain("ch02").run;
    let provenance = quantised.status.provenance.as_mut().unwrap();
    provenance.model.as_mut().unwrap().weights = "q4_1 as stored".to_owned();
    assert!(!must_agree(&ch01, &quantised, &all));
    let mut other_build = plain("before").run;
    other_build.status.spec.arm.engine = EngineRef::Named {
        name: "before".to_owned(),
        chapter: Some("ch02".to_owned()),
    };
    assert!(must_agree(&ch01, &other_build, &all));
    let mut foreign = other_build.clone();
    foreign.status.spec.arm.engine = EngineRef::Named {
        name: "vllm".to_owned(),
        chapter: None,
    };
    assert!(!must_agree(&ch01, &foreign, &all));
}
