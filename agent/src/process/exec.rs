//! Starting the child from inside the keeper: which descriptors it gets, and what ties it to us.
//!
//! The child gets standard streams, the descriptors that were chosen for it at the numbers that
//! were chosen, and nothing else. It leads a session of its own, and the kernel kills it when the
//! keeper dies. Watching it is left to [`super::keeper`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, dup3_raw, getpid, getppid, setsid};

use super::identity::TREE_MARK;
use super::protocol::{FD_TARGET_MAX, FD_TARGET_MIN, StartOrder};

/// The keeper's own descriptors live from this number on, out of the way of the child's.
const KEEPER_FD_MIN: RawFd = FD_TARGET_MAX + 1;

/// Marks everything but the standard streams close-on-exec: whoever started the agent may have left
/// descriptors open, and the child must not get them.
pub(super) fn seal_inherited_fds() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        if fd >= FD_TARGET_MIN {
            // SAFETY: borrowed for this one call; a number that is not open any more (the folder's
            // own) gives EBADF, which is ignored.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            let _ = fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        }
    }
    Ok(())
}

/// The same file under a high number, close-on-exec.
pub(super) fn move_high(fd: OwnedFd) -> io::Result<OwnedFd> {
    let high = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(KEEPER_FD_MIN))?;
    // SAFETY: fcntl has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(high) })
}

/// A child that has been started, and what must stay open as long as the keeper lives.
pub(super) struct Started {
    /// The child, leader of its session and group.
    pub pid: Pid,
    /// Held, never used: the device lock.
    pub held: Vec<OwnedFd>,
}

/// Starts what the order says. `fds`: the program, one for each target, the rest to hold.
pub(super) fn start(order: StartOrder, fds: Vec<OwnedFd>) -> io::Result<Started> {
    let mut fds = fds
        .into_iter()
        .map(move_high)
        .collect::<io::Result<Vec<_>>>()?
        .into_iter();
    let program = fds
        .next()
        .ok_or_else(|| io::Error::other("the order came without a program"))?;
    let mut given = Vec::new();
    for &target in &order.targets {
        let fd = fds
            .next()
            .ok_or_else(|| io::Error::other("the order lacks a descriptor"))?;
        given.push(place(fd, target)?);
    }
    let mut command = command(&order, &program);
    let keeper = getpid();
    let targets = order.targets;
    // SAFETY: between fork and exec `prepare` makes system calls and allocates nothing.
    unsafe { command.pre_exec(move || prepare(keeper, &targets)) };
    let child = command.spawn()?;
    // The std handle is dropped: it neither kills nor waits, and the keeper reaps by itself.
    Ok(Started {
        pid: Pid::from_raw(child.id().cast_signed()),
        held: fds.collect(),
    })
}

/// Puts a descriptor at its final number, still close-on-exec. Done in the keeper and not after the
/// fork: so the number is taken when std opens its own pipe, which could otherwise be overwritten.
fn place(fd: OwnedFd, target: RawFd) -> io::Result<OwnedFd> {
    if !(FD_TARGET_MIN..=FD_TARGET_MAX).contains(&target) {
        return Err(io::Error::other(format!(
            "descriptor number {target} is out of range"
        )));
    }
    // SAFETY: the numbers of this range are used for nothing else in a keeper; whatever it
    // inherited there is not used.
    Ok(unsafe { dup3_raw(&fd, target, OFlag::O_CLOEXEC) }?)
}

fn command(order: &StartOrder, program: &OwnedFd) -> Command {
    let path = match &order.by_path {
        Some(path) => PathBuf::from(OsString::from_vec(path.clone())),
        None => PathBuf::from(format!("/proc/self/fd/{}", program.as_raw_fd())),
    };
    let mut command = Command::new(path);
    if order.by_path.is_none() {
        command.arg0(OsStr::from_bytes(&order.arg0));
    }
    command.args(order.args.iter().map(|arg| OsStr::from_bytes(arg)));
    for name in &order.env_remove {
        command.env_remove(OsStr::from_bytes(name));
    }
    for (name, value) in &order.env {
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    command.env(TREE_MARK, &order.tree);
    if let Some(cwd) = &order.cwd {
        command.current_dir(OsStr::from_bytes(cwd));
    }
    // stdout and stderr are the keeper's own: the pipe that the agent reads.
    command.stdin(Stdio::null());
    command
}

/// Runs in the child, between fork and exec.
fn prepare(keeper: Pid, targets: &[RawFd]) -> io::Result<()> {
    setsid()?;
    // Tied to the thread that forked; the keeper has only one, so to the keeper.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != keeper {
        // The keeper died before the line above could see it.
        return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
    }
    // The keeper blocks signals to read them from a descriptor; the child must not inherit that.
    SigSet::empty().thread_set_mask()?;
    for &target in targets {
        // SAFETY: `place` opened this number in the keeper, and the fork copied it.
        let fd = unsafe { BorrowedFd::borrow_raw(target) };
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}
