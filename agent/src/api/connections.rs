//! A bound on open connections: those beyond it are closed before they cost anything.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at one time: a controller needs two; the rest is for people who watch.
const CONNECTIONS_MAX: usize = 128;

/// Accepts while there is room.
#[derive(Clone)]
pub struct Bounded {
    room: Arc<Semaphore>,
}

impl Bounded {
    /// Room for [`CONNECTIONS_MAX`].
    pub fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }
}

impl<S> Accept<TcpStream, S> for Bounded {
    type Stream = Counted;
    type Service = S;
    type Future = Ready<io::Result<(Counted, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        ready(match Arc::clone(&self.room).try_acquire_owned() {
            Ok(permit) => stream.set_nodelay(true).map(|()| {
                (
                    Counted {
                        stream,
                        _permit: permit,
                    },
                    service,
                )
            }),
            Err(_) => Err(io::Error::other("too many connections")),
        })
    }
}

/// A connection that gives its room back when it is closed.
pub struct Counted {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
