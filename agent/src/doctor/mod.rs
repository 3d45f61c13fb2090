//! `controller doctor`: what a server does, seen from this agent, and how its tokens can be
//! counted.
//!
//! One request at a time, over sockets of its own, so that line ends, chunks and headers are seen
//! as they come. `dial`, `head` and `exchange` bring answers; `stream` and `whole` read them;
//! `door`, `shape`, `counting`, `errors` and `obeys` judge, each a group of topics. Nothing here
//! measures; a server that is broken in any way gives a report that says so.

mod ask;
mod counting;
mod dial;
mod door;
mod errors;
mod exchange;
mod head;
mod obeys;
mod report;
mod shape;
mod stream;
#[cfg(test)]
mod testing;
mod whole;

use std::time::Duration;

use contracts::api::DoctorRequest;
use contracts::defaults::DOCTOR_TIME;
use contracts::doctor::{Finding, Grade, ServerReport};
use tokio::time::Instant;

use crate::load::{Route, Target, sendable};
use counting::{Counting, Evidence};
use dial::Dialer;
use door::Endpoints;
use exchange::{Answer, Asker, Reply, Trouble};
use stream::Stream;
use whole::Whole;

/// Tokens that a stream is asked for: enough to tell one token an event from several.
const STREAM_TOKENS: u32 = 24;

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DoctorError {
    /// The URL is none of a server.
    #[error("{0}; use http://HOST:PORT or https://HOST")]
    BadUrl(&'static str),
    /// A header that no request can carry; its value is not told.
    #[error("{0}")]
    BadHeader(String),
    /// Nothing could be asked.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// Base URL.
        url: String,
        /// What the connection said.
        why: String,
    },
}

/// Looks at a server. Takes as long as its answers, [`DOCTOR_TIME`] at most.
///
/// # Errors
/// No server's URL; a header that cannot be sent; no connection. All else is a report.
pub async fn examine(request: &DoctorRequest) -> Result<ServerReport, DoctorError> {
    let target = Target::parse(&request.url)
        // Its own words repeat the URL, which may carry a password.
        .map_err(|error| DoctorError::BadUrl(error.why))?;
    sendable(&request.secrets.headers)
        .map_err(|error| DoctorError::BadHeader(error.to_string()))?;
    let url = target.base_url();
    let unreachable = |why: String| DoctorError::Unreachable {
        url: url.clone(),
        why,
    };
    let dialer = Dialer::new(target).map_err(&unreachable)?;
    let asker = Asker::new(
        dialer,
        request.secrets.clone(),
        Duration::from_millis(request.request_timeout_ms),
        Instant::now() + DOCTOR_TIME,
    );
    let reach = match asker.dial().await {
        Ok(line) => door::reach(&line),
        Err(Trouble::Connect(why)) => return Err(unreachable(why)),
        Err(trouble) => return Err(unreachable(trouble.to_string())),
    };
    let mut looked = look(&asker, request.served_name.as_deref()).await;
    looked.findings.push(reach);
    Ok(report::write(url, looked))
}

/// What was found, not yet in order.
struct Looked {
    model: String,
    server: Option<String>,
    counting: Counting,
    findings: Vec<Finding>,
    /// Why topics are missing, if any are.
    missing: &'static str,
}

async fn look(asker: &Asker, asked: Option<&str>) -> Looked {
    let health = asker.get("/health").await;
    let models = asker.get("/v1/models").await;
    let mut findings = vec![door::health(&health)];
    let (model, finding) = door::models(&models, asked);
    findings.push(finding);
    let endpoints = match (&health, &models) {
        // A server that does not even answer these would only take the same time twice more.
        (Err(Trouble::Silent(_)), Err(trouble @ Trouble::Silent(_))) => Endpoints::unasked(trouble),
        _ => Endpoints::ask(asker, &model).await,
    };
    let chosen = endpoints.chosen();
    // A server may stream and give no whole answer.
    let route = chosen.as_ref().map_or(Route::Chat, |(route, _)| *route);
    let whole = chosen.map(|(_, whole)| whole);
    let streams = if endpoints.are_silent() {
        Streams::default()
    } else {
        Streams::ask(asker, route, &model).await
    };
    let main = streams.main();
    findings.extend(endpoints.findings(main.is_some_and(|(_, stream)| stream.content_events > 0)));
    match main {
        Some((answer, stream)) => findings.extend(shape::judge(answer, stream)),
        None => findings.extend(streams.none(whole.is_some())),
    }
    let counting = counting::judge(&Evidence {
        asked: streams.asked.as_ref().map(|(_, stream)| stream),
        unasked: streams.unasked.as_ref().map(|(_, stream)| stream),
        refused: streams.refused.clone(),
        whole: whole.as_ref(),
        ceiling: STREAM_TOKENS,
    });
    findings.extend(streams.keep_alive.clone());
    let replies = [&health, &models, &endpoints.chat, &endpoints.completions];
    let answers: Vec<&Answer> = replies
        .into_iter()
        .flatten()
        .chain(main.map(|(answer, _)| answer))
        .collect();
    findings.push(encoding(&answers));
    if let Some(whole) = &whole {
        findings.push(obeys::max_tokens(whole));
        findings.extend(errors::look(asker, route, &model).await);
        findings.extend(obeys::look(asker, route, &model).await);
    }
    let servers = answers.iter().map(|answer| answer.head.header("server"));
    Looked {
        server: servers
            .into_iter()
            .find(|server| !server.is_empty())
            .map(whole::excerpt),
        missing: missing(whole.as_ref(), main.is_some()),
        model,
        counting,
        findings,
    }
}

fn missing(whole: Option<&Whole>, stream: bool) -> &'static str {
    match (whole, stream) {
        (None, false) => "not looked at: no endpoint answers",
        (None, true) => "not looked at: there are no whole answers",
        (Some(_), _) => "not looked at: there is no stream",
    }
}

/// The two streams that are asked for on one connection: with usage asked for, and without.
#[derive(Default)]
struct Streams {
    asked: Option<(Answer, Stream)>,
    unasked: Option<(Answer, Stream)>,
    /// `stream_options` was refused, in these words.
    refused: Option<String>,
    /// Why there is none.
    trouble: Option<String>,
    keep_alive: Option<Finding>,
}

impl Streams {
    async fn ask(asker: &Asker, route: Route, model: &str) -> Self {
        let body = ask::body(route, model, ask::LONG, STREAM_TOKENS);
        let with = ask::stream(body.clone(), true);
        let without = ask::stream(body, false);
        let (first, second) = asker.post_twice(route.path(), &with, &without).await;
        if matches!(first, Err(Trouble::Silent(_))) {
            return Self {
                trouble: Some(whole::read(&first).err().unwrap_or_default()),
                ..Self::default()
            };
        }
        let kept = matches!(second, Some(Ok(_)));
        let keep_alive = first.as_ref().ok().map(|first| keep_alive(first, &second));
        let second = match second {
            Some(second) if kept => second,
            _ => asker.post(route.path(), &without).await,
        };
        Self {
            refused: counting::refused(&first, &second),
            trouble: whole::read(&second).err(),
            asked: streamed(first),
            unasked: streamed(second),
            keep_alive,
        }
    }

    /// The one that a run would get.
    fn main(&self) -> Option<(&Answer, &Stream)> {
        let streamed = self.asked.as_ref().or(self.unasked.as_ref())?;
        Some((&streamed.0, &streamed.1))
    }

    /// What is to be said where there is no stream; a server with whole answers can be measured.
    fn none(&self, whole: bool) -> Option<Finding> {
        let (grade, seen) = match (&self.trouble, whole) {
            (None, true) => (
                Grade::Limits,
                "a whole answer though a stream was asked for: no TTFT and no TPOT".to_owned(),
            ),
            (Some(why), true) => (Grade::Limits, format!("{why}; use --no-stream")),
            (Some(why), false) => (Grade::Broken, why.clone()),
            (None, false) => return None,
        };
        Some(finding("stream", grade, seen))
    }
}

/// A 2xx answer that is no document, read as a stream.
fn streamed(reply: Reply) -> Option<(Answer, Stream)> {
    let answer = reply.ok()?;
    let good = (200..300).contains(&answer.head.status) && !shape::is_document(&answer);
    let stream = stream::read(&answer.body);
    good.then_some((answer, stream))
}

fn keep_alive(first: &Answer, second: &Option<Reply>) -> Finding {
    let (grade, seen) = match second {
        Some(Ok(_)) => (Grade::Fine, "a second request on the same connection"),
        None if first.head.closes() => (Grade::Odd, "none: each answer closes its connection"),
        None => (Grade::Odd, "none: the end of the answer could not be told"),
        Some(Err(Trouble::Silent(_))) => (Grade::Odd, "no answer to a second request"),
        Some(Err(_)) => (Grade::Odd, "none: closed without saying so before"),
    };
    finding("keep_alive", grade, seen)
}

/// Compression, though none was asked for.
fn encoding(answers: &[&Answer]) -> Finding {
    let said = answers
        .iter()
        .map(|answer| answer.head.header("content-encoding"))
        .find(|said| !matches!(*said, "" | "identity"));
    let (grade, seen) = match said {
        None if answers.is_empty() => (Grade::Unknown, "no answer to look at".to_owned()),
        None => (Grade::Fine, "none, as asked for".to_owned()),
        Some("gzip") => (
            Grade::Odd,
            "gzip, though none was asked for; events may come late".to_owned(),
        ),
        Some(other) => (
            Grade::Broken,
            format!("{}, which is not read", whole::excerpt(other)),
        ),
    };
    finding("encoding", grade, seen)
}

fn finding(topic: &str, grade: Grade, seen: impl Into<String>) -> Finding {
    Finding {
        topic: topic.to_owned(),
        grade,
        seen: seen.into(),
    }
}

/// ` after 5 tokens`, or nothing where there is no count.
fn with_tokens(count: Option<u32>) -> String {
    match count {
        Some(1) => " after 1 token".to_owned(),
        Some(count) => format!(" after {count} tokens"),
        None => String::new(),
    }
}
