//! A TCP stream that stamps its first write and each read, so that an instant means what happened
//! on the socket and not when a task got around to look. TLS and HTTP lie above it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::load::clock::Clock;

/// What happened on a stream since it was last armed; ns on the run's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The first write that took bytes, taken as the write was called.
    pub first_write_ns: Option<u64>,
    /// The return of the last read that gave bytes.
    pub last_read_ns: Option<u64>,
    /// The return of the read that found the stream ended.
    pub eof_ns: Option<u64>,
}

/// A TCP stream with [`Stamps`].
#[derive(Debug)]
pub struct StampedStream {
    inner: TcpStream,
    clock: Clock,
    stamps: Stamps,
}

impl StampedStream {
    /// Wraps an open stream and turns Nagle's algorithm off: a small request must not wait for
    /// the acknowledgement of the one before.
    pub fn new(inner: TcpStream, clock: Clock) -> io::Result<Self> {
        inner.set_nodelay(true)?;
        Ok(Self {
            inner,
            clock,
            stamps: Stamps::default(),
        })
    }

    /// Forgets the last request: the next write is the first of a new one.
    pub fn arm(&mut self) {
        self.stamps = Stamps::default();
    }

    /// What happened since [`StampedStream::arm`].
    pub fn stamps(&self) -> Stamps {
        self.stamps
    }
}

impl AsRawFd for StampedStream {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl AsyncRead for StampedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        // Here, before anything looks at the bytes.
        let at_ns = Some(self.clock.now_ns());
        if buf.filled().len() > before {
            self.stamps.last_read_ns = at_ns;
        } else {
            self.stamps.eof_ns = at_ns;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StampedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.stamps.first_write_ns.is_some() {
            return Pin::new(&mut self.inner).poll_write(cx, buf);
        }
        let at_ns = self.clock.now_ns();
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        if matches!(result, Poll::Ready(Ok(n)) if n > 0) {
            self.stamps.first_write_ns = Some(at_ns);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
