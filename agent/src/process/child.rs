//! A running child as the agent sees it, and how it is ended.
//!
//! All it knows comes from the keeper's reports, through one watched [`Progress`]; so waiting for
//! the end can be cancelled and repeated freely. Starting is [`super::spawn()`].

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::identity::{Identities, ProcessId, kill_tree};
use super::log::LogRing;
use super::protocol::{Order, line};
use super::sweep::{SWEEP_LIMIT, tree_of};

/// What a stop may take beyond the grace and the sweep: signals, reports, a busy machine.
const STOP_MARGIN: Duration = Duration::from_secs(7);
/// An order is a few bytes; a keeper that doesn't take them is stuck.
const ORDER_LIMIT: Duration = Duration::from_secs(1);
/// After the end, for the last output: a descendant that escaped may hold the pipe.
pub(super) const LOG_LIMIT: Duration = Duration::from_secs(1);

/// How a child ended. Neither field: its keeper was killed with it, so nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitInfo {
    /// Its exit status.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default)]
    pub signal: Option<i32>,
}

impl fmt::Display for ExitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            |signal| nix::sys::signal::Signal::try_from(signal).map(|signal| signal.as_str());
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => match name(signal) {
                Ok(name) => write!(f, "killed by {name}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
            (None, None) => write!(f, "ended, its keeper was killed"),
        }
    }
}

/// What a stop did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopReport {
    /// How the child ended; `None` if it could not be ended.
    pub exit: Option<ExitInfo>,
    /// Whether the grace ran out and it took SIGKILL.
    pub killed: bool,
    /// Descendants that outlived the child and were killed.
    pub swept: u32,
    /// Whether nothing is left. If not, the host must not run anything else.
    pub clean: bool,
    /// From the order to the end, milliseconds.
    pub stop_ms: f64,
    /// Peak resident memory of the child (or of the largest descendant it waited for).
    pub rss_bytes_max: Option<u64>,
}

/// What is known so far; each field is set once.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// The child, or why there is none.
    pub started: Option<Result<ProcessId, String>>,
    /// The child ended.
    pub exit: Option<ExitInfo>,
    /// Its peak memory.
    pub rss_bytes_max: Option<u64>,
    /// The sweep is over.
    pub swept: Option<Swept>,
    /// The keeper is gone and reaped.
    pub gone: bool,
}

/// Result of the sweep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swept {
    pub killed: bool,
    pub swept: u32,
    pub clean: bool,
}

/// A child under its keeper. Dropped, it is ended by the keeper in the background, as if the agent
/// had died; [`Child::stop`] is the way that waits and reports.
#[derive(Debug)]
pub struct Child {
    pub(super) identities: Identities,
    pub(super) log: LogRing,
    pub(super) log_reader: AbortHandle,
    pub(super) orders: OwnedWriteHalf,
    pub(super) progress: watch::Receiver<Progress>,
}

impl Child {
    /// Keeper and child, for the state file.
    pub fn identity(&self) -> &Identities {
        &self.identities
    }

    /// What it prints.
    pub fn log(&self) -> &LogRing {
        &self.log
    }

    /// Pids of keeper, child and all live descendants: what counts as "ours" on this machine.
    pub fn pids(&self) -> Vec<i32> {
        let keeper = self.identities.keeper.pid;
        let mut pids = tree_of(keeper);
        pids.push(keeper);
        pids
    }

    /// How it ended, if it has.
    pub fn exit_now(&self) -> Option<ExitInfo> {
        self.progress.borrow().exit
    }

    /// Resolves as soon as the child has ended. May be cancelled and called again.
    pub async fn exited(&self) -> ExitInfo {
        let mut progress = self.progress.clone();
        match progress.wait_for(|progress| progress.exit.is_some()).await {
            Ok(progress) => progress.exit.unwrap_or_default(),
            // The watcher is gone, and with it the keeper and the child.
            Err(_) => ExitInfo::default(),
        }
    }

    /// Ends the child and all its descendants: SIGTERM to the group, `grace`, SIGKILL, sweep, reap.
    /// For a child that has ended already it collects the report. Returns at the latest after
    /// `grace` and 20 seconds, and then says that it isn't clean.
    pub async fn stop(mut self, grace: Duration) -> StopReport {
        let begun = Instant::now();
        self.order_stop(grace).await;
        let bound = grace.saturating_add(SWEEP_LIMIT + STOP_MARGIN);
        let mut progress = self.progress.clone();
        // A keeper that can't clean up stays, holding the lock: then its report is the end.
        let over = progress.wait_for(|now| now.gone || now.swept.is_some_and(|s| !s.clean));
        let late = tokio::time::timeout(bound, over).await.is_err();
        let forced = if late {
            Some(force(self.identities.clone()).await)
        } else {
            None
        };
        self.log.settle(LOG_LIMIT).await;
        self.log_reader.abort();
        let known = self.progress.borrow().clone();
        let swept = known.swept.unwrap_or(Swept {
            killed: true,
            swept: 0,
            clean: false,
        });
        StopReport {
            exit: known.exit,
            killed: swept.killed,
            swept: swept.swept,
            clean: forced.unwrap_or(swept.clean),
            stop_ms: begun.elapsed().as_secs_f64() * 1000.0,
            rss_bytes_max: known.rss_bytes_max,
        }
    }

    async fn order_stop(&mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let Ok(bytes) = line(&Order::Stop { grace_ms }) else {
            return;
        };
        // Not taken: the keeper has ended, which is what is wanted, or hangs, which the bound of
        // the wait that follows deals with.
        let _ = tokio::time::timeout(ORDER_LIMIT, self.orders.write_all(&bytes)).await;
    }
}

/// The keeper doesn't answer: end it and the tree from here. Whether nothing is left.
pub(super) async fn force(identities: Identities) -> bool {
    let task = tokio::task::spawn_blocking(move || kill_tree(&identities));
    task.await.is_ok_and(|leftover| leftover.left == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_reads_well() {
        let said = |code, signal| ExitInfo { code, signal }.to_string();
        assert_eq!(said(Some(3), None), "exit status 3");
        assert_eq!(said(None, Some(9)), "killed by SIGKILL");
        assert_eq!(said(None, Some(40)), "killed by signal 40");
        assert_eq!(said(None, None), "ended, its keeper was killed");
    }
}
