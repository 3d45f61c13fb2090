//! The offline reader against real pipes.

use std::io::{PipeWriter, Write};
use std::time::Duration;

use agent::load::{
    Asked, Clock, DriveEnd, DriveOutcome, OfflineEvent, OfflineWatch, Phase, read_offline,
};
use contracts::generate::{FinishReason, GenerateResult, RequestMetrics};
use contracts::host::BuildFacts;
use contracts::run::{AllowFailures, ModelFacts, Stage};
use contracts::sample::{ErrorClass, Sample, TimingSource, TokenSource};
use contracts::worker::WorkerLine;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fn watch() -> OfflineWatch {
    OfflineWatch {
        warmup: 1,
        n_runs: 2,
        allow_failures: AllowFailures::Count { n: 0 },
        requested_tokens: 40,
        warmup_asked: Vec::new(),
        asked: Vec::new(),
        ready_timeout: Duration::from_secs(20),
        request_timeout: Duration::from_secs(20),
    }
}

fn loaded() -> String {
    line(&WorkerLine::Loaded {
        build: BuildFacts::default(),
        model: ModelFacts {
            name: "dummy:tiny-llm".into(),
            ..ModelFacts::default()
        },
    })
}

fn line(line: &WorkerLine) -> String {
    serde_json::to_string(line).unwrap() + "\n"
}

fn result(output_tokens: u32) -> GenerateResult {
    GenerateResult {
        text: "hi".into(),
        input_ids: vec![1, 2, 3],
        output_ids: vec![7, 8],
        finish_reason: FinishReason::Stop,
        metrics: RequestMetrics {
            input_tokens: 3,
            output_tokens,
            ttft_ms: 4.5,
            tpot_ms: 0.0,
            wall_ms: 9.5,
            extras: [("firm_steps".to_owned(), 2.0)].into(),
            ..RequestMetrics::default()
        },
        logprobs: None,
    }
}

fn request(index: u32, warmup: bool, result: Result<GenerateResult, String>) -> String {
    line(&WorkerLine::Request {
        index,
        warmup,
        start_ns: 1_000_000 * u64::from(index),
        done_ns: 1_000_000 * u64::from(index) + 10_000_000,
        result,
    })
}

fn ok(index: u32, warmup: bool) -> String {
    request(index, warmup, Ok(result(2)))
}

/// Reads what `write` gives; the writer is closed when `write` returns.
async fn read(
    watch: &OfflineWatch,
    write: impl FnOnce(PipeWriter) + Send + 'static,
) -> (DriveEnd, Vec<Sample>, Vec<String>) {
    let (report, writer) = std::io::pipe().unwrap();
    let worker = std::thread::spawn(move || write(writer));
    let (out, mut samples) = mpsc::channel(16);
    let mut events = Vec::new();
    let on_event = |event| {
        events.push(match event {
            OfflineEvent::Loaded { model, .. } => model.name,
            OfflineEvent::Phase(Phase::Warmup) => "warm-up".into(),
            OfflineEvent::Phase(Phase::Measure) => "measure".into(),
        });
    };
    let cancel = CancellationToken::new();
    let clock = Clock::start();
    let end = read_offline(report.into(), watch, clock, &out, on_event, &cancel).await;
    worker.join().unwrap();
    drop(out);
    let mut all = Vec::new();
    while let Some(sample) = samples.recv().await {
        all.push(sample);
    }
    (end, all, events)
}

async fn read_lines(lines: &[String]) -> (DriveEnd, Vec<Sample>, Vec<String>) {
    let text = lines.concat();
    // What follows a fatal line may find the pipe closed.
    read(&watch(), move |mut writer| {
        let _ = writer.write_all(text.as_bytes());
    })
    .await
}

fn done() -> String {
    line(&WorkerLine::Done)
}

#[tokio::test]
async fn lines_become_samples() {
    let lines = [loaded(), ok(0, true), ok(0, false), ok(1, false), done()];
    let (end, samples, events) = read_lines(&lines).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    assert_eq!(events, ["dummy:tiny-llm", "warm-up", "measure"]);
    let order: Vec<_> = samples.iter().map(|s| (s.warmup, s.index)).collect();
    assert_eq!(order, [(true, 0), (false, 0), (false, 1)]);
    let last = &samples[2];
    assert_eq!(last.error, None);
    assert_eq!(last.wall_ms, Some(10.0));
    assert_eq!(last.sent_ns, Some(last.start_ns));
    assert_eq!(last.start_ns - samples[1].start_ns, 1_000_000);
    assert_eq!((last.ttft_ms, last.tpot_ms), (Some(4.5), None));
    assert_eq!(last.timing_source, Some(TimingSource::Engine));
    assert_eq!((last.output_tokens, last.input_tokens), (Some(2), Some(3)));
    assert_eq!(last.token_source, Some(TokenSource::Engine));
    assert_eq!((last.requested_tokens, last.firm_steps), (40, Some(2)));
    assert_eq!(last.engine_wall_ms, Some(9.5));
    assert_eq!(last.output_ids, Some(vec![7, 8]));
    assert_eq!(last.text.as_deref(), Some("hi"));
    assert!(last.output_sha256.is_some() && last.input_ids_sha256.is_some());
}

#[tokio::test]
async fn what_each_request_was_asked_stands_in_its_sample() {
    let asked = |max_tokens, planned_input_tokens| Asked {
        max_tokens,
        planned_input_tokens,
    };
    let watch = OfflineWatch {
        warmup_asked: vec![asked(5, None)],
        asked: vec![asked(6, Some(60)), asked(7, Some(70))],
        ..watch()
    };
    let text = [loaded(), ok(0, true), ok(0, false), ok(1, false), done()].concat();
    let (_, samples, _) = read(&watch, move |mut writer| {
        let _ = writer.write_all(text.as_bytes());
    })
    .await;
    let stored: Vec<_> = samples
        .iter()
        .map(|s| (s.requested_tokens, s.planned_input_tokens))
        .collect();
    assert_eq!(stored, [(5, None), (6, Some(60)), (7, Some(70))]);
}

#[tokio::test]
async fn failed_requests_fail_the_run_unless_allowed() {
    let bad = || request(0, false, Err("the sequence is too long".into()));
    let lines = [loaded(), ok(0, true), bad(), ok(1, false), done()];
    let (end, samples, _) = read_lines(&lines).await;
    assert_eq!(
        end.outcome,
        DriveOutcome::Failed {
            stage: Stage::Measure,
            message: "request 1 of 2 failed: the sequence is too long".into()
        }
    );
    assert_eq!(samples.len(), 2);
    let error = samples[1].error.clone().unwrap();
    assert_eq!(error.class, ErrorClass::Engine);

    let tolerant = OfflineWatch {
        allow_failures: AllowFailures::Percent { percent: 50.0 },
        ..watch()
    };
    let text = lines.concat();
    let write = move |mut writer: PipeWriter| writer.write_all(text.as_bytes()).unwrap();
    let (end, samples, _) = read(&tolerant, write).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    assert_eq!((samples.len(), end.measured.failed), (3, 1));
}

#[tokio::test]
async fn no_tokens_is_a_failure_and_never_a_zero() {
    let lines = [loaded(), request(0, true, Ok(result(0)))];
    let (end, samples, _) = read_lines(&lines).await;
    assert!(matches!(
        end.outcome,
        DriveOutcome::Failed {
            stage: Stage::Warmup,
            ..
        }
    ));
    let sample = &samples[0];
    assert_eq!(sample.error.clone().unwrap().class, ErrorClass::NoTokens);
    assert_eq!((sample.output_tokens, sample.ttft_ms), (None, None));
}

#[tokio::test]
async fn a_worker_that_dies_leaves_what_it_measured() {
    let half = ok(0, false);
    let half = half[..half.len() / 2].to_owned();
    let (end, samples, _) = read_lines(&[loaded(), ok(0, true), half]).await;
    let stage = Stage::Measure;
    assert_eq!(end.outcome, DriveOutcome::WorkerGone { stage });
    assert_eq!(samples.len(), 1);
    let (end, ..) = read_lines(&[]).await;
    let stage = Stage::Load;
    assert_eq!(end.outcome, DriveOutcome::WorkerGone { stage });
}

#[tokio::test]
async fn lines_that_should_not_be_are_refused() {
    for (lines, word) in [
        (vec![loaded(), "{}\n".into()], "another build"),
        (vec![ok(0, true)], "not asked"),
        (vec![loaded(), ok(0, false)], "request 0 where 0"),
        (vec![loaded(), ok(1, true)], "request 1 where 0"),
        (
            vec![loaded(), ok(0, true), done()],
            "before its last request",
        ),
    ] {
        let (end, ..) = read_lines(&lines).await;
        let DriveOutcome::Failed { message, .. } = end.outcome else {
            unreachable!("{word}: {end:?}");
        };
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test]
async fn an_endless_line_is_refused() {
    let (end, ..) = read(&watch(), |mut writer| {
        while writer.write_all(&[b' '; 1 << 16]).is_ok() {}
    })
    .await;
    let DriveOutcome::Failed { message, .. } = end.outcome else {
        unreachable!("{end:?}");
    };
    assert!(message.contains("more than 16777216 bytes"), "{message}");
}

#[tokio::test]
async fn silence_has_a_bound() {
    let short = Duration::from_millis(200);
    let hold = |text: String| {
        move |mut writer: PipeWriter| {
            writer.write_all(text.as_bytes()).unwrap();
            // Until the reader has gone.
            while writer.write_all(b"").is_ok() && !reader_gone(&writer) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    };
    let watch = OfflineWatch {
        ready_timeout: short,
        ..watch()
    };
    let (end, ..) = read(&watch, hold(String::new())).await;
    assert_eq!(
        end.outcome,
        DriveOutcome::Failed {
            stage: Stage::Load,
            message: "the model was not loaded within 200ms".into()
        }
    );
    let watch = OfflineWatch {
        ready_timeout: Duration::from_secs(20),
        request_timeout: short,
        ..watch
    };
    let (end, samples, _) = read(&watch, hold(loaded() + &ok(0, true))).await;
    assert_eq!(
        end.outcome,
        DriveOutcome::Failed {
            stage: Stage::Measure,
            message: "request 1 of 2 failed: not done within 200ms".into()
        }
    );
    // The late one is a failed request like any other.
    let classes: Vec<_> = samples
        .iter()
        .map(|sample| sample.error.as_ref().map(|error| error.class))
        .collect();
    assert_eq!(classes, [None, Some(ErrorClass::TotalTimeout)]);
    assert_eq!(end.measured.failed, 1);
}

/// Whether the read end of a pipe is closed.
fn reader_gone(writer: &PipeWriter) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let mut fds = [PollFd::new(writer.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO).unwrap();
    fds[0].revents().unwrap().contains(PollFlags::POLLERR)
}

#[tokio::test]
async fn a_cancel_ends_the_reading() {
    let (report, _writer) = std::io::pipe().unwrap();
    let (out, _samples) = mpsc::channel(1);
    let cancel = CancellationToken::new();
    let order = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        order.cancel();
    });
    let clock = Clock::start();
    let end = read_offline(report.into(), &watch(), clock, &out, |_| (), &cancel).await;
    assert_eq!(end.outcome, DriveOutcome::Cancelled);
}
