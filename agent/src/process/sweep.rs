//! Ending and reaping whatever outlived the child, from inside the keeper.
//!
//! The keeper is a subreaper: a descendant whose parents are gone becomes its child, whatever
//! session or group it moved to. So there is a simple, complete sign of the end: `waitpid` says
//! that there are no children. Until then, find, kill, reap, and look again, since a process may
//! fork while we look.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};

use super::identity::{count, is_over};

/// A process that is still there after this many seconds of SIGKILL hangs in the kernel.
pub(super) const SWEEP_LIMIT: Duration = Duration::from_secs(5);
/// First pause between two passes, doubled each time: most trees are gone after one.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// `ru_maxrss` counts KiB.
const RSS_UNIT_BYTES: u64 = 1024;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Death {
    /// Who.
    pub pid: i32,
    /// `exit` status.
    pub code: Option<i32>,
    /// Or the signal.
    pub signal: Option<i32>,
    /// Peak resident memory, its waited-for children included.
    pub rss_bytes_max: u64,
}

/// What one call of [`reap`] saw.
#[derive(Debug)]
pub(super) enum Reaped {
    /// A child was collected; there may be more.
    Death(Death),
    /// Children run, none has ended.
    Running,
    /// There are no children, and so no descendants.
    Nobody,
}

/// Collects one dead child without waiting.
pub(super) fn reap() -> Reaped {
    let mut status: libc::c_int = 0;
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals; WNOHANG makes it return at once.
    let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) };
    match pid {
        0 => Reaped::Running,
        1.. => Reaped::Death(Death {
            pid,
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            rss_bytes_max: u64::try_from(usage.ru_maxrss).unwrap_or(0) * RSS_UNIT_BYTES,
        }),
        _ if Errno::last() == Errno::ECHILD => Reaped::Nobody,
        _ => Reaped::Running,
    }
}

/// A live process below another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Descendant {
    pid: i32,
    group: i32,
}

/// All live descendants of `root`, `root` itself left out.
fn descendants(root: i32) -> Vec<Descendant> {
    let Ok(all) = procfs::process::all_processes() else {
        return Vec::new();
    };
    let mut children: HashMap<i32, Vec<(Descendant, bool)>> = HashMap::new();
    for stat in all.flatten().filter_map(|process| process.stat().ok()) {
        let found = Descendant {
            pid: stat.pid,
            group: stat.pgrp,
        };
        children
            .entry(stat.ppid)
            .or_default()
            .push((found, is_over(stat.state)));
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        // Taken out of the map, so that a race that shows a loop can't keep us here.
        for (child, over) in children.remove(&parent).unwrap_or_default() {
            open.push(child.pid);
            if !over {
                found.push(child);
            }
        }
    }
    found
}

/// Pids of all live descendants of `root`.
pub(super) fn tree_of(root: i32) -> Vec<i32> {
    descendants(root)
        .into_iter()
        .map(|process| process.pid)
        .collect()
}

/// Kills and reaps every descendant of this process until there are none, or the limit is reached.
/// Returns how many were alive, and whether none is left. `on_death` hears of each that is reaped.
pub(super) fn sweep(limit: Duration, mut on_death: impl FnMut(Death)) -> (u32, bool) {
    let (own, own_group) = (std::process::id().cast_signed(), getpgrp());
    let begun = Instant::now();
    let mut pause = PAUSE_FIRST;
    let mut seen = HashSet::new();
    loop {
        loop {
            match reap() {
                Reaped::Death(death) => on_death(death),
                Reaped::Running => break,
                Reaped::Nobody => return (count(seen.len()), true),
            }
        }
        if begun.elapsed() > limit {
            return (count(seen.len()), false);
        }
        for process in descendants(own) {
            seen.insert(process.pid);
            let group = Pid::from_raw(process.group);
            if process.group > 1 && group != own_group {
                // A whole group at once: no fork can slip through between two single kills. Only
                // descendants are in it, since the child began a session of its own.
                let _ = killpg(group, Signal::SIGKILL);
            }
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
