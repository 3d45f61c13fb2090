//! What goes from the agent to a keeper: the descriptors, then the order to start.
//!
//! The agent's copies are closed here, right after they are sent. The words are
//! [`super::protocol`]'s; sending them at the right moment is left to [`super::spawn()`].

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;

use super::program::Program;
use super::protocol::{FD_TARGET_MAX, FD_TARGET_MIN, FDS_MAX, Order, StartOrder, line, send_fds};
use super::spawn::ChildSpec;

/// Whether the descriptors of `spec` can be passed on; if not, why.
pub(super) fn check(spec: &ChildSpec) -> Result<(), String> {
    let mut numbers: Vec<RawFd> = spec.fds.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    if let Some(bad) = numbers
        .iter()
        .find(|n| !(FD_TARGET_MIN..=FD_TARGET_MAX).contains(*n))
    {
        return Err(format!(
            "number {bad} is not between {FD_TARGET_MIN} and {FD_TARGET_MAX}"
        ));
    }
    for pair in numbers.windows(2) {
        if let [bad, next] = pair
            && bad == next
        {
            return Err(format!("number {bad} is used twice"));
        }
    }
    if 1 + spec.fds.len() + spec.keep.len() > FDS_MAX {
        return Err(format!("at most {} can be passed on", FDS_MAX - 1));
    }
    Ok(())
}

/// Sends all descriptors of `spec` over a fresh socket and closes our copies. Gives the socket back,
/// ready for tokio, with the line that has to follow.
pub(super) fn send(
    spec: ChildSpec,
    tree: &str,
    socket: UnixStream,
) -> io::Result<(UnixStream, Vec<u8>)> {
    let (descriptors, order) = order(spec, tree)?;
    let mut raw = vec![descriptors.program.fd().as_raw_fd()];
    raw.extend(
        descriptors
            .given
            .iter()
            .chain(&descriptors.keep)
            .map(AsRawFd::as_raw_fd),
    );
    match send_fds(&socket, &raw) {
        // The keeper has ended: how, its log and its exit say better.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    socket.set_nonblocking(true)?;
    Ok((socket, order))
}

/// What is passed on, in the order that [`StartOrder`] names.
struct Descriptors {
    program: Program,
    given: Vec<OwnedFd>,
    keep: Vec<OwnedFd>,
}

/// What goes to the keeper: descriptors, and the line of the order.
fn order(spec: ChildSpec, tree: &str) -> io::Result<(Descriptors, Vec<u8>)> {
    let bytes = |items: Vec<OsString>| items.into_iter().map(OsString::into_vec).collect();
    let (given, targets) = spec.fds.into_iter().unzip();
    let start = StartOrder {
        tree: tree.to_owned(),
        by_path: spec.program.runs_by_path().then(|| spec.program.arg0()),
        arg0: spec.program.arg0(),
        args: bytes(spec.args),
        env: spec
            .env
            .into_iter()
            .map(|(k, v)| (k.into_vec(), v.into_vec()))
            .collect(),
        env_remove: bytes(spec.env_remove),
        cwd: spec.cwd.map(|path| path.into_os_string().into_vec()),
        targets,
    };
    let descriptors = Descriptors {
        program: spec.program,
        given,
        keep: spec.keep,
    };
    Ok((descriptors, line(&Order::Start(start))?))
}
