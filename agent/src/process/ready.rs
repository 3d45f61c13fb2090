//! Waiting for a server to be ready: polls its health address until it is, or dies, or is late.
//!
//! Ready means three things: the address answers 200, the answer is from the instance that we
//! started, and our child is still alive afterwards. Each poll opens a connection of its own, so
//! that nothing is left over when requests are measured. What to do with a server that doesn't get
//! there is left to the caller.

use std::collections::BTreeMap;
use std::sync::Once;
use std::time::{Duration, Instant};

use contracts::defaults::LOG_TAIL_LINES;
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;

use super::child::{Child, ExitInfo, LOG_LIMIT};

/// One poll, answer included: a health page that needs longer is not healthy.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(2);
/// First pause between polls: our own servers are up in less than a second.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause: a large model loads for minutes, and polls take time from it.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Body of a health page, at most.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A server that is ready.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyInfo {
    /// What `/health` said; null where it isn't JSON.
    pub health_json: Value,
    /// From the call to the answer, milliseconds.
    pub ready_ms: f64,
}

/// Why a server is not ready.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// The address is not one.
    #[error("health address {url}: {message}")]
    Address {
        /// As given.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// It took too long.
    #[error("not ready within {} s; last poll of {url}: {last}", timeout.as_secs_f64())]
    TimedOut {
        /// What was polled.
        url: String,
        /// The limit.
        timeout: Duration,
        /// The last answer, or why there was none.
        last: String,
        /// Last lines of its output.
        log_tail: Vec<String>,
    },
    /// It answers, and what it says will not change by waiting.
    #[error("{url} answers {said}")]
    Refused {
        /// What was polled.
        url: String,
        /// The answer, and what to do.
        said: String,
    },
    /// The child ended first.
    #[error("died before it was ready: {exit}")]
    Died {
        /// How it ended.
        exit: ExitInfo,
        /// Last lines of its output.
        log_tail: Vec<String>,
    },
    /// Somebody else's server answers at this address.
    #[error("another server answers at {url}: its instance is {theirs}, ours is {ours}")]
    WrongInstance {
        /// What was polled.
        url: String,
        /// What we gave to our child.
        ours: String,
        /// What the answer says; `not given` if it says nothing.
        theirs: String,
    },
}

/// A client for everything but measured requests: no proxy from the environment, no redirects, a new
/// connection for each request, `limit` for a whole exchange.
pub fn http_client(limit: Duration) -> reqwest::Result<Client> {
    static PROVIDER: Once = Once::new();
    // An error says that the program has chosen a provider already, which serves as well.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .timeout(limit)
        .build()
}

/// Waits until the server of `child` is ready at `url`, asked with `headers`: a server that was started
/// with a key may want it here too. `instance`: the id that our own server
/// repeats; a foreign server has none, so the port must have been free before it was started
/// ([`super::port::check_free`]).
pub async fn wait_ready(
    child: &Child,
    url: &str,
    instance: Option<&str>,
    headers: &BTreeMap<String, String>,
    timeout: Duration,
) -> Result<ReadyInfo, ReadyError> {
    let begun = Instant::now();
    let bad = |message: String| ReadyError::Address {
        url: url.to_owned(),
        message,
    };
    let target = Url::parse(url).map_err(|error| bad(error.to_string()))?;
    let client = http_client(ATTEMPT_LIMIT).map_err(|error| bad(reason(&error, ATTEMPT_LIMIT)))?;
    let mut last = "none was answered".to_owned();
    let poll = async {
        let mut pause = PAUSE_FIRST;
        loop {
            match attempt(&client, &target, headers).await {
                Ok(health) => return Ok(health),
                Err(Silence::Final(said)) => return Err(said),
                Err(Silence::NotYet(said)) => last = said,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    let health_json = tokio::select! {
        // A child that is dead is never ready, whatever answers in its place.
        biased;
        exit = child.exited() => return Err(died(child, exit).await),
        health = poll => health.map_err(|said| ReadyError::Refused { url: url.to_owned(), said })?,
        () = tokio::time::sleep(timeout) => {
            let log_tail = child.log().tail(LOG_TAIL_LINES);
            return Err(ReadyError::TimedOut { url: url.to_owned(), timeout, last, log_tail });
        }
    };
    // Asked of the kernel: the report of a death may be on its way while another server answers.
    if !child.identity().child.is_alive() {
        return Err(died(child, child.exited().await).await);
    }
    check_instance(url, instance, &health_json)?;
    Ok(ReadyInfo {
        health_json,
        ready_ms: begun.elapsed().as_secs_f64() * 1000.0,
    })
}

fn check_instance(url: &str, ours: Option<&str>, health: &Value) -> Result<(), ReadyError> {
    let Some(ours) = ours else { return Ok(()) };
    let theirs = health.get("instance").and_then(Value::as_str);
    if theirs == Some(ours) {
        return Ok(());
    }
    Err(ReadyError::WrongInstance {
        url: url.to_owned(),
        ours: ours.to_owned(),
        theirs: theirs.unwrap_or("not given").to_owned(),
    })
}

async fn died(child: &Child, exit: ExitInfo) -> ReadyError {
    // Its last words, which say why, may still be in the pipe.
    child.log().settle(LOG_LIMIT).await;
    ReadyError::Died {
        exit,
        log_tail: child.log().tail(LOG_TAIL_LINES),
    }
}

/// Why a poll gave no health, in words.
enum Silence {
    /// The next one may.
    NotYet(String),
    /// None will.
    Final(String),
}

/// One poll: the body of a 200, or what came instead.
async fn attempt(
    client: &Client,
    url: &Url,
    headers: &BTreeMap<String, String>,
) -> Result<Value, Silence> {
    let not_yet = |error: reqwest::Error| Silence::NotYet(reason(&error, ATTEMPT_LIMIT));
    let mut request = client.get(url.clone());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.map_err(not_yet)?;
    let status = answer.status();
    if status == StatusCode::OK {
        let body = bounded_body(answer).await.map_err(Silence::NotYet)?;
        return Ok(serde_json::from_slice(&body).unwrap_or(Value::Null));
    }
    let said = format!("HTTP {status}");
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Silence::Final(format!("{said}; it wants another API key or header"))
        }
        _ if status.is_redirection() => Silence::Final(format!(
            "{said}, a redirect; name a health page that answers 200 itself"
        )),
        _ => Silence::NotYet(said),
    })
}

async fn bounded_body(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| reason(&error, ATTEMPT_LIMIT))?
    {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(format!("a health page of more than {BODY_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The innermost cause: "Connection refused" and not "error sending request".
pub(crate) fn reason(error: &reqwest::Error, limit: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", limit.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_our_own_instance_will_do() {
        let check = |ours, health: Value| check_instance("http://h/health", ours, &health);
        check(None, Value::Null).unwrap();
        check(Some("a"), json!({"status": "ok", "instance": "a"})).unwrap();
        for (health, theirs) in [(json!({"instance": "b"}), "b"), (Value::Null, "not given")] {
            let said = check(Some("a"), health).unwrap_err().to_string();
            assert_eq!(
                said,
                format!(
                    "another server answers at http://h/health: its instance is {theirs}, ours is a"
                )
            );
        }
    }
}
