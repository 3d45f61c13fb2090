//! The story of one run, top to bottom: preflight, spawn, load, warm up, measure, stop, spool.
//!
//! Whatever happens on the way (an error, a timeout, an order to end, the child's death) the child
//! is stopped and swept, and what was measured is kept.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use contracts::defaults::LOG_TAIL_LINES;
use contracts::run::{Provenance, RunFailure, Stage};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::launch::Launched;
use super::resolve::{Engine, Resolved};
use super::{Active, Bench, Interrupt, ending, launch, machine, measure, preflight, ready};
use crate::process::{Child, ExitInfo};
use crate::spool::RunFolder;
use crate::spool::recover::stage_word;
use crate::spool::writer::Writer;

/// A child that has ended may have left lines in a pipe: as long the reader may take to its end.
const DRAIN_WAIT: Duration = Duration::from_secs(1);
/// A request that failed may have failed because the child is dying: as long we wait to know.
const DEATH_NOTICE_WAIT: Duration = Duration::from_millis(300);
/// A worker that has written its last line frees its model and exits; then it is helped.
const WORKER_END_WAIT: Duration = Duration::from_secs(2);
/// An order to end lets requests in flight be recorded as aborted, and what waited for the spool
/// be stored, this long: thousands of samples take a second of a busy machine.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// What a run starts from.
pub(super) struct Job {
    /// Its folder in the spool.
    pub folder: RunFolder,
    /// What to start.
    pub resolved: Resolved,
    /// The device's lock, unless the run has to wait for it.
    pub lock: Option<OwnedFd>,
}

/// A run under way: what its chapters share.
pub(super) struct Run {
    pub bench: Arc<Bench>,
    pub active: Arc<Active>,
    pub folder: RunFolder,
    pub resolved: Resolved,
    pub writer: Writer,
    /// Ends the load generator; requests in flight are recorded as aborted.
    pub stop_load: CancellationToken,
}

/// How a run ends, if not well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Something failed.
    Failed(RunFailure),
    /// The child went away during a stage; how it ended says why.
    Gone(Stage),
    /// It was ended on order, or by its deadline, during a stage.
    Interrupted(Interrupt, Stage),
}

/// Lets the run go its way; [`Active::record`] tells how it stands.
pub(super) fn begin(bench: Arc<Bench>, active: Arc<Active>, job: Job) {
    tokio::spawn(async move {
        let told = tokio::spawn(tell(Arc::clone(&bench), Arc::clone(&active), job)).await;
        if let Err(panicked) = told {
            // A bug of ours: the record must still end, or the host stays busy for ever.
            let message = format!("internal error of the agent: {panicked}");
            ending::give_up(&bench, &active, active.record.stage(), message);
        }
    });
}

async fn tell(bench: Arc<Bench>, active: Arc<Active>, job: Job) {
    let writer = match Writer::start(&job.folder, Arc::clone(&active.record)) {
        Ok(writer) => writer,
        Err(error) => {
            return ending::give_up(
                &bench,
                &active,
                Stage::Preflight,
                format!("the spool: {error}"),
            );
        }
    };
    let Job {
        folder,
        resolved,
        lock,
    } = job;
    let run = Run {
        bench,
        active,
        folder,
        resolved,
        writer,
        stop_load: CancellationToken::new(),
    };
    let outcome = attempt(&run, lock).await;
    ending::finish(run, outcome).await;
}

async fn attempt(run: &Run, lock: Option<OwnedFd>) -> Result<(), Failure> {
    run.enter(Stage::Preflight);
    let lock = run.guarded(None, preflight::pass(run, lock)).await?;
    if let Engine::Url { url, served_name } = &run.resolved.engine {
        return against(run, lock, url, served_name.as_deref()).await;
    }

    run.enter(Stage::Spawn);
    let Launched {
        child,
        link,
        spawned,
    } = launch::spawn(run, lock).await?;
    let logging = launch::forward_log(&child, Arc::clone(&run.active.record));

    run.enter(Stage::Load);
    let addr = link.addr();
    let work = async {
        let ready = ready::ready(run, &child, link, spawned).await?;
        measure::all(run, ready, spawned).await
    };
    let measured = run.guarded(Some(&child), work).await;
    if measured.is_ok() {
        machine::after(run).await;
    }

    if measured.is_ok() && addr.is_none() {
        // A worker that is done ends by itself; a signal would only spoil its exit status.
        let _ = timeout(WORKER_END_WAIT, child.exited()).await;
    }
    run.enter(Stage::Stop);
    let stopped = ending::stop(run, child, addr).await;
    logging.abort();
    measured.and(stopped)
}

/// A run against a server that runs already: nothing is started, and nothing is stopped. No keeper
/// holds the device's lock, so that this does, to the end.
async fn against(
    run: &Run,
    _lock: OwnedFd,
    url: &str,
    served_name: Option<&str>,
) -> Result<(), Failure> {
    ready::begin_provenance(run, Provenance::default());
    run.enter(Stage::Load);
    run.guarded(None, async {
        machine::before(run).await;
        Ok(())
    })
    .await?;
    let begun = std::time::Instant::now();
    let work = async {
        let ready = ready::running(run, url, served_name).await?;
        measure::all(run, ready, begun).await
    };
    run.guarded(None, work).await?;
    machine::after(run).await;
    Ok(())
}

impl Run {
    /// The next stage, on the record and on disk.
    pub fn enter(&self, stage: Stage) {
        self.active.record.enter(stage);
        self.writer.events();
    }

    /// A failure of the stage under way.
    pub fn failed(&self, message: impl Into<String>) -> Failure {
        let stage = self.active.record.stage();
        Failure::Failed(RunFailure {
            stage,
            message: message.into(),
            log_tail: Vec::new(),
        })
    }

    /// Does `work`, unless the run is ordered to end, its deadline passes or its child dies.
    pub async fn guarded<T>(
        &self,
        child: Option<&Child>,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        let status = self.active.record.status();
        let deadline = Instant::from_std(self.active.record.accepted())
            + Duration::from_secs(status.deadline_s);
        let failure = tokio::select! {
            biased;
            done = &mut work => match done {
                Ok(done) => return Ok(done),
                Err(failure) => return Err(explained(child, failure).await),
            },
            why = self.active.interrupted() => Failure::Interrupted(why, self.active.record.stage()),
            () = sleep_until(deadline) => Failure::Interrupted(Interrupt::Deadline, self.active.record.stage()),
            _ = exited(child) => {
                let gone = Failure::Gone(self.active.record.stage());
                // The last lines of a worker that ended well are still in its pipe.
                match timeout(DRAIN_WAIT, &mut work).await {
                    Ok(Ok(done)) => return Ok(done),
                    Ok(Err(failure)) => return Err(explained(child, failure).await),
                    Err(_) => explained(child, gone).await,
                }
            }
        };
        self.stop_load.cancel();
        // What it returns no longer matters: the reason is known.
        let _ = timeout(ABORT_WAIT, &mut work).await;
        Err(failure)
    }
}

/// Adds the child's part to a failure: how it ended, if it did, and its last lines.
async fn explained(child: Option<&Child>, failure: Failure) -> Failure {
    let (stage, said) = match failure {
        Failure::Failed(failure) if failure.log_tail.is_empty() => {
            (failure.stage, Some(failure.message))
        }
        Failure::Gone(stage) => (stage, None),
        other => return other,
    };
    let Some(child) = child else {
        return Failure::Failed(RunFailure {
            stage,
            message: said.unwrap_or_default(),
            log_tail: Vec::new(),
        });
    };
    let ended = match timeout(DEATH_NOTICE_WAIT, child.exited()).await {
        Ok(exit) => {
            child.log().settle(DRAIN_WAIT).await;
            Some(format!(
                "the engine ended during {}: {exit}",
                stage_word(stage)
            ))
        }
        Err(_) => None,
    };
    let message = match (ended, said) {
        (Some(ended), Some(said)) => format!("{ended}; {said}"),
        (Some(ended), None) => ended,
        (None, Some(said)) => said,
        (None, None) => "the engine closed its report and did not end".to_owned(),
    };
    Failure::Failed(RunFailure {
        stage,
        message,
        log_tail: child.log().tail(LOG_TAIL_LINES),
    })
}

async fn exited(child: Option<&Child>) -> ExitInfo {
    match child {
        Some(child) => child.exited().await,
        None => std::future::pending().await,
    }
}
