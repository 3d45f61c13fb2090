//! Requests as bytes and answers as they came, within bounds. What an answer means is left to
//! `stream` and `whole`; a server that is broken in any way gives an [`Answer`] or a [`Trouble`].

use std::io::Read;
use std::time::Duration;

use contracts::api::Secrets;
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::dial::{Dialer, Io, Line};
use super::head::Head;
use crate::blot::Blotter;
use crate::load::framing::Framing;

/// Body bytes of one answer, at most: no probe asks for more than 64 tokens.
const BODY_BYTES_MAX: usize = 4 << 20;
/// After `[DONE]`, how long the end of the body is waited for: a server may forget it, and each
/// stream would then take the whole timeout.
const AFTER_DONE: Duration = Duration::from_secs(2);
/// Where `[DONE]` is looked for: at the end of what has come.
const DONE_TAIL_BYTES: usize = 1 << 10;
const READ_BYTES: usize = 16 << 10;

/// An answer, or what came of it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status and headers.
    pub head: Head,
    /// Without its framing, and decoded if it was compressed by gzip.
    pub body: Vec<u8>,
    /// How it ended.
    pub end: End,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By its own framing.
    Whole,
    /// `[DONE]` came, and the body was never ended.
    Unterminated,
    /// The server closed or broke the connection before that.
    Early,
    /// Nothing more came in time.
    Silent,
    /// It was longer than we read.
    TooLong,
    /// Its chunks cannot be read.
    BadChunks,
}

/// No answer at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// The connection ended before a head had come.
    #[error("the connection was closed without an answer")]
    Closed,
    /// No head in time.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// Something that is no HTTP.
    #[error("the answer is no HTTP/1.1: {0}")]
    NotHttp(String),
    /// The doctor's own time is up.
    #[error("no time was left to look")]
    NoTime,
}

/// What a request came to.
pub type Reply = Result<Answer, Trouble>;

/// Asks one server, a request at a time.
pub struct Asker {
    dialer: Dialer,
    secrets: Secrets,
    blotter: Blotter,
    timeout: Duration,
    until: Instant,
}

impl Asker {
    /// Each request within `timeout`, all of them until `until`.
    pub fn new(dialer: Dialer, secrets: Secrets, timeout: Duration, until: Instant) -> Self {
        Self {
            dialer,
            blotter: Blotter::of(&secrets.headers),
            secrets,
            timeout,
            until,
        }
    }

    /// A connection.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn dial(&self) -> Result<Line, Trouble> {
        let left = self.deadline()?.duration_since(Instant::now());
        let within = left.min(contracts::defaults::CONNECT_TIMEOUT);
        self.dialer.dial(within).await.map_err(Trouble::Connect)
    }

    /// GET of a path below the prefix.
    pub async fn get(&self, path: &str) -> Reply {
        let request = self.head("GET", path, "application/json", None);
        let mut line = self.dial().await?;
        self.exchange(&mut *line.io, request.as_bytes()).await
    }

    /// POST of a document.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string()).await
    }

    /// POST of whatever text.
    pub async fn post_text(&self, path: &str, body: &str) -> Reply {
        let mut line = self.dial().await?;
        let request = self.request(path, body);
        self.exchange(&mut *line.io, request.as_bytes()).await
    }

    /// Two POSTs on one connection. The second is none where the first left the connection
    /// unusable.
    pub async fn post_twice(
        &self,
        path: &str,
        first: &Value,
        second: &Value,
    ) -> (Reply, Option<Reply>) {
        let mut line = match self.dial().await {
            Ok(line) => line,
            Err(trouble) => return (Err(trouble), None),
        };
        let request = self.request(path, &first.to_string());
        let answer = self.exchange(&mut *line.io, request.as_bytes()).await;
        let usable = answer.as_ref().is_ok_and(|answer| {
            answer.end == End::Whole && answer.head.framing() != Framing::Close
        });
        if !usable {
            return (answer, None);
        }
        let request = self.request(path, &second.to_string());
        let again = self.exchange(&mut *line.io, request.as_bytes()).await;
        (answer, Some(again))
    }

    fn request(&self, path: &str, body: &str) -> String {
        let accept = "application/json, text/event-stream";
        self.head("POST", path, accept, Some(body.len())) + body
    }

    fn head(&self, method: &str, path: &str, accept: &str, length: Option<usize>) -> String {
        let target = self.dialer.target();
        let mut head = format!(
            "{method} {}{path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: chapterbench/{}\r\n\
             Accept: {accept}\r\nAccept-Encoding: identity\r\n",
            target.prefix,
            target.authority,
            env!("CARGO_PKG_VERSION"),
        );
        if let Some(length) = length {
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\n"
            ));
        }
        for (name, value) in &self.secrets.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }

    fn deadline(&self) -> Result<Instant, Trouble> {
        let now = Instant::now();
        if now >= self.until {
            return Err(Trouble::NoTime);
        }
        Ok(self.until.min(now + self.timeout))
    }

    async fn exchange(&self, io: &mut dyn Io, request: &[u8]) -> Reply {
        let deadline = self.deadline()?;
        let sent = async {
            io.write_all(request).await?;
            io.flush().await
        };
        // A write that fails is no end: the server may have answered before it closed (413, 401).
        if tokio::time::timeout_at(deadline, sent).await.is_err() {
            return Err(Trouble::Silent(self.timeout));
        }
        let mut answer = self.read(io, deadline).await?;
        if answer.head.header("content-encoding") == "gzip" {
            answer.body = inflate(&answer.body);
        }
        blot(&mut answer, &self.blotter);
        Ok(answer)
    }

    async fn read(&self, io: &mut dyn Io, mut deadline: Instant) -> Reply {
        let mut buffer = vec![0; READ_BYTES];
        let mut begun = Vec::new();
        let mut next = async |deadline| {
            let read = tokio::time::timeout_at(deadline, io.read(&mut buffer)).await;
            match read {
                Err(_) => Err(End::Silent),
                Ok(Err(_) | Ok(0)) => Err(End::Early),
                Ok(Ok(n)) => Ok(buffer.get(..n).unwrap_or_default().to_vec()),
            }
        };
        let head = loop {
            if let Some((head, length)) = Head::read(&begun).map_err(Trouble::NotHttp)? {
                begun.drain(..length);
                // What only announces an answer.
                if !(100..200).contains(&head.status) {
                    break head;
                }
                continue;
            }
            match next(deadline).await {
                Ok(bytes) => begun.extend_from_slice(&bytes),
                Err(End::Silent) => return Err(Trouble::Silent(self.timeout)),
                Err(_) => return Err(Trouble::Closed),
            }
        };
        let mut framing = head.framing();
        let by_close = framing == Framing::Close;
        let mut body = Vec::new();
        let mut done = false;
        let end = loop {
            match unframe(&mut framing, &mut begun, &mut body) {
                Err(_) => break End::BadChunks,
                Ok(true) => break End::Whole,
                Ok(false) => {}
            }
            if body.len() > BODY_BYTES_MAX {
                break End::TooLong;
            }
            if !done && says_done(&body) {
                done = true;
                deadline = deadline.min(Instant::now() + AFTER_DONE);
            }
            match next(deadline).await {
                Ok(bytes) => begun.extend_from_slice(&bytes),
                Err(End::Early) if by_close => break End::Whole,
                Err(End::Silent) if done => break End::Unterminated,
                Err(end) => break end,
            }
        };
        Ok(Answer { head, body, end })
    }
}

/// Moves what `bytes` hold of the body to `body`; true at its end.
fn unframe(framing: &mut Framing, bytes: &mut Vec<u8>, body: &mut Vec<u8>) -> Result<bool, String> {
    loop {
        let piece = framing.take(bytes)?;
        let (used, ended) = (piece.used, piece.ended);
        body.extend_from_slice(piece.data);
        bytes.drain(..used);
        if ended || used == 0 {
            return Ok(ended);
        }
    }
}

/// Whether `[DONE]` is among the last bytes.
fn says_done(body: &[u8]) -> bool {
    const DONE: &[u8] = b"[DONE]";
    let tail = body.len().saturating_sub(DONE_TAIL_BYTES);
    let tail = body.get(tail..).unwrap_or_default();
    tail.windows(DONE.len()).any(|window| window == DONE)
}

/// Takes secrets out of an answer.
fn blot(answer: &mut Answer, blotter: &Blotter) {
    for (_, text) in &mut answer.head.headers {
        *text = blotter.text(text);
    }
    answer.body = blotter.bytes(std::mem::take(&mut answer.body));
}

/// What can be had of a compressed body, also of one that was cut off.
fn inflate(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let limit = BODY_BYTES_MAX as u64;
    // An error leaves what came before it, and the missing end is seen in what is made of that.
    let _ = MultiGzDecoder::new(body)
        .take(limit)
        .read_to_end(&mut plain);
    plain
}
