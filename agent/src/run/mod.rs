//! One run at a time on this host: taking it, telling how it stands, ending it early.
//!
//! [`check`] and [`resolve`] say whether a spec can run; [`story`] is the run itself; [`record`] is
//! what callers see of it. HTTP is not known here.

pub mod builds;
pub mod check;
mod ending;
mod fits;
mod foreign;
mod launch;
mod machine;
mod measure;
mod model_path;
mod offline_job;
mod preflight;
mod prepare;
mod ready;
pub mod record;
mod reserve;
pub mod resolve;
mod served;
mod story;
#[cfg(test)]
pub mod testing;
mod validity;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contracts::api::{Secrets, StartRun};
use contracts::host::HostFacts;
use contracts::run::{Lifecycle, RunSpec, RunState, RunStatus, Validity};
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::process::device_lock::{self, LockError};
use crate::spool::{RunId, Spool, SpoolError};
use crate::state::{Current, StateDir};
use builds::Builds;
use check::Refusal;
pub(crate) use prepare::binary_sha256;
pub(crate) use ready::build_word;
use record::Record;
use resolve::Resolved;

/// At shutdown, beyond the run's own grace: SIGKILL, sweep, spool. Then the agent goes anyway, and
/// the keeper, whose pipe closes with it, ends what is left.
const CLOSE_MARGIN: Duration = Duration::from_secs(15);

/// All that runs are made of, and the one place that holds a run.
pub struct Bench {
    /// As opened.
    pub config: AgentConfig,
    /// Lock, ids, quarantine.
    pub state: StateDir,
    /// What was measured and not yet acknowledged.
    pub spool: Spool,
    /// Stable facts of this machine, looked at once.
    pub facts: HostFacts,
    /// Executables of engines.
    pub builds: Builds,
    /// The run in progress, or the last one: its record is served from memory until the next.
    slot: Mutex<Option<Arc<Active>>>,
    /// Starts are judged one after another, so that two of them cannot both find the slot free.
    admission: tokio::sync::Mutex<()>,
    /// What the host was taken for that is not a run; see [`reserve`].
    reserved: Mutex<Option<&'static str>>,
    closing: CancellationToken,
}

/// A run in memory.
pub struct Active {
    /// Its id.
    pub id: RunId,
    /// Status and events.
    pub record: Arc<Record>,
    /// Never stored.
    pub secrets: Secrets,
    /// SIGTERM to SIGKILL.
    grace: Duration,
    order: CancellationToken,
    interrupt: OnceLock<Interrupt>,
}

/// Why a run ends before its time. The first reason counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// On order of its controller.
    Cancelled,
    /// The agent is asked to end.
    Shutdown,
    /// It took longer than it may.
    Deadline,
}

/// Why a run is not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A field of the spec.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The id is known with another spec.
    #[error("run {0} is known with another spec")]
    Conflict(RunId),
    /// Another run, or another process on this device.
    #[error("busy with {holder}")]
    Busy {
        /// Who.
        holder: String,
    },
    /// A child could not be ended some time ago.
    #[error("this host is quarantined: {0}")]
    Quarantined(String),
    /// The agent is about to end.
    #[error("the agent is shutting down")]
    Closing,
    /// The spool takes no more.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The machine.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a run is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum AcknowledgeError {
    /// It has not ended.
    #[error("run {0} has not ended; cancel it first")]
    NotFinal(RunId),
    /// The spool's disk.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Bench {
    /// Nothing runs yet.
    pub fn new(config: AgentConfig, state: StateDir, spool: Spool, facts: HostFacts) -> Self {
        let builds = Builds::new(config.program.clone(), state.hashes_file());
        Self {
            config,
            state,
            spool,
            facts,
            builds,
            slot: Mutex::new(None),
            admission: tokio::sync::Mutex::new(()),
            reserved: Mutex::new(None),
            closing: CancellationToken::new(),
        }
    }

    /// Starts a run, or gives the status of the one that has this id and spec already.
    pub async fn start(self: &Arc<Self>, request: StartRun) -> Result<RunStatus, StartError> {
        let id = parse_id(&request.run_id)?;
        let _judged = self.admission.lock().await;
        if let Some(known) = self.status(&id)? {
            return if known.spec == request.spec {
                Ok(known)
            } else {
                Err(StartError::Conflict(id))
            };
        }
        self.free()?;
        check::deadline(request.deadline_s)?;
        check::secrets(&request.spec, &request.secrets)?;
        let resolved = self.resolve(request.spec.clone()).await?;
        let lock = self.take_device(&id, &request.spec).await?;
        let secrets = request.secrets.clone();
        let status = accepted(request, resolved.grace);
        self.begin(id, status, secrets, resolved, lock)
    }

    /// Makes the run's folder and lets it go its way. The slot is locked from before the folder is
    /// there until the run is in it: who looks into the slot after finding the folder finds the run,
    /// and [`close`](Self::close) finds it too, or this finds that the agent is closing.
    fn begin(
        self: &Arc<Self>,
        id: RunId,
        status: RunStatus,
        secrets: Secrets,
        resolved: Resolved,
        lock: Option<OwnedFd>,
    ) -> Result<RunStatus, StartError> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        // Again: judging the spec may have taken a while.
        if self.closing.is_cancelled() {
            return Err(StartError::Closing);
        }
        let folder = self.spool.create(&id, &status)?;
        let current = Current {
            run_id: id.to_string(),
            stage: contracts::run::Stage::Preflight,
            identities: None,
        };
        if let Err(error) = self.state.set_current(&current) {
            // The caller is told that there is no such run: none may be found later.
            if let Err(kept) = self.spool.remove(&id) {
                tracing::error!(run = %id, error = %kept, "a run that did not begin stays in the spool");
            }
            return Err(error.into());
        }
        let active = Arc::new(Active {
            id,
            record: Arc::new(Record::new(status.clone())),
            secrets,
            grace: resolved.grace,
            order: CancellationToken::new(),
            interrupt: OnceLock::new(),
        });
        *slot = Some(Arc::clone(&active));
        drop(slot);
        story::begin(
            Arc::clone(self),
            active,
            story::Job {
                folder,
                resolved,
                lock,
            },
        );
        Ok(status)
    }

    /// Whether `spec` could run here.
    pub async fn resolve(self: &Arc<Self>, spec: RunSpec) -> Result<Resolved, StartError> {
        let bench = Arc::clone(self);
        // Reads a tokenizer and encodes prompts: not on a thread that serves others.
        let judged = tokio::task::spawn_blocking(move || {
            resolve::resolve(&spec, &bench.config.model_roots, &bench.config.engines)
        });
        Ok(judged.await.map_err(io::Error::other)??)
    }

    /// How a run stands; none if it is not here. One that is not in memory has ended, also where
    /// its end could not be written: nobody should wait for it.
    pub fn status(&self, id: &RunId) -> io::Result<Option<RunStatus>> {
        if let Some(active) = self.active(id) {
            return Ok(Some(active.record.status()));
        }
        match self.spool.status(id)? {
            Some(status) if !status.state.is_final() => Ok(Some(match self.active(id) {
                // It began between the two looks.
                Some(active) => active.record.status(),
                None => ending::unwritten(&self.spool.folder(id), status),
            })),
            spooled => Ok(spooled),
        }
    }

    /// All runs that are here, oldest first. One that cannot be read is left out, with a log line.
    pub fn list(&self) -> io::Result<Vec<RunStatus>> {
        let mut runs = Vec::new();
        for id in self.spool.ids()? {
            match self.status(&id) {
                Ok(status) => runs.extend(status),
                Err(error) => tracing::error!(run = %id, %error, "a spooled run cannot be read"),
            }
        }
        Ok(runs)
    }

    /// The run with this id, if its record is in memory.
    pub fn active(&self, id: &RunId) -> Option<Arc<Active>> {
        self.slot().filter(|active| active.id == *id)
    }

    /// The run in progress.
    pub fn busy(&self) -> Option<Arc<Active>> {
        self.slot()
            .filter(|active| !active.record.state().is_final())
    }

    /// Orders a run to end; one that has ended stays as it is. None: not here.
    pub fn cancel(&self, id: &RunId) -> io::Result<Option<RunStatus>> {
        if let Some(active) = self.active(id) {
            active.interrupt(Interrupt::Cancelled);
        }
        self.status(id)
    }

    /// Forgets a run that has ended; one that is not here is forgotten already.
    pub async fn acknowledge(&self, id: &RunId) -> Result<(), AcknowledgeError> {
        let _judged = self.admission.lock().await;
        match self.status(id) {
            Ok(Some(status)) if !status.state.is_final() => {
                return Err(AcknowledgeError::NotFinal(id.clone()));
            }
            Ok(None) => return Ok(()),
            // What cannot be read can still be removed.
            Ok(Some(_)) | Err(_) => {}
        }
        self.spool.remove(id)?;
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|active| active.id == *id) {
            *slot = None;
        }
        Ok(())
    }

    /// Takes no new run, ends the one in progress and waits until it is stopped and spooled.
    pub async fn close(&self) {
        self.closing.cancel();
        let Some(active) = self.busy() else { return };
        active.interrupt(Interrupt::Shutdown);
        let mut events = active.record.watch();
        let ended = events.wait_for(|_| active.record.state().is_final());
        if tokio::time::timeout(active.grace + CLOSE_MARGIN, ended)
            .await
            .is_err()
        {
            tracing::error!(run = %active.id, "the run did not end in time; its keeper ends it");
        }
    }

    fn slot(&self) -> Option<Arc<Active>> {
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The device's lock if it is free; none if it is taken and the run may wait for it.
    async fn take_device(&self, id: &RunId, spec: &RunSpec) -> Result<Option<OwnedFd>, StartError> {
        match device_lock::acquire(&spec.arm.device, &self.holder(id), Duration::ZERO).await {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Held { .. }) if spec.limits.device_wait_ms > 0 => Ok(None),
            Err(LockError::Held { holder, .. }) => Err(StartError::Busy { holder }),
            Err(error @ LockError::File { .. }) => Err(StartError::Io(io::Error::other(error))),
        }
    }

    /// What another process reads that finds the device taken.
    fn holder(&self, id: &RunId) -> String {
        // The lock file holds the pid itself.
        format!("run {id} of agent {}", self.state.agent_id())
    }
}

impl Active {
    /// Orders the run to end. A second order changes nothing.
    pub fn interrupt(&self, why: Interrupt) {
        let _ = self.interrupt.set(why);
        self.order.cancel();
    }

    /// Resolves when the run was ordered to end.
    async fn interrupted(&self) -> Interrupt {
        self.order.cancelled().await;
        self.interrupt
            .get()
            .copied()
            .unwrap_or(Interrupt::Cancelled)
    }
}

fn parse_id(text: &str) -> Result<RunId, Refusal> {
    RunId::parse(text)
        .ok_or_else(|| Refusal::new("run_id", "must be a ULID (26 characters of 0-9 A-Z)"))
}

fn accepted(request: StartRun, grace: Duration) -> RunStatus {
    RunStatus {
        run_id: request.run_id,
        state: RunState::Queued,
        spec: request.spec,
        deadline_s: request.deadline_s,
        created_unix_ms: now_unix_ms(),
        ended_unix_ms: None,
        failure: None,
        warnings: Vec::new(),
        provenance: None,
        validity: Validity::default(),
        lifecycle: Lifecycle {
            // Of a server that runs already there is nothing to wait for.
            grace_ms: u64::try_from(grace.as_millis()).ok().filter(|ms| *ms > 0),
            ..Lifecycle::default()
        },
        samples: None,
    }
}

/// Wall-clock time, for people only.
pub fn now_unix_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
