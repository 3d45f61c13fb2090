//! One connection: bytes in with the kernel's stamp of their receipt, bytes out without waiting.

use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::answer::Answer;
use super::log::Served;
use super::request::REQUEST_BYTES_MAX;

/// Bytes of one read: a request of the usual size comes with one.
const READ_BYTES: usize = 64 << 10;
/// Bytes that no request has taken yet, at most: one request of the largest size and another's begin.
const INBOX_BYTES_MAX: usize = 2 * REQUEST_BYTES_MAX;

/// The server's monotonic clock; the kernel's stamps, which are clock times, are put on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A moment of the recent past, given as clock time. By its age, so that a clock that was set
    /// before it does not matter.
    fn of(&self, stamp: TimeSpec) -> u64 {
        let now_ns = self.now_ns();
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let age = since.saturating_sub(Duration::from(stamp));
        now_ns.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Room for a read and for its stamp, shared by all connections.
pub(super) struct Scratch {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; READ_BYTES],
            control: nix::cmsg_space!(TimeSpec),
        }
    }
}

/// An answer on its way.
pub(super) struct Work {
    pub answer: Answer,
    pub served: Served,
    /// Contents written.
    pub written: u32,
    /// Return of the last content's write.
    pub last_ns: u64,
    /// Whether it has a place and so a schedule.
    pub admitted: bool,
    /// Tokens of its first write: all, where the answer is not streamed.
    pub tokens_at_once: u32,
    /// Whether the connection is closed after it.
    pub close: bool,
}

/// One connection.
pub(super) struct Conn {
    pub wire: Wire,
    /// Bytes that no request has taken yet.
    pub inbox: Vec<u8>,
    /// Of the last segment read.
    pub received_ns: u64,
    pub read_ns: u64,
    pub work: Option<Work>,
}

/// The sending side.
pub(super) struct Wire {
    pub stream: TcpStream,
    /// What the socket would not take yet.
    pub backlog: Vec<u8>,
    /// Whether epoll was asked for room to write.
    pub watched: bool,
}

impl Conn {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::ReceiveTimestampns, &true)?;
        let wire = Wire {
            stream,
            backlog: Vec::new(),
            watched: false,
        };
        Ok(Self {
            wire,
            inbox: Vec::new(),
            received_ns: 0,
            read_ns: 0,
            work: None,
        })
    }

    /// Takes what is there to the inbox. False: the client has closed, or sends on and on.
    pub fn read(&mut self, scratch: &mut Scratch, clock: Clock) -> io::Result<bool> {
        let mut room = [IoSliceMut::new(&mut scratch.bytes)];
        let fd = self.wire.stream.as_raw_fd();
        let control = Some(scratch.control.as_mut_slice());
        let got = match recvmsg::<()>(fd, &mut room, control, MsgFlags::MSG_DONTWAIT) {
            Ok(got) => got,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        self.read_ns = clock.now_ns();
        let stamps = got.cmsgs()?.filter_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(clock.of(stamp)),
            _ => None,
        });
        // A kernel that gives no stamp leaves our own.
        self.received_ns = stamps.last().unwrap_or(self.read_ns);
        let bytes = got.bytes;
        let read = scratch.bytes.get(..bytes).unwrap_or_default();
        self.inbox.extend_from_slice(read);
        Ok(bytes > 0 && self.inbox.len() <= INBOX_BYTES_MAX)
    }
}

impl Wire {
    /// Sends what the socket takes now; the rest waits in order.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = if self.backlog.is_empty() {
            self.write(bytes)?
        } else {
            0
        };
        self.backlog
            .extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        let backlog = std::mem::take(&mut self.backlog);
        let sent = self.write(&backlog)?;
        self.backlog = backlog.get(sent..).unwrap_or_default().to_vec();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write(bytes) {
            Ok(sent) => Ok(sent),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}
