//! Servers of every odd manner, looked at over real sockets: the grades that follow, and that
//! nothing hangs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod odd;
mod ours;

use std::time::Duration;

use agent::doctor::{DoctorError, examine};
use contracts::api::{DoctorRequest, Secrets};
use contracts::doctor::{Grade, ServerReport};
use contracts::sample::TokenSource;
use odd::{Counts, Manner, serve};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// Long enough for an answer on a busy machine, short enough to wait for one that never comes.
const PROBE: Duration = Duration::from_secs(5);

fn request(url: &str) -> DoctorRequest {
    DoctorRequest {
        url: url.to_owned(),
        served_name: None,
        request_timeout_ms: u64::try_from(PROBE.as_millis()).unwrap(),
        secrets: Secrets::default(),
    }
}

async fn report(manner: Manner) -> ServerReport {
    let server = serve(manner).await;
    examine(&request(&server.url)).await.unwrap()
}

#[track_caller]
fn has(report: &ServerReport, topic: &str, grade: Grade, words: &str) {
    let found = report.findings.iter().find(|f| f.topic == topic).unwrap();
    assert_eq!(found.grade, grade, "{topic}: {}", found.seen);
    assert!(found.seen.contains(words), "{topic}: {}", found.seen);
}

/// Topics that are not fine, for what a manner must not spoil.
fn not_fine(report: &ServerReport) -> Vec<&str> {
    let odd = report.findings.iter().filter(|f| f.grade != Grade::Fine);
    odd.map(|f| f.topic.as_str()).collect()
}

#[tokio::test]
async fn a_server_as_the_api_has_it_is_fine_in_all() {
    let server = serve(Manner::default()).await;
    let report = examine(&request(&format!("{}/v1/", server.url)))
        .await
        .unwrap();
    assert_eq!(not_fine(&report), [""; 0], "{report:#?}");
    assert_eq!(report.url, server.url);
    assert_eq!(
        (report.model.as_str(), report.server.as_deref()),
        ("m", Some("odd/1"))
    );
    assert_eq!(report.counting, TokenSource::Usage);
    assert_eq!(report.tokens_per_event, Some(1.0));
    assert!(!report.usage_per_event);
    assert!(server.requests() < 30, "{} requests", server.requests());
}

#[tokio::test]
async fn line_ends_pings_and_closed_connections_are_odd_and_nothing_else() {
    let report = report(Manner {
        line_end: "\r\n",
        data: "data:",
        ping: ": ping\r\n\r\n",
        done: false,
        close_delimited: true,
        ..Manner::default()
    })
    .await;
    has(&report, "line_ends", Grade::Odd, "CRLF, no blank after");
    has(&report, "comments", Grade::Odd, "24 comment lines");
    has(&report, "done", Grade::Odd, "no [DONE]");
    has(&report, "framing", Grade::Odd, "end of the connection");
    has(&report, "keep_alive", Grade::Odd, "could not be told");
    has(&report, "stream", Grade::Fine, "24 events");
    let odd = ["framing", "line_ends", "comments", "done", "keep_alive"];
    assert_eq!(not_fine(&report), odd);
}

#[tokio::test]
async fn counts_are_found_wherever_they_are() {
    let in_each = report(Manner {
        counts: Counts::InEach,
        tokens_per_event: 4,
        ..Manner::default()
    })
    .await;
    has(&in_each, "usage", Grade::Fine, "in each event");
    has(&in_each, "tokens_per_event", Grade::Odd, "4.0");
    has(&in_each, "stream_options", Grade::Fine, "unasked too");
    assert!(in_each.usage_per_event);
    assert_eq!(in_each.tokens_per_event, Some(4.0));
    let after = report(Manner {
        counts: Counts::AfterDone,
        ..Manner::default()
    })
    .await;
    has(&after, "usage", Grade::Odd, "after [DONE]");
    assert_eq!(after.counting, TokenSource::Usage);
}

#[tokio::test]
async fn without_counts_events_are_counted_or_a_tokenizer_asked_for() {
    let null = report(Manner {
        counts: Counts::Null,
        ..Manner::default()
    })
    .await;
    has(&null, "usage", Grade::Limits, "null");
    has(&null, "stream_options", Grade::Odd, "ignored");
    assert_eq!(null.counting, TokenSource::Events);
    assert!(
        null.counting_reason.contains("--no-stream"),
        "{}",
        null.counting_reason
    );
    let coarse = report(Manner {
        counts: Counts::Never,
        whole_counts: false,
        tokens_per_event: 3,
        ..Manner::default()
    })
    .await;
    has(&coarse, "usage", Grade::Limits, "none");
    has(&coarse, "tokens_per_event", Grade::Limits, "3.0");
    assert_eq!(coarse.counting, TokenSource::Tokenizer);
    assert!(
        coarse.counting_reason.contains("--tokenizer"),
        "{}",
        coarse.counting_reason
    );
}

#[tokio::test]
async fn what_is_refused_is_named() {
    let report = report(Manner {
        refuses_options: true,
        html_errors: true,
        refused_fields: &["min_p", "seed", "ignore_eos"],
        keeps_connections: false,
        ..Manner::default()
    })
    .await;
    has(&report, "stream_options", Grade::Odd, "refused");
    has(&report, "bad_request", Grade::Odd, "HTML");
    has(&report, "unknown_model", Grade::Fine, "404: an HTML page");
    has(&report, "extensions", Grade::Limits, "refuses min_p (");
    has(&report, "ignore_eos", Grade::Limits, "refused");
    has(&report, "seed", Grade::Limits, "refused");
    has(
        &report,
        "keep_alive",
        Grade::Odd,
        "closed without saying so",
    );
    has(&report, "usage", Grade::Limits, "in whole answers only");
    has(&report, "stream", Grade::Fine, "24 events");
}

#[tokio::test]
async fn what_is_not_obeyed_is_told() {
    let report = report(Manner {
        ignores_max_tokens: true,
        honours_ignore_eos: false,
        honours_seed: false,
        streams: false,
        ..Manner::default()
    })
    .await;
    has(&report, "max_tokens", Grade::Limits, "asked for 3, got 40");
    has(&report, "ignore_eos", Grade::Limits, "no effect");
    has(&report, "seed", Grade::Limits, "two answers");
    has(&report, "greedy", Grade::Fine, "same");
    has(&report, "stream", Grade::Limits, "a whole answer");
    has(&report, "line_ends", Grade::Unknown, "there is no stream");
    assert_eq!(report.counting, TokenSource::Usage);
}

#[tokio::test]
async fn a_stream_that_only_stops_is_broken() {
    let report = report(Manner {
        done: false,
        finish: false,
        ..Manner::default()
    })
    .await;
    has(&report, "stream", Grade::Broken, "neither");
    has(&report, "finish", Grade::Broken, "none");
}

#[tokio::test]
async fn a_server_that_hangs_gives_a_report_within_its_bounds() {
    let mut asked = request(
        &serve(Manner {
            hangs: |_, _| true,
            ..Manner::default()
        })
        .await
        .url,
    );
    asked.request_timeout_ms = 200;
    let silent = examine(&asked).await.unwrap();
    has(&silent, "chat", Grade::Broken, "no answer within");
    has(&silent, "stream", Grade::Unknown, "no endpoint answers");
    let mut asked = request(
        &serve(Manner {
            hangs: |path, body| path.contains("chat") && body["stream"] == true,
            ..Manner::default()
        })
        .await
        .url,
    );
    asked.request_timeout_ms = 500;
    let half = examine(&asked).await.unwrap();
    has(&half, "chat", Grade::Fine, "answers");
    has(&half, "stream", Grade::Limits, "no answer within");
    has(&half, "greedy", Grade::Fine, "same");
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_not_repeated() {
    let server = serve(Manner {
        refuses_all: Some(401),
        ..Manner::default()
    })
    .await;
    let mut asked = request(&server.url);
    let secrets = &mut asked.secrets.headers;
    secrets.insert("authorization".to_owned(), "Bearer sk-hunter2".to_owned());
    let report = examine(&asked).await.unwrap();
    has(&report, "chat", Grade::Broken, "--api-key-file");
    has(
        &report,
        "chat",
        Grade::Broken,
        "no entry with authorization: Bearer ***",
    );
    assert!(!format!("{report:?}").contains("hunter2"));
}

#[tokio::test]
async fn what_speaks_no_http_is_broken_and_what_is_not_there_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9\r\n\r\n").await;
        }
    });
    let report = examine(&request(&format!("http://{address}")))
        .await
        .unwrap();
    has(&report, "chat", Grade::Broken, "no HTTP");
    let tls = examine(&request(&format!("https://{address}")))
        .await
        .unwrap_err();
    assert!(tls.to_string().contains("TLS"), "{tls}");
    serving.abort();
    let _ = serving.await;
    let gone = examine(&request(&format!("http://{address}")))
        .await
        .unwrap_err();
    assert!(matches!(&gone, DoctorError::Unreachable { .. }), "{gone:?}");
    assert!(gone.to_string().contains("refused"), "{gone}");
    let bad = examine(&request("gpu:80")).await.unwrap_err();
    assert!(matches!(bad, DoctorError::BadUrl(_)), "{bad:?}");
}
