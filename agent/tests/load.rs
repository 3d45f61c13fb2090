//! The load generator against real sockets: small servers that send exact bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use agent::load::{Clock, DriveEnd, DriveOutcome, OnlineJob, Phase, drive_online};
use contracts::run::{AllowFailures, Stage};
use contracts::sample::{ErrorClass, Sample, TimingSource};
use support::{Script, Step, chunked, job, json, long_body, refused_url, script_of, usual_stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Runs a job to its end.
async fn drive(job: &OnlineJob) -> (DriveEnd, Vec<Sample>, Vec<Phase>) {
    let (out, mut samples) = mpsc::channel(1);
    let mut phases = Vec::new();
    let cancel = CancellationToken::new();
    let collect = async move {
        let mut all = Vec::new();
        while let Some(sample) = samples.recv().await {
            all.push(sample);
        }
        all
    };
    let driven = async {
        let end = drive_online(job, Clock::start(), &out, |p| phases.push(p), &cancel).await;
        drop(out);
        end
    };
    let (end, samples) = tokio::join!(driven, collect);
    (end, samples, phases)
}

/// The one sample of a run of one request.
async fn one(script: Script) -> Sample {
    let server = support::serve(move |_| script.clone()).await;
    let mut job = job(&server.url, 0, 1);
    job.timeouts.stall = Duration::from_millis(400);
    job.timeouts.total = Duration::from_millis(1500);
    let (_, mut samples, _) = drive(&job).await;
    assert_eq!(samples.len(), 1);
    samples.remove(0)
}

async fn class_of(script: Script) -> Option<ErrorClass> {
    let sample = one(script).await;
    if sample.error.is_some() {
        assert_eq!(sample.output_tokens, None);
        assert_eq!((sample.ttft_ms, sample.tpot_ms), (None, None));
    }
    sample.error.map(|e| e.class)
}

#[tokio::test(flavor = "multi_thread")]
async fn warm_up_and_measurement_share_one_connection() {
    let server = support::serve(|_| usual_stream()).await;
    let (end, samples, phases) = drive(&job(&server.url, 2, 3)).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    assert_eq!((end.warmup.ended, end.measured.ended), (2, 3));
    assert_eq!(phases, [Phase::Warmup, Phase::Measure]);
    let order: Vec<_> = samples.iter().map(|s| (s.warmup, s.index)).collect();
    let warm = [(true, 0), (true, 1)];
    let measured = [(false, 0), (false, 1), (false, 2)];
    assert_eq!(order, [warm.as_slice(), &measured].concat());
    for (i, s) in samples.iter().enumerate() {
        assert_eq!(s.error, None);
        assert_eq!(s.reused_connection, i > 0);
        assert_eq!(s.connected_ns.is_some(), i == 0);
        assert_eq!(
            (s.status, s.output_tokens, s.done_seen),
            (Some(200), Some(3), true)
        );
        assert_eq!(s.text.as_deref(), Some("abc"));
        assert_eq!(s.timing_source, Some(TimingSource::Client));
        let instants = [
            Some(s.due_ns),
            Some(s.start_ns),
            s.connected_ns.or(Some(s.start_ns)),
            s.sent_ns,
            s.headers_ns,
            s.first_event_ns,
            s.first_content_ns,
            s.last_content_ns,
            s.finish_ns,
            s.done_ns,
        ];
        assert!(instants.iter().all(Option::is_some), "{instants:?}");
        assert!(instants.is_sorted(), "{instants:?}");
        let wall_ms = (s.done_ns.unwrap() - s.sent_ns.unwrap()) as f64 / 1e6;
        assert_eq!(s.wall_ms, Some(wall_ms));
        assert!(s.bytes > 100);
    }
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.connection == 0));
    let seeds: Vec<_> = requests
        .iter()
        .map(|r| r.body["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds, [7, 8, 7, 8, 9]);
    let prompts: Vec<_> = requests.iter().map(|r| r.body["prompt"].clone()).collect();
    assert_eq!(prompts, ["p", "q", "p", "q", "p"]);
    assert_eq!(requests[0].body["stream_options"]["include_usage"], true);
    assert!(
        requests[0]
            .head
            .starts_with("POST /v1/completions HTTP/1.1\r\n")
    );
    let host = server.url.strip_prefix("http://").unwrap();
    let head = requests[0].head.to_ascii_lowercase();
    assert!(head.contains(&format!("host: {host}\r\n")), "{head}");
    assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
}

/// An event's stamp lies between its own write and the next one, even where the role chunk comes
/// with the head and the events of one write come together.
#[tokio::test(flavor = "multi_thread")]
async fn stamps_are_those_of_the_reads() {
    const GAP: Duration = Duration::from_millis(300);
    let role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let token = |t: &str| format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"{t}\"}}]}}\n\n");
    let end = "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n\
               data: {\"choices\":[],\"usage\":{\"completion_tokens\":4}}\n\n";
    let both = chunked(&token("b")) + &chunked(&token("c"));
    let split = chunked(&token("d"));
    let (left, right) = split.split_at(split.len() / 2);
    let mut first = support::stream_head();
    first.push_str(&chunked(role));
    let script = script_of(&[&first, &chunked(&token("a")), &both, left, right], GAP)
        .then(Step::Wait(GAP))
        .then(Step::Send(chunked(end).into_bytes()))
        .then(Step::Wait(GAP))
        .then(Step::Send(b"0\r\n\r\n".to_vec()));
    let clock = Clock::start();
    let server = support::serve_on(clock, move |_| script.clone()).await;
    let job = job(&server.url, 0, 1);
    let (out, mut samples) = mpsc::channel(1);
    let cancel = CancellationToken::new();
    drive_online(&job, clock, &out, |_| (), &cancel).await;
    let sample = samples.recv().await.unwrap();
    assert_eq!(sample.error, None);
    let writes = server.writes();
    // Head and role, a, b with c, d's first half, d's second half, the end, the last chunk.
    assert_eq!(writes.len(), 7);
    let within = |at: Option<u64>, write: usize| {
        let at = at.unwrap();
        let next = writes.get(write + 1).copied().unwrap_or(u64::MAX);
        assert!(writes[write] <= at && at < next, "{at} {write} {writes:?}");
    };
    within(sample.headers_ns, 0);
    within(sample.first_event_ns, 0);
    within(sample.first_content_ns, 1);
    within(sample.last_content_ns, 4);
    within(sample.finish_ns, 5);
    within(sample.done_ns, 6);
    let times = agent::load::event_times::decode(&sample.event_times.unwrap()).unwrap();
    assert_eq!(times.len(), 4);
    assert_eq!(times[1], times[2], "one write, one read, one stamp");
    let sent_ns = sample.sent_ns.unwrap();
    within(Some(sent_ns + times[1] * 1000), 2);
    assert!(sent_ns <= writes[0]);
    // n = 4, k = 1: three steps between the first and the last content.
    let decode_ns = sample.last_content_ns.unwrap() - sample.first_content_ns.unwrap();
    let tpot_ms = decode_ns as f64 / 1e6 / 3.0;
    assert!((sample.tpot_ms.unwrap() - tpot_ms).abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_in_single_bytes_keeps_its_text() {
    let event = "data: {\"choices\":[{\"index\":0,\"text\":\"é日\",\"finish_reason\":\"stop\"}],\
                 \"usage\":{\"completion_tokens\":1}}\r\n\r\n";
    let mut wire = support::stream_head().into_bytes();
    for byte in format!(": ping\r\n\r\n{event}").bytes() {
        wire.extend_from_slice(b"1\r\n");
        wire.push(byte);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    let sample = one(Script::bytes(wire)).await;
    assert_eq!(sample.error, None);
    assert_eq!(sample.text.as_deref(), Some("é日"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_answers_and_their_metrics() {
    let body = r#"{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2},"metrics":{"throughput":1.0,"input_tokens":4,"output_tokens":2,"ttft_ms":20.5,"tpot_ms":5.5,"wall_ms":26.0}}"#;
    let sample = one(json(200, body)).await;
    assert_eq!(sample.error, None);
    assert_eq!((sample.ttft_ms, sample.tpot_ms), (Some(20.5), Some(5.5)));
    assert_eq!(sample.timing_source, Some(TimingSource::Engine));
    assert_eq!(
        (sample.output_tokens, sample.input_tokens),
        (Some(2), Some(4))
    );
    let without = r#"{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}"#;
    let sample = one(json(200, without)).await;
    let error = sample.error.unwrap();
    assert_eq!(error.class, ErrorClass::BadJson);
    assert!(error.message.contains("`usage`"), "{}", error.message);
    assert_eq!(sample.output_tokens, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_ended_by_the_close_is_whole() {
    let stream = support::usual_events();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let script = Script::bytes(format!("{head}{stream}").into_bytes())
        .then(Step::Wait(Duration::from_millis(50)))
        .then(Step::Close);
    let sample = one(script).await;
    assert_eq!(sample.error, None);
    assert!(sample.done_ns > sample.finish_ns, "the close is the end");
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
            Some(ErrorClass::BadJson),
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
    let (_, samples, _) = drive(&job(&refused_url(), 0, 1)).await;
    let error = samples[0].error.clone().unwrap();
    assert_eq!(error.class, ErrorClass::Connect);
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
async fn a_closed_connection_is_opened_anew() {
    // Said so in the head.
    let close = |_| {
        let events = support::usual_events();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        Script::bytes(format!("{head}{events}").into_bytes()).then(Step::Close)
    };
    let server = support::serve(close).await;
    let (end, samples, _) = drive(&job(&server.url, 1, 2)).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    assert!(
        samples
            .iter()
            .all(|s| !s.reused_connection && s.connected_ns.is_some())
    );
    let connections: Vec<_> = server.requests().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1, 2]);

    // Not said: the server keeps it and then closes it between two requests.
    let server = support::serve(|_| usual_stream().then(Step::Close)).await;
    let (out, mut samples) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let pause = |phase| {
        if phase == Phase::Measure {
            std::thread::sleep(Duration::from_millis(300));
        }
    };
    let job = job(&server.url, 1, 1);
    let end = drive_online(&job, Clock::start(), &out, pause, &cancel).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    samples.recv().await.unwrap();
    let second = samples.recv().await.unwrap();
    assert!(!second.reused_connection && second.connected_ns.is_some());
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
    assert_eq!(
        message,
        "request 2 of 9 failed: 500 Internal Server Error: boom"
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
    let job = job(&server.url, 0, 5);
    let (out, samples) = mpsc::channel(1);
    drop(samples);
    let cancel = CancellationToken::new();
    let end = drive_online(&job, Clock::start(), &out, |_| (), &cancel).await;
    assert!(matches!(end.outcome, DriveOutcome::Failed { .. }));
    assert_eq!(end.measured.ended, 1);
}
