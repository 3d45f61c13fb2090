//! What a bad answer, a bad server or an order to stop becomes.

use std::time::Duration;

use agent::load::{Clock, DriveOutcome, drive_online};
use contracts::run::{AllowFailures, Stage};
use contracts::sample::ErrorClass;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::{
    self, RefusingPort, Script, Step, chunked, drive, job, json, long_body, one, usual_stream,
};

async fn class_of(script: Script) -> Option<ErrorClass> {
    let sample = one(script).await;
    if sample.error.is_some() {
        assert_eq!(sample.output_tokens, None);
        assert_eq!((sample.ttft_ms, sample.tpot_ms), (None, None));
    }
    sample.error.map(|e| e.class)
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_answers_by_class() {
    let head = support::stream_head();
    let token = chunked("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n");
    let finish = chunked(
        "data: {\"choices\":[{\"index\":0,\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\n",
    );
    let cut = |bytes: String| Script::bytes(bytes.into_bytes()).then(Step::Close);
    let error = chunked("data: {\"error\":{\"message\":\"out of memory\"}}\n\n");
    let bad = chunked("data: {\n\n");
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<p/>";
    let moved = "HTTP/1.1 307 Temporary Redirect\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n";
    let page =
        "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<p/>";
    let rows = [
        (
            "500",
            json(500, r#"{"error":{"message":"m","type":"t"}}"#),
            Some(ErrorClass::HttpStatus),
        ),
        ("429", json(429, "slow down"), Some(ErrorClass::HttpStatus)),
        (
            "502 page",
            Script::bytes(page.into()),
            Some(ErrorClass::HttpStatus),
        ),
        (
            "307",
            Script::bytes(moved.into()),
            Some(ErrorClass::Redirect),
        ),
        (
            "200 page",
            Script::bytes(html.into()),
            Some(ErrorClass::ContentType),
        ),
        ("no JSON", json(200, "{"), Some(ErrorClass::BadJson)),
        (
            "garbage",
            cut("SSH-2.0-OpenSSH\r\n\r\n".into()),
            Some(ErrorClass::Transport),
        ),
        (
            "closed at once",
            cut(String::new()),
            Some(ErrorClass::Transport),
        ),
        (
            "closed in the head",
            cut("HTTP/1.1 200 OK\r\n".into()),
            Some(ErrorClass::Transport),
        ),
        (
            "closed early",
            cut(format!("{head}{token}")),
            Some(ErrorClass::Truncated),
        ),
        (
            "ended early",
            cut(format!("{head}{token}0\r\n\r\n")),
            Some(ErrorClass::Truncated),
        ),
        (
            "bad chunk",
            cut(format!("{head}{token}zz\r\n")),
            Some(ErrorClass::Transport),
        ),
        (
            "finished, then closed",
            cut(format!("{head}{token}{finish}")),
            None,
        ),
        (
            "error in the stream",
            cut(format!("{head}{token}{error}")),
            Some(ErrorClass::StreamError),
        ),
        (
            "bad JSON in the stream",
            cut(format!("{head}{token}{bad}")),
            Some(ErrorClass::BadJson),
        ),
        (
            "half a document",
            cut(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
                    .into(),
            ),
            Some(ErrorClass::Transport),
        ),
    ];
    for (name, script, class) in rows {
        assert_eq!(class_of(script).await, class, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_have_bounds_by_class() {
    let head = support::stream_head();
    let token = chunked("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n");
    let silent = Script::bytes(Vec::new()).then(Step::Hang);
    assert_eq!(class_of(silent).await, Some(ErrorClass::FirstByteTimeout));
    let stalls = Script::bytes(format!("{head}{token}").into_bytes()).then(Step::Hang);
    let sample = one(stalls).await;
    assert_eq!(sample.error.unwrap().class, ErrorClass::StallTimeout);
    assert_eq!((sample.text.as_deref(), sample.wall_ms), (Some("a"), None));
    assert!(sample.sent_ns.is_some() && sample.first_content_ns.is_some());
    let mut trickle = Script::bytes(head.into_bytes());
    for _ in 0..40 {
        trickle = trickle.then(Step::Wait(Duration::from_millis(100)));
        trickle = trickle.then(Step::Send(chunked(": ping\n\n").into_bytes()));
    }
    assert_eq!(class_of(trickle).await, Some(ErrorClass::TotalTimeout));
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_fails_by_class() {
    let refusing = RefusingPort::open();
    let (_, samples, _) = drive(&job(&refusing.url, 0, 1)).await;
    let error = samples[0].error.clone().unwrap();
    assert_eq!(error.class, ErrorClass::Refused);
    assert!(error.message.contains("127.0.0.1"), "{}", error.message);
    assert_eq!(samples[0].sent_ns, None);

    // A full accept queue: the kernel drops what comes next.
    let full = support::FullListener::open();
    let mut job = job(&full.url, 0, 1);
    job.timeouts.connect = Duration::from_millis(300);
    let (_, samples, _) = drive(&job).await;
    let error = samples[0].error.clone().unwrap();
    assert_eq!(error.class, ErrorClass::ConnectTimeout, "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_a_size_limit() {
    let beyond = usize::try_from(agent::load::ANSWER_BYTES_MAX).unwrap() + 1;
    for (kind, class) in [
        ("application/json", ErrorClass::TooLarge),
        ("text/event-stream", ErrorClass::TooLarge),
    ] {
        let script = long_body(kind, beyond);
        let server = support::serve(move |_| script.clone()).await;
        let (_, samples, _) = drive(&job(&server.url, 0, 1)).await;
        let error = samples[0].error.clone().unwrap();
        assert_eq!(error.class, class, "{kind}: {}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_requests_fail_the_run_unless_allowed() {
    let every_third = |i: usize| {
        if i % 3 == 2 {
            json(500, r#"{"error":{"message":"boom","type":"server_error"}}"#)
        } else {
            usual_stream()
        }
    };
    let server = support::serve(every_third).await;
    let (end, samples, _) = drive(&job(&server.url, 1, 9)).await;
    let DriveOutcome::Failed { stage, message } = end.outcome else {
        unreachable!("{end:?}");
    };
    assert_eq!(stage, Stage::Measure);
    let host = server.url.strip_prefix("http://").unwrap();
    assert_eq!(
        message,
        format!("request 2 of 9 failed: {host}: 500 Internal Server Error: boom")
    );
    assert_eq!((samples.len(), end.measured.failed), (3, 1));

    let server = support::serve(every_third).await;
    let mut tolerant = job(&server.url, 1, 9);
    tolerant.allow_failures = AllowFailures::Count { n: 3 };
    let (end, samples, _) = drive(&tolerant).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    assert_eq!((samples.len(), end.measured.failed), (10, 3));

    let server = support::serve(every_third).await;
    tolerant.target = job(&server.url, 0, 1).target;
    tolerant.warmup = 3;
    let (end, samples, _) = drive(&tolerant).await;
    assert!(matches!(
        end.outcome,
        DriveOutcome::Failed {
            stage: Stage::Warmup,
            ..
        }
    ));
    assert_eq!(samples.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_request_under_way() {
    let head = support::stream_head();
    let script = Script::bytes(head.into_bytes()).then(Step::Hang);
    let server = support::serve(move |_| script.clone()).await;
    let job = job(&server.url, 0, 5);
    let (out, mut samples) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let order = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        order.cancel();
    });
    let end = drive_online(&job, Clock::start(), &out, |_| (), &cancel).await;
    assert_eq!(end.outcome, DriveOutcome::Cancelled);
    drop(out);
    let sample = samples.recv().await.unwrap();
    assert_eq!(sample.error.unwrap().class, ErrorClass::Aborted);
    assert!(sample.sent_ns.is_some());
    assert_eq!(samples.recv().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_store_fails_the_run() {
    let server = support::serve(|_| usual_stream()).await;
    let job = job(&server.url, 0, 100_000);
    let (out, samples) = mpsc::channel(1);
    drop(samples);
    let cancel = CancellationToken::new();
    let end = drive_online(&job, Clock::start(), &out, |_| (), &cancel).await;
    assert!(matches!(end.outcome, DriveOutcome::Failed { .. }));
    assert!(end.measured.ended < 100_000);
}
