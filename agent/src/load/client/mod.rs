//! One request at a time to one server: connect if need be, send, read the answer, within bounds.
//! Which requests, and when, is the drive's matter; what an answer means is `answer`'s.
//!
//! A [`Client`] is one connection; [`Shared`] is what all of a run have in common. From the outside
//! in: `connection` over `stamped` (and `tls`) moves bytes and takes the instants, `watchdog` bounds
//! the waits, `reception` makes an answer of the bytes by `head`, `framing`, `unzip` and `body`.
//! `replay` does the same with bytes at rest.
//!
//! A connection is kept while the server keeps it. It is checked before each request; if the server
//! has closed it all the same before a byte of the answer came, the request is sent once more on a
//! new one and marked. A request of which a byte has been answered is never sent again.

mod body;
mod connection;
pub(crate) mod framing;
mod head;
mod reception;
mod replay;
mod shared;
mod stamped;
mod target;
pub(crate) mod tls;
mod unzip;
mod usage;
mod watchdog;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use contracts::sample::{ErrorClass, Sample, SampleError};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use self::connection::Connection;
use self::reception::Reception;
use self::usage::Asked;
use self::watchdog::{Watchdog, cancelled_error};
use super::answer::{Answer, failure};

pub use self::reception::ANSWER_BYTES_MAX;
pub use self::replay::read_answer;
pub(crate) use self::shared::sendable;
pub use self::shared::{ClientConfig, ClientError, Shared, Timeouts};
pub use self::target::{Target, TargetError};
pub(super) use self::usage::without_usage;

/// A client with one connection.
pub struct Client {
    shared: Arc<Shared>,
    connection: Option<Connection>,
}

/// A request that has ended: what came of it, and whether it got to its end. The answer is judged
/// by [`Answer::failure`] or [`Answer::settle`], which take `end`.
pub struct Ended {
    /// What was answered.
    pub answer: Answer,
    /// The client's own verdict.
    pub end: Result<(), SampleError>,
}

/// Why one exchange failed.
enum Broken {
    /// A connection that was open before was closed before any byte of the answer.
    Unanswered(SampleError),
    /// Anything else.
    Failed(SampleError),
}

type Cancelled<'a, 'b> = Pin<&'a mut WaitForCancellationFuture<'b>>;

impl Client {
    /// A client; nothing is opened yet.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            connection: None,
        }
    }

    /// Whether it has a connection. The server may have closed it since.
    pub fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Opens a connection ahead of the first request, within the connect timeout.
    pub async fn connect(&mut self) -> Result<(), SampleError> {
        let opened = Connection::open(&self.shared).await;
        self.connection = Some(opened.map_err(|e| self.shared.named(e))?);
        Ok(())
    }

    /// Sends one request and reads its answer, whatever comes of it. Fills in what the client
    /// knows of `sample`; the rest is [`Answer::settle`]'s. If `cancel` fires first, the connection
    /// is dropped and the end is `aborted`.
    pub async fn request(
        &mut self,
        body: &Bytes,
        sample: &mut Sample,
        cancel: &CancellationToken,
    ) -> Ended {
        let mut cancelled = pin!(cancel.cancelled());
        let mut reception = self.reception();
        let sent = self.attempts(body, sample, &mut reception, cancelled.as_mut());
        let end = sent.await.map_err(|error| self.shared.named(error));
        Ended {
            answer: reception.into_answer(),
            end,
        }
    }

    fn reception(&self) -> Reception {
        let Shared {
            stream,
            keepalive,
            counted,
            ..
        } = *self.shared;
        Reception::new(stream, Answer::new(counted, !keepalive))
    }

    /// The request, again on a new connection or without `stream_options` where that is called for,
    /// each once.
    async fn attempts(
        &mut self,
        body: &Bytes,
        sample: &mut Sample,
        reception: &mut Reception,
        mut cancelled: Cancelled<'_, '_>,
    ) -> Result<(), SampleError> {
        let shared = self.shared.clone();
        let refused = shared.usage_refused();
        let stripped = refused.then(|| without_usage(body)).flatten();
        let mut body = stripped.as_ref().unwrap_or(body).clone();
        let mut asked = match (shared.stream, refused) {
            (true, false) => Asked::With,
            _ => Asked::Without,
        };
        loop {
            let sent = self.exchange(&body, sample, reception, cancelled.as_mut());
            let end = match sent.await {
                Err(Broken::Unanswered(_)) if !sample.reconnected => {
                    sample.reconnected = true;
                    continue;
                }
                Err(Broken::Unanswered(error) | Broken::Failed(error)) => Err(error),
                Ok(()) => Ok(()),
            };
            if let (Asked::With, Err(error)) = (asked, &end)
                && let Some(refusal) = shared.usage.refusal(sample.status, &error.message)
                && let Some(stripped) = without_usage(&body)
            {
                body = stripped;
                asked = Asked::Again(refusal);
                *reception = self.reception();
                continue;
            }
            shared.usage.learn(asked, sample.status);
            return end;
        }
    }

    /// Sends once and reads the answer.
    async fn exchange(
        &mut self,
        body: &Bytes,
        sample: &mut Sample,
        reception: &mut Reception,
        mut cancelled: Cancelled<'_, '_>,
    ) -> Result<(), Broken> {
        forget_answer(sample);
        let kept = self.connection.take();
        let kept = kept.filter(|c| self.shared.keepalive && c.stands());
        let is_kept = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.open(sample, cancelled.as_mut()).await?,
        };
        sample.reused_connection = connection.used;
        connection.arm();
        let end = talk(
            &self.shared,
            &mut connection,
            body,
            sample,
            reception,
            cancelled,
        );
        let end = end.await;
        sample.sent_ns = connection.stamps().first_write_ns;
        if connection.rest() && reception.may_keep() && self.shared.keepalive {
            self.connection = Some(connection);
        }
        end.map_err(|error| match error.class {
            ErrorClass::Transport | ErrorClass::Reset if is_kept && reception.is_untouched() => {
                Broken::Unanswered(error)
            }
            _ => Broken::Failed(error),
        })
    }

    async fn open(
        &self,
        sample: &mut Sample,
        cancelled: Cancelled<'_, '_>,
    ) -> Result<Connection, Broken> {
        let opened = tokio::select! {
            biased;
            () = cancelled => Err(cancelled_error()),
            opened = Connection::open(&self.shared) => opened,
        };
        let connection = opened.map_err(Broken::Failed)?;
        sample.connected_ns = Some(self.shared.clock.now_ns());
        Ok(connection)
    }
}

/// What an earlier sending of the request was answered is no part of its record: the next may get
/// no answer at all.
fn forget_answer(sample: &mut Sample) {
    sample.sent_ns = None;
    sample.headers_ns = None;
    sample.done_ns = None;
    sample.status = None;
    sample.bytes = 0;
}

/// Writes the request and reads the answer to its end, within the bounds.
async fn talk(
    shared: &Shared,
    connection: &mut Connection,
    body: &[u8],
    sample: &mut Sample,
    reception: &mut Reception,
    mut cancelled: Cancelled<'_, '_>,
) -> Result<(), SampleError> {
    let out = shared.request_bytes(body);
    let mut written = 0;
    let mut watchdog = Watchdog::start(shared.clock, shared.timeouts);
    let wrote = poll_fn(|cx| match connection.poll_write(cx, &out, &mut written) {
        Poll::Ready(wrote) => Poll::Ready(Ok(wrote)),
        Poll::Pending => watchdog.poll(cx, None, cancelled.as_mut()).map(Err),
    });
    // A server may refuse early, answer and close: its words are worth more than our broken write.
    let mut broken_write = wrote.await?.err();
    drop(out);
    loop {
        let read = poll_fn(|cx| match connection.poll_fill(cx) {
            Poll::Ready(read) => Poll::Ready(Ok(read)),
            Poll::Pending => {
                let last_read_ns = connection.stamps().last_read_ns;
                let overdue = watchdog.poll(cx, last_read_ns, cancelled.as_mut());
                overdue.map(Err)
            }
        });
        let read = read.await;
        let stamps = connection.stamps();
        let read = match read {
            Ok(Ok(0)) => match broken_write.take() {
                None => {
                    let eof_ns = stamps.eof_ns.unwrap_or_default();
                    return reception.eof(eof_ns, stamps.last_read_ns, sample);
                }
                Some(error) => Err(broke(&error)),
            },
            Ok(Ok(_)) => Ok(stamps.last_read_ns.unwrap_or_default()),
            Ok(Err(error)) => Err(broke(broken_write.as_ref().unwrap_or(&error))),
            Err(overdue) => Err(overdue),
        };
        let read = read.and_then(|at_ns| watchdog.check_total(at_ns).map(|()| at_ns));
        let at_ns = match read {
            Ok(at_ns) => at_ns,
            Err(error) => return reception.give_up(error, stamps.last_read_ns, sample),
        };
        let used = reception.receive(connection.unread(), at_ns, sample)?;
        connection.consume(used);
        if reception.is_ended() {
            return reception.verdict();
        }
    }
}

/// A connection that broke within a request.
fn broke(error: &io::Error) -> SampleError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset => {
            failure(ErrorClass::Reset, "the server reset the connection")
        }
        _ => failure(
            ErrorClass::Transport,
            format!("the connection broke: {error}"),
        ),
    }
}
