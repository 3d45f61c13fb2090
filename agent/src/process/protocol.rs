//! What agent and keeper say to each other: orders one way, reports the other.
//!
//! Both travel as JSON lines over a socket pair. The first byte from the agent carries the
//! descriptors (`SCM_RIGHTS`), so that no descriptor is ever inheritable in the agent, where other
//! threads may start processes at the same moment. Who acts on the words is left to [`super::keeper`]
//! and [`super::spawn`].

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::{Deserialize, Serialize};

/// Descriptors that one child may be given, all kinds together: the kernel takes up to 253 in one
/// message, we never need more than a socket, a report pipe and a lock.
pub(super) const FDS_MAX: usize = 16;
/// Lowest number a descriptor may be given in the child: 0 to 2 are its standard streams.
pub(super) const FD_TARGET_MIN: RawFd = 3;
/// Highest number: above it the keeper keeps its own.
pub(super) const FD_TARGET_MAX: RawFd = 63;
/// One order, at most: arguments and environment, which the kernel limits to about 2 MiB, as JSON.
const ORDER_BYTES_MAX: usize = 16 << 20;

/// From the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(super) enum Order {
    /// The first one, and only once.
    Start(StartOrder),
    /// End the child: SIGTERM, wait this long, SIGKILL.
    Stop {
        /// Milliseconds between the two signals.
        grace_ms: u64,
    },
}

/// What to start. The descriptors that came before are, in order: the program, one for each of
/// `targets`, and the rest to be held.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartOrder {
    /// The mark that the child and its descendants carry in their environment.
    pub tree: String,
    /// Run this file by name (a script, an engine of others); else the first descriptor.
    pub by_path: Option<Vec<u8>>,
    /// `argv[0]`
    pub arg0: Vec<u8>,
    /// `argv[1..]`
    pub args: Vec<Vec<u8>>,
    /// Set in the child, over the agent's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Not passed on from the agent's environment.
    pub env_remove: Vec<Vec<u8>>,
    /// Where it runs; else where the agent does.
    pub cwd: Option<Vec<u8>>,
    /// Numbers of the given descriptors in the child.
    pub targets: Vec<RawFd>,
}

/// From the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(super) enum Report {
    /// The child runs.
    Started {
        /// Its pid.
        pid: i32,
    },
    /// It could not be started; nothing else follows.
    Failed {
        /// Why.
        message: String,
    },
    /// The child ended. Sent at once, before the sweep.
    Exited {
        /// As it chose.
        code: Option<i32>,
        /// Or what ended it.
        signal: Option<i32>,
        /// Peak resident memory of the child or the largest descendant it waited for.
        rss_bytes_max: u64,
    },
    /// All is over.
    Swept {
        /// Whether the child had to be killed.
        killed: bool,
        /// Descendants that outlived the child and were killed.
        swept: u32,
        /// Whether nothing is left.
        clean: bool,
    },
}

/// One JSON line.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Sends the descriptors with one byte; the buffer of a fresh socket always has room for that.
pub(super) fn send_fds(socket: &UnixStream, fds: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(fds)];
    let byte = [IoSlice::new(b"F")];
    sendmsg::<()>(
        socket.as_raw_fd(),
        &byte,
        &rights,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    Ok(())
}

/// Receives what [`send_fds`] sent; every descriptor is close-on-exec. An empty list: the agent is
/// gone.
pub(super) fn receive_fds(socket: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0; 1];
    let mut slices = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([RawFd; FDS_MAX]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    let mut fds = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: the kernel has just made these descriptors for us; nobody else knows them.
            fds.extend(
                raw.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    Ok(fds)
}

/// Puts orders together from what the socket gives.
#[derive(Debug, Default)]
pub(super) struct OrderReader {
    buffer: Vec<u8>,
}

impl OrderReader {
    /// Reads once (blocking if nothing is there). `false`: the agent is gone.
    pub(super) fn fill(&mut self, socket: &mut UnixStream) -> io::Result<bool> {
        let mut chunk = [0; 16 << 10];
        let n = match socket.read(&mut chunk) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        self.buffer.extend(chunk.iter().take(n));
        if self.buffer.len() > ORDER_BYTES_MAX {
            return Err(io::Error::other("an order of the agent is too long"));
        }
        Ok(n > 0)
    }

    /// The next whole order that has come.
    pub(super) fn next(&mut self) -> io::Result<Option<Order>> {
        let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') else {
            return Ok(None);
        };
        let rest = self.buffer.split_off(end + 1);
        let whole = std::mem::replace(&mut self.buffer, rest);
        Ok(Some(serde_json::from_slice(&whole)?))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn orders_come_whole_however_they_are_cut() {
        let (mut agent, mut keeper) = UnixStream::pair().unwrap();
        let mut bytes = line(&Order::Stop { grace_ms: 7 }).unwrap();
        bytes.extend(line(&Order::Stop { grace_ms: 8 }).unwrap());
        let (first, second) = bytes.split_at(5);
        let mut reader = OrderReader::default();
        agent.write_all(first).unwrap();
        assert!(reader.fill(&mut keeper).unwrap());
        assert!(reader.next().unwrap().is_none());
        agent.write_all(second).unwrap();
        assert!(reader.fill(&mut keeper).unwrap());
        for expected in [7, 8] {
            assert!(
                matches!(reader.next().unwrap(), Some(Order::Stop { grace_ms }) if grace_ms == expected)
            );
        }
        drop(agent);
        assert!(!reader.fill(&mut keeper).unwrap());
    }

    #[test]
    fn descriptors_arrive_close_on_exec() {
        let (agent, keeper) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send_fds(&agent, &[file.as_raw_fd(), file.as_raw_fd()]).unwrap();
        let fds = receive_fds(&keeper).unwrap();
        assert_eq!(fds.len(), 2);
        for fd in &fds {
            let flags = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETFD).unwrap();
            assert_eq!(flags & nix::libc::FD_CLOEXEC, nix::libc::FD_CLOEXEC);
        }
    }
}
