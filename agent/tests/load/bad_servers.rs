//! Bad servers: a class each, one clear line that names the server, and nothing that hangs beyond
//! its bound.

use std::time::Duration;

use agent::load::Clock;
use contracts::sample::{ErrorClass, Sample};

use crate::asking::{Asker, asker, config, failure_of, host_of};
use crate::support::{FullListener, RefusingPort, Script, Step, json};

/// The sample of a request with all bounds at `bound_ms`.
async fn ask(url: &str, bound_ms: u64) -> Sample {
    let mut config = config(url);
    let bound = Duration::from_millis(bound_ms);
    config.timeouts.connect = bound;
    config.timeouts.first_byte = bound;
    config.timeouts.stall = bound;
    Asker::new(config, Clock::start()).ask().await
}

async fn failure_at(url: &str, bound_ms: u64) -> (ErrorClass, String) {
    let sample = ask(url, bound_ms).await;
    assert_eq!((sample.status, sample.output_tokens), (None, None));
    failure_of(&sample, host_of(url))
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there() {
    let port = RefusingPort::open();
    let (class, message) = failure_at(&port.url, 5000).await;
    assert_eq!(class, ErrorClass::Refused);
    assert_eq!(message, "connection refused: nobody listens there");

    // A label this long is no name, so no server of names is asked.
    let url = format!("http://{}.invalid:80", "x".repeat(64));
    let (class, message) = failure_at(&url, 5000).await;
    assert_eq!(class, ErrorClass::Dns);
    assert!(
        message.starts_with("the name does not resolve: "),
        "{message}"
    );

    let full = FullListener::open();
    let (class, message) = failure_at(&full.url, 300).await;
    assert_eq!(class, ErrorClass::ConnectTimeout);
    assert_eq!(message, "no connection within 300ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer() {
    let (server, _) = asker(|_| Script::default().then(Step::Hang)).await;
    let (class, message) = failure_at(&server.url, 300).await;
    assert_eq!(class, ErrorClass::FirstByteTimeout);
    assert_eq!(message, "no byte of an answer within 300ms");

    let (server, _) = asker(|_| Script::default().then(Step::Reset)).await;
    let (class, message) = failure_at(&server.url, 5000).await;
    assert_eq!(class, ErrorClass::Reset);
    assert_eq!(message, "the server reset the connection");

    let (server, _) = asker(|_| Script::default().then(Step::Close)).await;
    let (class, message) = failure_at(&server.url, 5000).await;
    assert_eq!(class, ErrorClass::Transport);
    assert_eq!(
        message,
        "the server closed the connection without an answer"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_answer() {
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<p/>";
    let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(100_000));
    let rows = [
        (
            json(401, r#"{"error":{"message":"no key","type":"auth"}}"#),
            ErrorClass::Unauthorized,
            "401 Unauthorized: no key",
        ),
        (
            json(403, ""),
            ErrorClass::Unauthorized,
            "403 Forbidden; is the API key right?",
        ),
        (
            Script::bytes(html.into()),
            ErrorClass::ContentType,
            "200 OK with content-type \"text/html\"",
        ),
        (
            Script::bytes(b"SSH-2.0-x\r\n\r\n".to_vec()),
            ErrorClass::Transport,
            "the answer is not HTTP/1.1",
        ),
        (
            Script::bytes(b"\x15\x03\x03\x00\x02\x02\x46".to_vec()),
            ErrorClass::Transport,
            "the answer is TLS and not HTTP",
        ),
        (
            Script::bytes(endless.into_bytes()),
            ErrorClass::Transport,
            "the head of the answer has more than",
        ),
    ];
    for (script, class, words) in rows {
        let (server, mut asker) = asker(move |_| script.clone()).await;
        let (got, message) = failure_of(&asker.ask().await, host_of(&server.url));
        assert_eq!(got, class, "{message}");
        assert!(message.starts_with(words), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_that_never_ends_is_its_status() {
    let head = "HTTP/1.1 503 X\r\ncontent-type: text/plain\r\ncontent-length: 99\r\n\r\nbusy";
    let (server, _) = asker(move |_| Script::bytes(head.into()).then(Step::Hang)).await;
    let sample = ask(&server.url, 300).await;
    let (class, message) = failure_of(&sample, host_of(&server.url));
    assert_eq!(class, ErrorClass::HttpStatus);
    assert_eq!(message, "503 Service Unavailable: busy");
}

/// The total bound holds against a server that never lets the request wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_trickle_ends_by_the_total() {
    let mut script = Script::bytes(crate::support::stream_head().into_bytes());
    for _ in 0..200 {
        script = script.then(Step::Wait(Duration::from_millis(20)));
        script = script.then(Step::Send(b"9\r\n: ping\n\n\n\r\n".to_vec()));
    }
    let (server, _) = asker(move |_| script.clone()).await;
    let mut config = config(&server.url);
    config.timeouts.total = Duration::from_millis(300);
    let sample = Asker::new(config, Clock::start()).ask().await;
    let (class, message) = failure_of(&sample, host_of(&server.url));
    assert_eq!(class, ErrorClass::TotalTimeout);
    assert_eq!(message, "not done within 300ms");
}
