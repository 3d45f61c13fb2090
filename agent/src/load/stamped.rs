//! A TCP stream that stamps its first write and each read, so that an instant means what happened
//! on the socket and not when a task got around to look. HTTP lies above it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::clock::Clock;

/// "Has not happened": no instant of a run gets this far.
const NEVER: u64 = u64::MAX;

/// What happened on a stream since it was last armed. Cheap to clone: all clones see the same.
///
/// Relaxed order suffices: the stream and its reader run in one task.
#[derive(Debug, Clone, Default)]
pub struct Stamps(Arc<Marks>);

#[derive(Debug)]
struct Marks {
    first_write_ns: AtomicU64,
    last_read_ns: AtomicU64,
    eof_ns: AtomicU64,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            first_write_ns: AtomicU64::new(NEVER),
            last_read_ns: AtomicU64::new(NEVER),
            eof_ns: AtomicU64::new(NEVER),
        }
    }
}

impl Stamps {
    /// Forgets the last request: the next write is the first of a new one.
    pub fn arm(&self) {
        self.0.first_write_ns.store(NEVER, Ordering::Relaxed);
        self.0.last_read_ns.store(NEVER, Ordering::Relaxed);
        self.0.eof_ns.store(NEVER, Ordering::Relaxed);
    }

    /// The first write since [`Stamps::arm`], taken as the write was called.
    pub fn first_write_ns(&self) -> Option<u64> {
        happened(&self.0.first_write_ns)
    }

    /// The return of the last read that gave bytes.
    pub fn last_read_ns(&self) -> Option<u64> {
        happened(&self.0.last_read_ns)
    }

    /// The return of the read that found the stream ended.
    pub fn eof_ns(&self) -> Option<u64> {
        happened(&self.0.eof_ns)
    }
}

fn happened(mark: &AtomicU64) -> Option<u64> {
    match mark.load(Ordering::Relaxed) {
        NEVER => None,
        at_ns => Some(at_ns),
    }
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

    /// A handle on the stamps that stays valid when the stream is given away.
    pub fn stamps(&self) -> Stamps {
        self.stamps.clone()
    }

    /// Keeps `at_ns`, taken before the call, if the write took bytes and was the first.
    fn wrote(&self, at_ns: u64, result: &Poll<io::Result<usize>>) {
        let mark = &self.stamps.0.first_write_ns;
        if matches!(result, Poll::Ready(Ok(n)) if *n > 0) && happened(mark).is_none() {
            mark.store(at_ns, Ordering::Relaxed);
        }
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
        let at_ns = self.clock.now_ns();
        let mark = if buf.filled().len() > before {
            &self.stamps.0.last_read_ns
        } else {
            &self.stamps.0.eof_ns
        };
        mark.store(at_ns, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StampedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let at_ns = self.clock.now_ns();
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.wrote(at_ns, &result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let at_ns = self.clock.now_ns();
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.wrote(at_ns, &result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
