//! The conformance suite's streams that must fail, each by its class, and keep what was seen.

use std::time::Duration;

use agent::load::Clock;
use contracts::sample::ErrorClass;

use crate::asking::{Asker, answer_to, asker, config, failure_of, host_of};
use crate::conformance::{DONE, FINISH, PAUSE, ROLE, token};
use crate::support::{self, Script, Step, chunked, json};

/// A stream that fails keeps what was seen and gives no figures.
#[tokio::test(flavor = "multi_thread")]
async fn each_broken_stream_fails_by_its_class() {
    let head = support::stream_head();
    let abc = ["a", "b", "c"].map(token).concat();
    let stream = |rest: &str| format!("{head}{}", chunked(&(abc.clone() + rest)));
    let ended = |bytes: String| Script::bytes((bytes + "0\r\n\r\n").into_bytes());
    let error = "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n";
    let half_finish = FINISH.trim_end();
    let cases = [
        (
            "error object",
            ended(stream(error)),
            ErrorClass::StreamError,
        ),
        (
            "closed early",
            Script::bytes(stream("").into_bytes()).then(Step::Close),
            ErrorClass::Truncated,
        ),
        ("ended early", ended(stream("")), ErrorClass::Truncated),
        (
            "an unterminated last event",
            ended(stream(half_finish)),
            ErrorClass::Truncated,
        ),
        (
            "reset",
            Script::bytes(stream("").into_bytes())
                .then(Step::Wait(PAUSE))
                .then(Step::Reset),
            ErrorClass::Reset,
        ),
        (
            "bad JSON",
            ended(stream("data: {\"choices\":\n\n")),
            ErrorClass::BadJson,
        ),
    ];
    for (name, script, class) in cases {
        let sample = answer_to(script).await;
        assert_eq!(
            sample.error.as_ref().map(|e| e.class),
            Some(class),
            "{name}"
        );
        assert_eq!(sample.text.as_deref(), Some("abc"), "{name}");
        assert!(sample.event_times.is_some(), "{name}");
        assert_eq!(
            (sample.ttft_ms, sample.output_tokens),
            (None, None),
            "{name}"
        );
    }
    let empty = answer_to(ended(head.clone())).await;
    assert_eq!(
        empty.error.map(|e| e.class),
        Some(ErrorClass::Truncated),
        "no event at all"
    );
    let silent = answer_to(ended(head + &chunked(&(ROLE.to_owned() + FINISH + DONE)))).await;
    assert_eq!(
        silent.error.map(|e| e.class),
        Some(ErrorClass::NoTokens),
        "an empty answer"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_keep_the_status_and_a_part_of_the_page() {
    let page = "<html><body>\n<h1>Bad &amp; sad</h1>\n".repeat(200);
    for status in [429, 500, 502] {
        let script = Script::bytes(
            format!(
                "HTTP/1.1 {status} X\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
                page.len()
            )
            .into_bytes(),
        );
        let (server, mut asker) = asker(move |_| script.clone()).await;
        let sample = asker.ask().await;
        assert_eq!(sample.status, Some(status));
        let (class, message) = failure_of(&sample, host_of(&server.url));
        assert_eq!(class, ErrorClass::HttpStatus);
        let is_excerpt = message.starts_with(&status.to_string()) && message.contains("<h1>Bad");
        assert!(is_excerpt && message.chars().count() < 400, "{message}");
        // The page was read to its end: the connection serves on.
        assert!(asker.ask().await.reused_connection);
    }
    let said = answer_to(json(
        400,
        r#"{"error":{"message":"no such model","type":"x"}}"#,
    ))
    .await;
    assert!(
        said.error
            .unwrap()
            .message
            .ends_with(": 400 Bad Request: no such model")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_ends_by_its_own_bound() {
    let script = Script::bytes(support::stream_head().into_bytes())
        .then(Step::Send(chunked(&token("a")).into_bytes()))
        .then(Step::Hang);
    let server = support::serve(move |_| script.clone()).await;
    let mut config = config(&server.url);
    config.timeouts.stall = Duration::from_millis(200);
    let mut asker = Asker::new(config, Clock::start());
    let sample = asker.ask().await;
    let (class, message) = failure_of(&sample, host_of(&server.url));
    assert_eq!(class, ErrorClass::StallTimeout);
    assert_eq!(message, "silence for 200ms within the answer");
    assert_eq!(sample.text.as_deref(), Some("a"));
}
