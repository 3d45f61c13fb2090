//! What a good answer becomes: instants, counts, connections.

use std::time::Duration;

use agent::load::{Clock, DriveOutcome, Phase, drive_online};
use contracts::sample::{ErrorClass, TimingSource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::{self, Script, Step, chunked, drive, job, json, one, script_of, usual_stream};

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
        // Opened before the first request was due.
        assert_eq!(s.connected_ns, None);
        assert_eq!(
            (s.status, s.output_tokens, s.done_seen),
            (Some(200), Some(3), true)
        );
        assert_eq!(s.text.as_deref(), Some("abc"));
        assert_eq!(s.timing_source, Some(TimingSource::Client));
        let instants = [
            Some(s.due_ns),
            Some(s.start_ns),
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
    assert!(samples.iter().all(|s| !s.reused_connection));
    let opened: Vec<_> = samples.iter().map(|s| s.connected_ns.is_some()).collect();
    assert_eq!(opened, [false, true, true], "the first was opened ahead");
    let connections: Vec<_> = server.requests().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1, 2]);

    // Not said: the server closes it after its answer, or while the next request is on its way.
    let server = support::serve(|_| usual_stream().then(Step::Close)).await;
    let (end, samples, _) = drive(&job(&server.url, 1, 1)).await;
    assert_eq!(end.outcome, DriveOutcome::Done);
    let second = &samples[1];
    assert!(!second.reused_connection && second.connected_ns.is_some());
}
