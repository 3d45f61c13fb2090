//! Who a process is, so that a recycled pid is never taken for ours.
//!
//! A pid alone says nothing after a while. Three things together do: the machine's boot id, the
//! start time the kernel keeps for the pid, and the mark that the keeper puts into the environment
//! of the child, which its descendants inherit even if they leave the session. When to use them is
//! left to the run that recovers.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// Environment variable that marks a tree: inherited by descendants, read back from `/proc`.
pub(super) const TREE_MARK: &str = "CHAPTERBENCH_TREE";
/// A keeper told to end needs its orphan grace and a sweep; longer than that and it is killed.
const KEEPER_WAIT: Duration = Duration::from_secs(3);
/// SIGKILL works at once unless a process hangs in the kernel: then waiting longer won't help.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// Pause between two looks at `/proc`.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process, safe against a recycled pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}

/// Who runs: written into the agent's state file, read back after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identities {
    /// Of the machine: after a reboot nothing of ours can be left.
    pub boot_id: String,
    /// Value of the mark in the environment of the child and its descendants.
    pub tree: String,
    /// The keeper.
    pub keeper: ProcessId,
    /// The child itself.
    pub child: ProcessId,
}

/// What [`kill_leftover`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leftover {
    /// Processes of ours that were still alive.
    pub found: u32,
    /// Of those, how many could not be ended.
    pub left: u32,
}

impl ProcessId {
    /// The process that has this pid now; `None` if there is none.
    pub fn of(pid: i32) -> Option<ProcessId> {
        let stat = procfs::process::Process::new(pid)
            .and_then(|process| process.stat())
            .ok()?;
        Some(ProcessId {
            pid,
            start_ticks: stat.starttime,
        })
    }

    /// Whether this very process still runs; a zombie doesn't.
    pub fn is_alive(&self) -> bool {
        procfs::process::Process::new(self.pid)
            .and_then(|process| process.stat())
            .is_ok_and(|stat| stat.starttime == self.start_ticks && !is_over(stat.state))
    }

    /// Signals it if it is still the same process.
    fn signal(&self, signal: Signal) {
        if self.is_alive() {
            // It may end in this instant: then there is nothing to signal.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }
}

/// Zombie or dead: nothing runs any more.
pub(super) fn is_over(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}

/// The machine's boot id; empty where the kernel doesn't say.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Ends what an earlier agent left running, and nothing else: each process is checked by boot id,
/// pid *and* start time, or by the mark in its environment. Blocks for at most five seconds.
pub fn kill_leftover(ids: &Identities) -> Leftover {
    kill_members(ids, false)
}

/// The same for a tree that this agent started and still watches: its session is certainly not
/// recycled yet, so what belongs to it is ours even where the mark was overwritten (servers that
/// set their process title do that).
pub(super) fn kill_tree(ids: &Identities) -> Leftover {
    kill_members(ids, true)
}

fn kill_members(ids: &Identities, by_session: bool) -> Leftover {
    if ids.boot_id != boot_id() {
        return Leftover::default();
    }
    let mut found: Vec<ProcessId> = members(ids, by_session);
    if ids.keeper.is_alive() {
        // The keeper knows its tree better than any scan: let it do the work.
        found.push(ids.keeper);
        ids.keeper.signal(Signal::SIGTERM);
        wait_until(KEEPER_WAIT, || !ids.keeper.is_alive());
        ids.keeper.signal(Signal::SIGKILL);
    }
    let gone = wait_until(KILL_WAIT, || {
        let alive = members(ids, by_session);
        for process in &alive {
            process.signal(Signal::SIGKILL);
            if !found.contains(process) {
                found.push(*process);
            }
        }
        alive.is_empty()
    });
    let left = if gone {
        0
    } else {
        members(ids, by_session).len()
    };
    Leftover {
        found: count(found.len()),
        left: count(left),
    }
}

/// Every live process of the tree but the keeper: the child, and whatever carries its mark or, if
/// asked, is of its session.
fn members(ids: &Identities, by_session: bool) -> Vec<ProcessId> {
    let mark = format!("{TREE_MARK}={}", ids.tree).into_bytes();
    let marked = |pid: i32| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|&byte| byte == 0).any(|entry| entry == mark))
    };
    let Ok(all) = procfs::process::all_processes() else {
        return Vec::new();
    };
    let in_session = |stat: &procfs::process::Stat| {
        by_session
            && ids.child.pid > 0
            && stat.session == ids.child.pid
            && stat.starttime >= ids.child.start_ticks
    };
    all.flatten()
        .filter_map(|process| process.stat().ok())
        .filter(|stat| !is_over(stat.state))
        .map(|stat| {
            (
                ProcessId {
                    pid: stat.pid,
                    start_ticks: stat.starttime,
                },
                stat,
            )
        })
        .filter(|(process, _)| *process != ids.keeper)
        .filter(|(process, stat)| *process == ids.child || in_session(stat) || marked(process.pid))
        .map(|(process, _)| process)
        .collect()
}

fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if done() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A process of somebody else that lives long enough for the test.
    fn stranger() -> std::process::Child {
        std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_recycled_pid_is_never_touched() {
        let mut stranger = stranger();
        let now = ProcessId::of(stranger.id().cast_signed()).unwrap();
        let stale = ProcessId {
            start_ticks: now.start_ticks.wrapping_sub(1),
            ..now
        };
        let ids = Identities {
            boot_id: boot_id(),
            tree: "a tree that is gone".into(),
            keeper: stale,
            child: stale,
        };
        assert_eq!(kill_leftover(&ids), Leftover::default());
        assert!(now.is_alive());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn another_boot_has_left_nothing() {
        let mut stranger = stranger();
        let now = ProcessId::of(stranger.id().cast_signed()).unwrap();
        let ids = Identities {
            boot_id: "another".into(),
            tree: String::new(),
            keeper: now,
            child: now,
        };
        assert_eq!(kill_leftover(&ids), Leftover::default());
        assert!(now.is_alive());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn what_carries_the_mark_is_ended() {
        let tree = ulid::Ulid::generate().to_string();
        let mut marked = std::process::Command::new("sleep")
            .arg("60")
            .env(TREE_MARK, &tree)
            .spawn()
            .unwrap();
        let id = ProcessId::of(marked.id().cast_signed()).unwrap();
        let gone = ProcessId {
            pid: id.pid,
            start_ticks: 0,
        };
        let ids = Identities {
            boot_id: boot_id(),
            tree,
            keeper: gone,
            child: gone,
        };
        assert_eq!(kill_leftover(&ids), Leftover { found: 1, left: 0 });
        assert!(!id.is_alive());
        marked.wait().unwrap();
    }
}
