//! `engine offline`: a job in, one line a request out; the same tokens as the server gives.

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::fd::OwnedFd,
    process::Output,
};

use contracts::{
    defaults,
    generate::GenerateResult,
    openai::{ChatMessage, Completion},
    run::{Device, Endpoint, PromptSource},
    worker::{OfflineJob, WorkerLine},
};
use serde_json::json;

use crate::{
    child::{Engine, spawn},
    engine, fails, http, stderr,
};

const JOB_FD: i32 = 20;
const REPORT_FD: i32 = 21;

fn job(chapter: &str) -> OfflineJob {
    let sampling = contracts::generate::SamplingParams {
        max_tokens: 6,
        seed: 11,
        ..Default::default()
    };
    let texts = vec!["one".to_owned(), "two three".to_owned()];
    OfflineJob {
        chapter: chapter.to_owned(),
        model: defaults::MODEL.to_owned(),
        dtype: None,
        device: Device::Cpu,
        threads: None,
        options: Default::default(),
        prompts: PromptSource::Texts { texts },
        endpoint: Endpoint::Auto,
        sampling,
        warmup_prompts: None,
        ceilings: Vec::new(),
        warmup_ceilings: Vec::new(),
        warmup: 1,
        n_runs: 3,
        concurrency: 1,
        continue_on_error: false,
    }
}

fn fake(options: &[(&str, &str)]) -> OfflineJob {
    let options = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    OfflineJob {
        options,
        ..job("fake")
    }
}

/// Starts a worker over this job's text; the report is ours to read.
fn start(job: &str) -> (Engine, std::io::PipeReader) {
    let (job_reader, mut job_writer) = std::io::pipe().unwrap();
    let (report, report_writer) = std::io::pipe().unwrap();
    let mut command = engine();
    command.args([
        "offline",
        "--job-fd",
        &JOB_FD.to_string(),
        "--report-fd",
        &REPORT_FD.to_string(),
    ]);
    let child = spawn(
        command,
        vec![
            (OwnedFd::from(job_reader), JOB_FD),
            (OwnedFd::from(report_writer), REPORT_FD),
        ],
    );
    job_writer.write_all(job.as_bytes()).unwrap();
    (child, report)
}

fn run(job: &OfflineJob) -> (Output, Vec<WorkerLine>) {
    let (child, mut report) = start(&serde_json::to_string(job).unwrap());
    let mut lines = String::new();
    report.read_to_string(&mut lines).unwrap();
    (
        child.output(),
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// Results of the measured requests.
fn measured(lines: &[WorkerLine]) -> Vec<GenerateResult> {
    let result = |line: &WorkerLine| match line {
        WorkerLine::Request {
            warmup: false,
            result,
            ..
        } => Some(result.clone().unwrap()),
        _ => None,
    };
    lines.iter().filter_map(result).collect()
}

#[test]
fn it_reports_loaded_each_request_and_done() {
    let (output, lines) = run(&fake(&[("ttft_ms", "2")]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    let [
        WorkerLine::Loaded { model, build },
        requests @ ..,
        WorkerLine::Done,
    ] = lines.as_slice()
    else {
        panic!("{lines:?}")
    };
    assert_eq!(
        (model.family.as_str(), build),
        ("fake", &engine::cli::build_facts())
    );
    let mut last_done_ns = 0;
    for (line, expected) in requests
        .iter()
        .zip([(0, true), (0, false), (1, false), (2, false)])
    {
        let WorkerLine::Request {
            index,
            warmup,
            start_ns,
            done_ns,
            result,
        } = line
        else {
            panic!("{line:?}")
        };
        assert_eq!((*index, *warmup), expected);
        assert!(last_done_ns <= *start_ns && start_ns < done_ns);
        last_done_ns = *done_ns;
        assert_eq!(result.as_ref().unwrap().output_ids.len(), 6);
    }
    assert_eq!(requests.len(), 4);
}

#[test]
fn a_failed_request_is_reported_and_ends_the_worker_unless_told_otherwise() {
    let failing = fake(&[("fail_at", "2")]);
    let (output, lines) = run(&failing);
    assert!(fails(&output, 1).contains("request 1 failed"));
    let Some(WorkerLine::Request {
        index: 1,
        warmup: false,
        result: Err(why),
        ..
    }) = lines.last()
    else {
        panic!("{lines:?}")
    };
    assert!(why.contains("asked to fail"), "{why}");

    let (output, lines) = run(&OfflineJob {
        continue_on_error: true,
        ..failing
    });
    assert!(output.status.success());
    assert_eq!((lines.len(), lines.last()), (6, Some(&WorkerLine::Done)));
}

#[test]
fn an_engine_that_panics_is_reported_and_never_used_again() {
    let (output, lines) = run(&OfflineJob {
        continue_on_error: true,
        ..fake(&[("panic_at", "1")])
    });
    assert_eq!(output.status.code(), Some(1));
    let Some(WorkerLine::Request {
        index: 0,
        result: Err(why),
        ..
    }) = lines.last()
    else {
        panic!("{lines:?}")
    };
    assert!(why.contains("asked to panic"), "{why}");
}

/// Index, phase, start and end of each request, in the order of their lines.
fn spans(lines: &[WorkerLine]) -> Vec<(u32, bool, u64, u64)> {
    let span = |line: &WorkerLine| match line {
        WorkerLine::Request {
            index,
            warmup,
            start_ns,
            done_ns,
            ..
        } => Some((*index, *warmup, *start_ns, *done_ns)),
        _ => None,
    };
    lines.iter().filter_map(span).collect()
}

#[test]
fn several_in_flight_make_the_tokens_of_one_at_a_time() {
    for chapter in ["ch02", "ch05", "ch09"] {
        let mut job = job(chapter);
        job.n_runs = 7;
        job.ceilings = vec![6, 2, 9, 1, 4, 3, 5];
        let (_, alone) = run(&job);
        job.concurrency = 3;
        let (output, lines) = run(&job);
        assert!(output.status.success(), "{chapter}: {}", stderr(&output));
        assert_eq!(lines.last(), Some(&WorkerLine::Done));
        let spans = spans(&lines);
        let of_phase = |phase: bool| {
            let mut of_phase: Vec<_> = spans.iter().filter(|span| span.1 == phase).collect();
            of_phase.sort();
            of_phase
        };
        let requests = of_phase(false);
        assert_eq!(requests.len(), 7, "{chapter}: each once");
        for (place, (index, _, start_ns, _)) in requests.iter().enumerate() {
            assert_eq!(*index as usize, place);
            let begun = |span: &&&(u32, bool, u64, u64)| span.2 <= *start_ns && span.3 > *start_ns;
            assert!(requests.iter().filter(begun).count() <= 3, "{chapter}");
        }
        assert!(requests[2].2 < requests[0].3, "{chapter}: they overlap");
        let warm = of_phase(true);
        assert!(warm.iter().all(|span| span.3 <= requests[0].2));
        let ids = |lines: &[WorkerLine]| {
            let mut made: Vec<(u32, Vec<u32>)> = Vec::new();
            for line in lines {
                if let WorkerLine::Request {
                    index,
                    warmup: false,
                    result,
                    ..
                } = line
                {
                    made.push((*index, result.clone().unwrap().output_ids));
                }
            }
            made.sort();
            made
        };
        assert_eq!(ids(&alone), ids(&lines), "{chapter}");
    }
}

#[test]
fn what_fails_with_others_in_flight_is_reported_and_ends_the_worker_unless_told_otherwise() {
    let job = OfflineJob {
        concurrency: 2,
        ..fake(&[("fail_at", "2")])
    };
    let (output, _) = run(&job);
    assert!(fails(&output, 1).contains("asked to fail"));
    let (output, lines) = run(&OfflineJob {
        continue_on_error: true,
        ..job
    });
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        (spans(&lines).len(), lines.last()),
        (4, Some(&WorkerLine::Done))
    );

    let (output, lines) = run(&OfflineJob {
        continue_on_error: true,
        concurrency: 2,
        ..fake(&[("panic_at", "1")])
    });
    assert_eq!(output.status.code(), Some(1));
    let Some(WorkerLine::Request {
        index: 0,
        result: Err(why),
        ..
    }) = lines.last()
    else {
        panic!("{lines:?}")
    };
    assert!(why.contains("asked to panic"), "{why}");
}

#[test]
fn it_ends_when_nobody_reads_its_report() {
    let (child, report) = start(
        &serde_json::to_string(&OfflineJob {
            n_runs: 1_000_000,
            ..fake(&[])
        })
        .unwrap(),
    );
    drop(report);
    assert!(fails(&child.output(), 1).contains("report"));
}

#[test]
fn a_job_that_cannot_be_is_one_line_with_code_2() {
    for (text, says) in [
        ("{", "--job-fd"),
        ("{\"chapter\": \"ch01\"}", "missing field"),
    ] {
        let (child, _report) = start(text);
        assert!(fails(&child.output(), 2).contains(says));
    }
    for (job, says) in [
        (job("6"), "ch01"),
        (
            OfflineJob {
                prompts: PromptSource::Texts { texts: vec![] },
                ..fake(&[])
            },
            "prompts",
        ),
        (
            OfflineJob {
                endpoint: Endpoint::Chat,
                ..fake(&[("template", "false")])
            },
            "template",
        ),
        (
            OfflineJob {
                prompts: PromptSource::Trace { requests: vec![] },
                ..fake(&[])
            },
            "prompts: only texts and conversations",
        ),
        (
            OfflineJob {
                prompts: conversation(),
                endpoint: Endpoint::Completions,
                ..fake(&[])
            },
            "conversations need a chat template",
        ),
        (
            OfflineJob {
                ceilings: vec![1],
                ..fake(&[])
            },
            "ceilings: 1 of them for 3 requests",
        ),
    ] {
        let (output, lines) = run(&job);
        assert!(fails(&output, 2).contains(says));
        assert!(lines.is_empty());
    }
}

fn conversation() -> PromptSource {
    let message = |role: &str, text: &str| ChatMessage {
        role: role.to_owned(),
        content: text.into(),
    };
    let messages = vec![
        message("user", "one"),
        message("assistant", "two"),
        message("user", "three"),
    ];
    PromptSource::Conversations {
        conversations: vec![messages],
    }
}

#[test]
fn each_request_has_its_own_ceiling_and_warm_up_its_own_prompts() {
    let (output, lines) = run(&OfflineJob {
        prompts: conversation(),
        warmup_prompts: Some(PromptSource::Texts {
            texts: vec!["one".to_owned()],
        }),
        ceilings: vec![1, 2, 3],
        ..job("ch02")
    });
    assert!(output.status.success(), "{}", stderr(&output));
    let Some(WorkerLine::Request {
        warmup: true,
        result: Ok(warmup),
        ..
    }) = lines.get(1)
    else {
        panic!("{lines:?}")
    };
    assert_eq!(warmup.output_ids.len(), 6);
    let measured = measured(&lines);
    let lengths: Vec<usize> = measured.iter().map(|r| r.output_ids.len()).collect();
    assert_eq!(lengths, [1, 2, 3]);
    // Three messages have three times the template's tokens.
    assert!(measured[0].input_ids.len() > 2 * warmup.input_ids.len());
    assert_eq!(measured[0].input_ids, measured[2].input_ids);
}

/// What an online client sends for request `i` of the same spec.
fn online(chapter: &str, job: &OfflineJob, chat: bool) -> Vec<Completion> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut command = engine();
    command.args([
        "serve",
        "--chapter",
        chapter,
        "--model",
        &job.model,
        "--listen-fd",
        "20",
    ]);
    let _server = spawn(command, vec![(listener.into(), 20)]);
    while http::get(address, "/health").status != 200 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let PromptSource::Texts { texts } = &job.prompts else {
        unreachable!("the job has texts")
    };
    let ask = |index: u32| {
        let text = &texts[index as usize % texts.len()];
        let (path, mut body) = match chat {
            true => (
                "/v1/chat/completions",
                json!({"messages": [{"role": "user", "content": text}]}),
            ),
            false => ("/v1/completions", json!({"prompt": text})),
        };
        body["max_tokens"] = job.sampling.max_tokens.into();
        let sampling = serde_json::to_value(&job.sampling).unwrap();
        for name in [
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "stop",
        ] {
            body[name] = sampling[name].clone();
        }
        if let Some(n) = job.sampling.logprobs {
            body["logprobs"] = if chat { true.into() } else { n.into() };
            body["top_logprobs"] = json!(chat.then_some(n));
        }
        body["seed"] = (job.sampling.seed + u64::from(index)).into();
        body["return_token_ids"] = true.into();
        serde_json::from_str(&http::post(address, path, &body.to_string()).body).unwrap()
    };
    (0..job.n_runs).map(ask).collect()
}

#[track_caller]
fn assert_same(chapter: &str, job: &OfflineJob, chat: bool) {
    let (output, lines) = run(job);
    assert!(output.status.success(), "{}", stderr(&output));
    let (offline, online) = (measured(&lines), online(chapter, job, chat));
    assert_eq!(offline.len(), online.len());
    for (offline, online) in offline.iter().zip(&online) {
        assert_eq!(Some(&offline.input_ids), online.prompt_token_ids.as_ref());
        assert_eq!(Some(&offline.output_ids), online.token_ids.as_ref());
        let choice = &online.choices[0];
        let text = choice.message.as_ref().map(|m| m.content.as_ref());
        assert_eq!(Some(&offline.text), text.unwrap_or(choice.text.as_ref()));
        assert_eq!(offline.finish_reason, choice.finish_reason.unwrap());
        let logprobs = offline.logprobs.iter().flatten().map(|l| json!(l.logprob));
        let list = choice.logprobs.as_ref().map(|l| match chat {
            true => l["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|l| l["logprob"].clone())
                .collect(),
            false => l["token_logprobs"].as_array().unwrap().clone(),
        });
        assert_eq!(logprobs.collect::<Vec<_>>(), list.unwrap_or_default());
    }
    assert_ne!(
        offline[0].output_ids, offline[2].output_ids,
        "drawn with other seeds"
    );
}

/// The rows whose tokens can be foretold.
fn chapters() -> impl Iterator<Item = &'static str> {
    let rows = engine::chapters::TABLE.iter();
    rows.filter(|row| row.same_tokens).map(|row| row.id)
}

#[test]
fn offline_and_online_give_the_same_tokens_for_the_same_spec() {
    for chapter in chapters() {
        let mut job = job(chapter);
        job.sampling.temperature = 1.5;
        assert_same(chapter, &job, true);
        job.endpoint = Endpoint::Completions;
        assert_same(chapter, &job, false);
    }
}

#[test]
fn offline_and_online_sample_alike_with_all_that_sampling_has() {
    for chapter in chapters() {
        let mut job = job(chapter);
        job.sampling = contracts::generate::SamplingParams {
            temperature: 1.5,
            top_k: 900,
            top_p: 0.95,
            min_p: 0.001,
            repetition_penalty: 1.25,
            presence_penalty: 0.5,
            frequency_penalty: -0.25,
            logit_bias: [(1000, 2.0), (2000, -1.5)].into(),
            stop: vec!["ab".to_owned(), "e".to_owned()],
            logprobs: Some(2),
            ..job.sampling
        };
        assert_same(chapter, &job, true);
    }
}
