//! The conformance suite's part on HTTP: how answers are delimited and encoded, when a connection
//! serves again, when a request is sent anew.

use std::io::Write;
use std::time::Duration;

use agent::load::{Clock, event_times};
use contracts::sample::{ErrorClass, Sample};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::asking::{Asker, answer_to, asker, config, failure_of, host_of};
use crate::support::{self, Script, Step, chunked, usual_events, usual_stream};

fn is_usual(name: &str, sample: &Sample) {
    assert_eq!(sample.error, None, "{name}");
    assert_eq!(sample.text.as_deref(), Some("abc"), "{name}");
    assert_eq!(sample.output_tokens, Some(3), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_end_by_length_by_chunks_and_by_the_close() {
    let events = usual_events();
    let length = format!("content-length: {}", events.len());
    let chunks = chunked(&events);
    let kind = "content-type: text/event-stream";
    let with = |head: &str, body: &str| format!("HTTP/1.{head}\r\n{kind}\r\n\r\n{body}");
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    let coding = "transfer-encoding: chunked";
    // Whether the connection serves again.
    let cases = [
        (
            "length",
            with(&format!("1 200 OK\r\n{length}"), &events),
            true,
        ),
        (
            "chunks",
            with(
                &format!("1 200 OK\r\n{coding}"),
                &format!("{chunks}0\r\n\r\n"),
            ),
            true,
        ),
        (
            "trailers and extensions",
            with(
                &format!("1 200 OK\r\n{coding}"),
                &format!(
                    "{}0;x\r\na: b\r\n\r\n",
                    chunks.replacen("\r\n", ";x=y\r\n", 1)
                ),
            ),
            true,
        ),
        (
            "interim answers",
            interim.to_owned() + &with(&format!("1 200 OK\r\n{length}"), &events),
            true,
        ),
        (
            "connection: close",
            with(
                &format!("1 200 OK\r\n{length}\r\nconnection: close"),
                &events,
            ),
            false,
        ),
        (
            "HTTP/1.0",
            with(&format!("0 200 OK\r\n{length}"), &events),
            false,
        ),
        (
            "HTTP/1.0 kept",
            with(
                &format!("0 200 OK\r\n{length}\r\nconnection: keep-alive"),
                &events,
            ),
            true,
        ),
        (
            "more than the answer",
            with(&format!("1 200 OK\r\n{length}"), &(events.clone() + "HTTP")),
            false,
        ),
    ];
    for (name, wire, keeps) in cases {
        let (server, mut asker) = asker(move |_| Script::bytes(wire.clone().into_bytes())).await;
        for _ in 0..2 {
            is_usual(name, &asker.ask().await);
        }
        let connections: Vec<_> = server.requests().iter().map(|r| r.connection).collect();
        assert_eq!(connections, [0, usize::from(!keeps)], "{name}");
    }
    let by_close = Script::bytes(with("1 200 OK", &events).into_bytes()).then(Step::Close);
    let sample = answer_to(by_close).await;
    is_usual("the close", &sample);
    assert!(!sample.unterminated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_fails_and_is_not_followed() {
    let (server, mut asker) = asker(|_| {
        let head =
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: /v1/x\r\ncontent-length: 0\r\n\r\n";
        Script::bytes(head.into())
    })
    .await;
    let sample = asker.ask().await;
    let (class, message) = failure_of(&sample, host_of(&server.url));
    assert_eq!((class, sample.status), (ErrorClass::Redirect, Some(307)));
    assert!(message.contains("/v1/x"), "{message}");
    assert_eq!(server.requests().len(), 1);
}

/// Each event is stamped when its own compressed bytes come.
#[tokio::test(flavor = "multi_thread")]
async fn gzip_is_decoded_though_identity_is_asked_for() {
    const PAUSE: Duration = Duration::from_millis(150);
    let head = support::stream_head().replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
    let mut script = Script::bytes(head.into_bytes());
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for event in usual_events().split_inclusive("\n\n") {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let data = std::mem::take(encoder.get_mut());
        let chunk = [format!("{:x}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat();
        script = script.then(Step::Wait(PAUSE)).then(Step::Send(chunk));
    }
    script = script.then(Step::Send(b"0\r\n\r\n".to_vec()));
    let (server, mut asker) = asker(move |_| script.clone()).await;
    let sample = asker.ask().await;
    is_usual("gzip", &sample);
    let head = server.requests()[0].head.to_ascii_lowercase();
    assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
    let writes = server.writes();
    let times = event_times::decode(&sample.event_times.unwrap()).unwrap();
    for (i, at_us) in times.iter().enumerate() {
        let at_ns = sample.sent_ns.unwrap() + at_us * 1000 + 500;
        assert!(
            writes[i + 1] <= at_ns && at_ns <= writes[i + 2],
            "{i}: {times:?} {writes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_encoding_is_refused_by_name() {
    let head = support::stream_head().replace("\r\n\r\n", "\r\ncontent-encoding: br\r\n\r\n");
    let sample = answer_to(Script::bytes(head.into_bytes())).await;
    let error = sample.error.unwrap();
    assert_eq!(error.class, ErrorClass::ContentType);
    assert!(error.message.contains("\"br\""), "{}", error.message);
}

/// The check before a request cannot see this: the server closes when the request arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_dies_unanswered_is_replaced_once() {
    let (server, mut asker) = asker(|i| match i {
        1 | 3 | 4 => Script::default().then(Step::Close),
        _ => usual_stream(),
    })
    .await;
    asker.client.connect().await.unwrap();
    assert!(asker.client.is_open());
    let first = asker.ask().await;
    assert!(!first.reused_connection && first.connected_ns.is_none());
    let second = asker.ask().await;
    is_usual("sent again", &second);
    assert!(second.reconnected && !second.reused_connection);
    let writes = server.writes();
    // Its times are those of the second sending.
    assert!(second.start_ns <= second.connected_ns.unwrap());
    assert!(second.connected_ns <= second.sent_ns && second.sent_ns.unwrap() <= writes[1]);
    let wall_ms = (second.done_ns.unwrap() - second.sent_ns.unwrap()) as f64 / 1e6;
    assert_eq!(second.wall_ms, Some(wall_ms));
    let connections = |server: &support::TestServer| -> Vec<_> {
        server.requests().iter().map(|r| r.connection).collect()
    };
    assert_eq!(connections(&server), [0, 0, 1]);
    // Twice is a failure, and so is a new connection that dies.
    let third = asker.ask().await;
    let (class, message) = failure_of(&third, host_of(&server.url));
    assert_eq!((class, third.reconnected), (ErrorClass::Transport, true));
    assert_eq!(
        message,
        "the server closed the connection without an answer"
    );
    assert_eq!(connections(&server), [0, 0, 1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_not_sent_again_once_a_byte_has_come() {
    let (server, mut asker) = asker(|i| match i {
        0 => usual_stream(),
        _ => Script::bytes(b"HTTP/1.1 2".to_vec()).then(Step::Close),
    })
    .await;
    is_usual("first", &asker.ask().await);
    let second = asker.ask().await;
    assert!(second.reused_connection && !second.reconnected);
    assert_eq!(second.error.map(|e| e.class), Some(ErrorClass::Transport));
    assert_eq!(server.requests().len(), 2);
}

/// The stream has said all; how its body ends after that costs nothing but a mark.
#[tokio::test(flavor = "multi_thread")]
async fn a_finished_stream_without_its_last_chunk_is_fine_and_marked() {
    let wire = support::stream_head() + &chunked(&usual_events());
    let wire = Script::bytes(wire.into_bytes());
    let wait = || Step::Wait(Duration::from_millis(100));
    let ends = [
        ("closed", wire.clone().then(Step::Close)),
        ("reset", wire.clone().then(wait()).then(Step::Reset)),
        ("left open", wire.then(Step::Hang)),
    ];
    for (name, script) in ends {
        let clock = Clock::start();
        let server = support::serve_on(clock, move |_| script.clone()).await;
        let mut config = config(&server.url);
        config.timeouts.stall = Duration::from_millis(400);
        let sample = Asker::new(config, clock).ask().await;
        is_usual(name, &sample);
        assert!(sample.unterminated && sample.done_seen, "{name}");
        assert_eq!(
            sample.done_ns, sample.finish_ns,
            "{name}: the last read was the one write"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keep_alive_each_request_connects_and_that_counts() {
    let clock = Clock::start();
    let server = support::serve_on(clock, |_| usual_stream()).await;
    let mut config = config(&server.url);
    config.keepalive = false;
    let mut asker = Asker::new(config, clock);
    for i in 0..2 {
        let sample = asker.ask().await;
        is_usual("its own connection", &sample);
        assert!(!sample.reused_connection && sample.connected_ns.is_some());
        let ms = |from: u64, to: u64| (to - from) as f64 / 1e6;
        let done_ns = sample.done_ns.unwrap();
        assert_eq!(sample.wall_ms, Some(ms(sample.start_ns, done_ns)));
        let ttft_ms = ms(sample.sent_ns.unwrap(), sample.first_content_ns.unwrap());
        assert_eq!(sample.ttft_ms, Some(ttft_ms));
        let request = &server.requests()[i];
        assert_eq!(request.connection, i);
        assert!(request.head.contains("connection: close\r\n"));
    }
    assert!(!asker.client.is_open());
}
