//! One connection to a measured server: opening it, its read buffer, whether it can serve again.
//! What goes over it and within what bounds is left to the client.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use contracts::sample::{ErrorClass, SampleError};
use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::shared::Shared;
use super::stamped::{StampedStream, Stamps};
use super::tls::handshake_failure;
use crate::load::answer::failure;

/// The read buffer of a connection at rest. Thousands of connections have one each, and an event
/// is a few hundred bytes.
const BUFFER_BYTES: usize = 4 << 10;
/// The read buffer at most: a server that sends much at once is read in few calls.
const BUFFER_BYTES_MAX: usize = 128 << 10;

/// An open connection.
pub struct Connection {
    io: Io,
    buffer: Vec<u8>,
    /// What has been read and not consumed lies between these.
    start: usize,
    end: usize,
    /// Whether it has carried a request.
    pub used: bool,
}

enum Io {
    Plain(StampedStream),
    Tls(Box<TlsStream<StampedStream>>),
}

impl Connection {
    /// Resolves if nobody has yet, connects, shakes hands, all within the connect timeout.
    pub async fn open(shared: &Shared) -> Result<Self, SampleError> {
        let timeout = shared.timeouts.connect;
        let mut step = "no address";
        let opened = tokio::time::timeout(timeout, Self::open_at(shared, &mut step)).await;
        opened.unwrap_or_else(|_| {
            let message = format!("{step} within {timeout:?}");
            Err(failure(ErrorClass::ConnectTimeout, message))
        })
    }

    /// `step` says what a timeout has waited for.
    async fn open_at(shared: &Shared, step: &mut &'static str) -> Result<Self, SampleError> {
        let addresses = shared.addresses().await?;
        *step = "no connection";
        let tcp = connect(addresses).await.map_err(|e| connect_failure(&e))?;
        let stream = StampedStream::new(tcp, shared.clock).map_err(|e| connect_failure(&e))?;
        let io = match &shared.tls {
            None => Io::Plain(stream),
            Some(tls) => {
                *step = "no TLS handshake";
                let stream = tls.connect(stream).await;
                let stream = stream.map_err(|e| failure(ErrorClass::Tls, handshake_failure(&e)))?;
                Io::Tls(Box::new(stream))
            }
        };
        Ok(Self {
            io,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            used: false,
        })
    }

    /// A request begins: its stamps are new.
    pub fn arm(&mut self) {
        self.used = true;
        match &mut self.io {
            Io::Plain(stream) => stream.arm(),
            Io::Tls(stream) => stream.get_mut().0.arm(),
        }
    }

    /// What happened on the socket since [`Connection::arm`].
    pub fn stamps(&self) -> Stamps {
        self.stream().stamps()
    }

    fn stream(&self) -> &StampedStream {
        match &self.io {
            Io::Plain(stream) => stream,
            Io::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Writes what is left of `out`; `written` counts on.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        out: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        while let Some(rest) = out.get(*written..).filter(|rest| !rest.is_empty()) {
            let n = match &mut self.io {
                Io::Plain(stream) => ready!(Pin::new(stream).poll_write(cx, rest))?,
                Io::Tls(stream) => ready!(Pin::new(stream.as_mut()).poll_write(cx, rest))?,
            };
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *written += n;
        }
        match &mut self.io {
            Io::Plain(_) => Poll::Ready(Ok(())),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    /// What has been read and not consumed.
    pub fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Takes `n` bytes off the front of [`Connection::unread`].
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// One read behind what is unread; 0 at the stream's end.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.make_room();
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let mut read = ReadBuf::new(room);
        let result = match &mut self.io {
            Io::Plain(stream) => ready!(Pin::new(stream).poll_read(cx, &mut read)),
            Io::Tls(stream) => ready!(Pin::new(stream.as_mut()).poll_read(cx, &mut read)),
        };
        let n = read.filled().len();
        self.end += n;
        match result {
            Ok(()) => Poll::Ready(Ok(n)),
            // TLS without its farewell: for HTTP an end like any other.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(0)),
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    /// Unread bytes are the head of something incomplete, which the reader of them bounds.
    fn make_room(&mut self) {
        let was_full = self.end == self.buffer.len();
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let full = self.end == self.buffer.len();
        if full || was_full && self.buffer.len() < BUFFER_BYTES_MAX {
            let bytes = (self.buffer.len() * 2).max(BUFFER_BYTES);
            self.buffer.resize(bytes, 0);
        }
    }

    /// A request has ended. Gives a grown buffer back and says whether the next request can go out
    /// here: nothing came behind the answer.
    pub fn rest(&mut self) -> bool {
        let clean = self.start == self.end;
        if self.buffer.len() > BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        (self.start, self.end) = (0, 0);
        clean
    }

    /// Whether an idle connection still stands. TLS may have sent tickets, which count for nothing.
    pub fn stands(&self) -> bool {
        match peek(self.stream().as_raw_fd()) {
            Err(nix::errno::Errno::EAGAIN) => true,
            Ok(n) => n > 0 && matches!(self.io, Io::Tls(_)),
            Err(_) => false,
        }
    }
}

fn peek(fd: RawFd) -> nix::Result<usize> {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(fd, &mut [0u8; 1], flags)
}

/// The first address that takes a connection; the error of the last that does not.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_failure(error: &io::Error) -> SampleError {
    use nix::libc::{EMFILE, ENFILE};
    if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
        let message = format!("{error}; allow more by `ulimit -n`");
        return failure(ErrorClass::Connect, message);
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => failure(
            ErrorClass::Refused,
            "connection refused: nobody listens there",
        ),
        io::ErrorKind::TimedOut => failure(ErrorClass::ConnectTimeout, error.to_string()),
        _ => failure(ErrorClass::Connect, format!("no connection: {error}")),
    }
}
