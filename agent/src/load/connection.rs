//! One HTTP/1.1 connection: hyper's client over the stamped stream, driven by the task that waits
//! for the answer. What to send and what an answer means is left to the client.
//!
//! The connection has no task of its own on purpose. hyper reads ahead by no more than one body
//! frame, and here only while that frame is being waited for: when a frame comes out, the last
//! read is the one that completed it, and its stamp is the frame's.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nix::sys::socket::{MsgFlags, recv};
use tokio::net::TcpStream;

use super::clock::Clock;
use super::stamped::{StampedStream, Stamps};
use super::target::Target;

type Http = http1::Connection<TokioIo<StampedStream>, Full<Bytes>>;

/// How long a connection may take to settle after an answer. Nothing is waited for but hyper's own
/// bookkeeping, so this only bounds a server that goes on sending after its answer.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(100);

/// An open connection to a measured server.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None once hyper has ended it.
    http: Option<Pin<Box<Http>>>,
    stamps: Stamps,
    /// The socket, open as long as `http` is.
    fd: RawFd,
}

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Refused, unreachable, or a name that does not resolve.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Name or connection took too long.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// hyper did not take the stream.
    #[error("{0}")]
    Http(#[from] hyper::Error),
}

impl Connection {
    /// Resolves, connects and readies a connection, within `timeout`.
    pub async fn open(target: &Target, clock: Clock, timeout: Duration) -> Result<Self, OpenError> {
        let connect = TcpStream::connect((target.host.as_str(), target.port));
        let tcp = tokio::time::timeout(timeout, connect)
            .await
            .map_err(|_| OpenError::TimedOut(timeout))??;
        let fd = tcp.as_raw_fd();
        let stream = StampedStream::new(tcp, clock)?;
        let stamps = stream.stamps();
        let (sender, http) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self {
            sender,
            http: Some(Box::pin(http)),
            stamps,
            fd,
        })
    }

    /// What happened on the socket since [`Connection::send`].
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Whether the next request can go out on this connection: the last answer was read to its
    /// end, and the server has not closed its side. Asked before sending, because a request is
    /// never sent twice: once bytes are out, the server may have begun to work.
    pub async fn is_reusable(&mut self) -> bool {
        let ready = drive(&mut self.http, self.sender.ready());
        let ready = tokio::time::timeout(SETTLE_TIMEOUT, ready).await;
        matches!(ready, Ok(Ok(()))) && self.http.is_some() && is_silent(self.fd)
    }

    /// Sends a request and waits for the head of the answer.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.stamps.arm();
        let answer = self.sender.send_request(request);
        drive(&mut self.http, answer).await
    }

    /// The next frame of a body, or none at its end. [`Stamps::last_read_ns`] is the read that
    /// completed it.
    pub async fn frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        drive(&mut self.http, body.frame()).await
    }
}

/// Waits for `wanted` and lets the connection work meanwhile.
async fn drive<T>(http: &mut Option<Pin<Box<Http>>>, wanted: impl Future<Output = T>) -> T {
    let mut wanted = pin!(wanted);
    poll_fn(|cx| {
        if let Poll::Ready(value) = wanted.as_mut().poll(cx) {
            return Poll::Ready(value);
        }
        let Some(connection) = http else {
            return Poll::Pending;
        };
        // Its error, if any, comes out of `wanted` too.
        if connection.as_mut().poll(cx).is_ready() {
            *http = None;
        }
        wanted.as_mut().poll(cx)
    })
    .await
}

/// Whether an idle socket has neither been closed by the other side nor been sent anything.
fn is_silent(fd: RawFd) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(fd, &mut [0u8; 1], flags) == Err(nix::errno::Errno::EAGAIN)
}

/// Whether an error means that the server closed the connection within an answer, as against
/// breaking it or violating HTTP.
pub fn is_early_close(error: &hyper::Error) -> bool {
    if error.is_incomplete_message() {
        return true;
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            return io.kind() == io::ErrorKind::UnexpectedEof;
        }
        source = cause.source();
    }
    false
}
