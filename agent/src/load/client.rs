//! One request at a time to one server: connect if need be, send, read the answer, within bounds.
//! Which requests, and when, is the drive's matter; what an answer means is `answer`'s.
//!
//! A connection is kept while the server keeps it. Before each request it is checked and opened
//! anew if the server has closed it; a request that has gone out is never sent again, because the
//! server may have worked on it.

use std::time::Duration;

use bytes::Bytes;
use contracts::sample::{ErrorClass, Sample, SampleError};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;

use super::answer::{Answer, TokenCounter, failure};
use super::body::{BodyKind, is_close_delimited, status_error};
use super::clock::Clock;
use super::connection::{Connection, OpenError, is_early_close};
use super::sse::SseParser;
use super::target::Target;
use super::watchdog::Watchdog;

/// Body bytes of one answer, at most: far above any real one, so that a server gone wild ends its
/// request and not the agent.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Body bytes of an error page that are read for its message.
const ERROR_BODY_BYTES_MAX: u64 = 64 << 10;

/// How long each wait of one request may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Name resolution and opening the connection.
    pub connect: Duration,
    /// Silence between two reads, the first byte included.
    pub stall: Duration,
    /// The whole request, from its first write.
    pub total: Duration,
}

/// A client with one connection.
pub struct Client {
    target: Target,
    uri: Uri,
    headers: HeaderMap,
    /// Whether a stream is asked for.
    stream: bool,
    timeouts: Timeouts,
    clock: Clock,
    connection: Option<Connection>,
}

impl Client {
    /// A client for `path` of a server; nothing is opened yet.
    pub fn new(
        target: Target,
        path: &str,
        stream: bool,
        timeouts: Timeouts,
        clock: Clock,
    ) -> Result<Self, http::Error> {
        let uri = Uri::try_from(format!("{}{path}", target.prefix))?;
        let accept = if stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&target.authority)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let agent = concat!("chapterbench/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        Ok(Self {
            target,
            uri,
            headers,
            stream,
            timeouts,
            clock,
            connection: None,
        })
    }

    /// Sends one request and fills in `sample` from its answer, whatever comes of it. If `cancel`
    /// resolves first, the connection is dropped and the sample is `aborted`.
    pub async fn request(
        &mut self,
        body: Bytes,
        sample: &mut Sample,
        counter: Option<&TokenCounter>,
        cancel: impl Future<Output = ()>,
    ) {
        let mut answer = Answer::default();
        let mut connection = None;
        let end = tokio::select! {
            biased;
            () = cancel => Err(failure(ErrorClass::Aborted, "cancelled within the request")),
            end = self.exchange(body, sample, &mut answer, &mut connection) => end,
        };
        if let Some(connection) = connection {
            sample.sent_ns = connection.stamps().first_write_ns();
            // After a failure its state is unknown: part of an answer may still be on its way.
            self.connection = end.is_ok().then_some(connection);
        }
        answer.settle(sample, end, counter);
    }

    /// The request itself. `slot` gets the connection, so that its stamps outlive a cancel.
    async fn exchange(
        &mut self,
        body: Bytes,
        sample: &mut Sample,
        answer: &mut Answer,
        slot: &mut Option<Connection>,
    ) -> Result<(), SampleError> {
        let connection = slot.insert(self.connect(sample).await?);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let mut watchdog = Watchdog::start(self.clock, self.timeouts.stall, self.timeouts.total);
        let stamps = connection.stamps().clone();
        let response = watchdog
            .guard(&stamps, connection.send(request))
            .await?
            .map_err(|e| transport("no answer", &e))?;
        sample.headers_ns = stamps.last_read_ns();
        sample.status = Some(response.status().as_u16());
        self.receive(connection, &mut watchdog, response, sample, answer)
            .await
    }

    async fn connect(&mut self, sample: &mut Sample) -> Result<Connection, SampleError> {
        if let Some(mut kept) = self.connection.take()
            && kept.is_reusable().await
        {
            sample.reused_connection = true;
            return Ok(kept);
        }
        let opened = Connection::open(&self.target, self.clock, self.timeouts.connect).await;
        let connection = opened.map_err(|error| {
            let class = match error {
                OpenError::TimedOut(_) => ErrorClass::ConnectTimeout,
                OpenError::Io(_) | OpenError::Http(_) => ErrorClass::Connect,
            };
            failure(class, format!("{}: {error}", self.target.authority))
        })?;
        sample.connected_ns = Some(self.clock.now_ns());
        Ok(connection)
    }

    /// Reads the body to its end and gives it to `answer`.
    async fn receive(
        &self,
        connection: &mut Connection,
        watchdog: &mut Watchdog,
        response: Response<Incoming>,
        sample: &mut Sample,
        answer: &mut Answer,
    ) -> Result<(), SampleError> {
        let (head, mut body) = response.into_parts();
        let kind = BodyKind::of(&head, self.stream)?;
        if kind == BodyKind::Events {
            answer.begin_stream();
        }
        let limit = match kind {
            BodyKind::Error => ERROR_BODY_BYTES_MAX,
            BodyKind::Events | BodyKind::Whole => ANSWER_BYTES_MAX,
        };
        let stamps = connection.stamps().clone();
        let mut parser = SseParser::default();
        let mut whole = Vec::new();
        while let Some(frame) = watchdog.guard(&stamps, connection.frame(&mut body)).await? {
            let frame = match frame {
                Ok(frame) => frame,
                // The stream has said all: a server that forgets the last chunk loses nothing.
                Err(e) if is_early_close(&e) && answer.is_finished() => break,
                Err(e) if is_early_close(&e) && kind == BodyKind::Events => {
                    sample.done_ns = stamps.eof_ns();
                    return Ok(());
                }
                Err(e) => return Err(transport("the answer broke off", &e)),
            };
            let at_ns = stamps.last_read_ns().unwrap_or_default();
            let Ok(data) = frame.into_data() else {
                continue;
            };
            sample.bytes += data.len() as u64;
            if sample.bytes > limit {
                if kind == BodyKind::Error {
                    break;
                }
                let message = format!("the answer has more than {limit} bytes");
                return Err(failure(ErrorClass::TooLarge, message));
            }
            match kind {
                BodyKind::Events => feed(&mut parser, answer, at_ns, &data)?,
                BodyKind::Whole | BodyKind::Error => whole.extend_from_slice(&data),
            }
        }
        let by_close = is_close_delimited(&head.headers);
        let eof_ns = stamps.eof_ns().filter(|_| by_close);
        sample.done_ns = eof_ns.or(stamps.last_read_ns());
        match kind {
            BodyKind::Events => Ok(()),
            BodyKind::Whole => answer.whole(sample.done_ns.unwrap_or_default(), &whole),
            BodyKind::Error => Err(status_error(&head, &whole)),
        }
    }
}

/// Parses what one read brought and gives each event to `answer` under that read's stamp.
fn feed(
    parser: &mut SseParser,
    answer: &mut Answer,
    at_ns: u64,
    data: &[u8],
) -> Result<(), SampleError> {
    let mut result = Ok(());
    let pushed = parser.push(data, |event| {
        if result.is_ok() {
            result = answer.event(at_ns, event);
        }
    });
    result?;
    pushed.map_err(|e| failure(ErrorClass::TooLarge, e.to_string()))
}

fn transport(what: &str, error: &hyper::Error) -> SampleError {
    let mut message = format!("{what}: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    failure(ErrorClass::Transport, message)
}
