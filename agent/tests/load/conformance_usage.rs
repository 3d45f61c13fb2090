//! What a request carries: `stream_options`, asked for and left out where a server refuses it, and
//! the headers that a user gives.

use agent::load::{Clock, Shared};
use contracts::sample::ErrorClass;

use crate::asking::{Asker, asker, config};
use crate::support::{self, Script, Step, TestServer, json, usual_stream};

/// Whether each request carried the field.
fn carried(server: &TestServer) -> Vec<bool> {
    let requests = server.requests();
    let fields = requests.iter().map(|r| r.body.get("stream_options"));
    fields.map(|field| field.is_some()).collect()
}

fn refusal(words: &str) -> Script {
    json(
        400,
        &format!(r#"{{"error":{{"message":"{words}","type":"x"}}}}"#),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_usage_is_asked_without_it_for_the_run() {
    for words in ["unknown field: stream_options", "bad request"] {
        let words = words.to_owned();
        let (server, mut asker) = asker(move |i| match i {
            0 => refusal(&words),
            _ => usual_stream(),
        })
        .await;
        assert!(!asker.shared.usage_refused());
        for _ in 0..2 {
            let sample = asker.ask().await;
            assert_eq!((sample.error, sample.status), (None, Some(200)));
        }
        assert!(asker.shared.usage_refused());
        assert_eq!(carried(&server), [true, false, false]);
        let body = &server.requests()[1].body;
        assert_eq!(body["stream"], true, "nothing else is taken out");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_bad_requests_are_not_sent_twice() {
    // Refused with and without the field: it was not that, and is not tried again.
    let (server, mut always) = asker(|_| refusal("prompt too long")).await;
    for _ in 0..2 {
        assert_eq!(always.ask().await.status, Some(400));
    }
    assert!(!always.shared.usage_refused());
    assert_eq!(carried(&server), [true, false, true]);
    // A server that has taken the field once refuses something else.
    let (server, mut later) = asker(|i| match i {
        0 => usual_stream(),
        _ => refusal("prompt too long"),
    })
    .await;
    assert_eq!(later.ask().await.status, Some(200));
    assert_eq!(later.ask().await.status, Some(400));
    assert_eq!(carried(&server), [true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_refusal_is_told_of_the_request_that_was_sent_again() {
    let (_server, mut asker) = asker(|i| match i {
        0 => refusal("unknown field: stream_options"),
        _ => Script::default().then(Step::Close),
    })
    .await;
    let sample = asker.ask().await;
    let class = sample.error.map(|error| error.class);
    assert_eq!(class, Some(ErrorClass::Transport));
    assert!(sample.sent_ns.is_some());
    assert_eq!((sample.status, sample.headers_ns), (None, None));
    assert_eq!((sample.done_ns, sample.wall_ms), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_headers_go_out_over_ours() {
    let clock = Clock::start();
    let server = support::serve_on(clock, |_| usual_stream()).await;
    let mut config = config(&server.url);
    config.headers = [
        ("authorization".to_owned(), "Bearer s3cret".to_owned()),
        ("User-Agent".to_owned(), "mine/1".to_owned()),
    ]
    .into();
    assert_eq!(Asker::new(config, clock).ask().await.error, None);
    let head = server.requests()[0].head.clone();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
    let lines: Vec<&str> = head.lines().skip(1).collect();
    for expected in [
        "authorization: Bearer s3cret",
        "user-agent: mine/1",
        "accept: text/event-stream",
    ] {
        assert!(lines.contains(&expected), "{head}");
    }
    let agents = lines.iter().filter(|l| l.starts_with("user-agent")).count();
    assert_eq!(agents, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_server_repeats_is_not_kept() {
    let clock = Clock::start();
    let words = r#"{"error":{"message":"no such key: sk-s3cret (sk-s3cret)","type":"x"}}"#;
    let server = support::serve_on(clock, move |_| json(401, words)).await;
    let mut config = config(&server.url);
    config.headers = [("authorization".to_owned(), "Bearer sk-s3cret".to_owned())].into();
    let error = Asker::new(config, clock).ask().await.error.unwrap();
    assert_eq!(error.class, ErrorClass::Unauthorized);
    assert!(
        error.message.ends_with("no such key: *** (***)"),
        "{error:?}"
    );
}

#[test]
fn headers_that_cannot_be_sent_are_refused_by_name() {
    for (name, value, why) in [
        ("x y", "v", "no name"),
        ("x-key", "a\nb", "value"),
        ("Content-Length", "1", "itself"),
        ("transfer-encoding", "chunked", "itself"),
    ] {
        let mut config = config("http://127.0.0.1:1");
        config.headers = [(name.to_owned(), value.to_owned())].into();
        let error = Shared::new(config, Clock::start())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(name) && error.contains(why), "{error}");
        assert!(!error.contains("a\nb"), "a value may be a secret");
    }
}
