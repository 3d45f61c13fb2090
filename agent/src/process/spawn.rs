//! Starting a child under its keeper, from the agent.
//!
//! Here is the order of events; what is passed on is [`super::handover`], who listens to the keeper
//! is [`super::watch`], and what happens inside it [`super::keeper`].

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::child::{Child, LOG_LIMIT};
use super::identity::{Identities, ProcessId, boot_id};
use super::log::LogRing;
use super::program::Program;
use super::{handover, watch};

/// Starting two processes takes milliseconds; a machine that needs longer can't measure anything.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Last lines of output that a failed start carries.
const TAIL_LINES: usize = 10;

/// What to run.
#[derive(Debug)]
pub struct ChildSpec {
    /// The executable.
    pub program: Program,
    /// `argv[1..]`
    pub args: Vec<OsString>,
    /// Set in the child, over the agent's own environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of the agent that the child must not see: its token.
    pub env_remove: Vec<OsString>,
    /// Where it runs; else where the agent does.
    pub cwd: Option<PathBuf>,
    /// Descriptors for the child, each with its number there, 3 to 63. The agent's copies are
    /// closed by the time [`spawn()`] returns.
    pub fds: Vec<(OwnedFd, RawFd)>,
    /// Held by the keeper until nothing of the child is left: the device lock.
    pub keep: Vec<OwnedFd>,
    /// Its output from the first byte, capped; replaced if it exists.
    pub log_file: PathBuf,
}

impl ChildSpec {
    /// A program without arguments; the other fields are set by name.
    pub fn new(program: Program, log_file: PathBuf) -> ChildSpec {
        ChildSpec {
            program,
            args: Vec::new(),
            env: Vec::new(),
            env_remove: Vec::new(),
            cwd: None,
            fds: Vec::new(),
            keep: Vec::new(),
            log_file,
        }
    }
}

/// Why a child could not be started. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A descriptor number out of range or used twice, or too many of them.
    #[error("descriptors for the child: {0}")]
    Descriptors(String),
    /// The log file can't be made.
    #[error("log file {}: {error}", path.display())]
    LogFile {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The keeper can't be started or spoken to.
    #[error("start the keeper {}: {error}", path.display())]
    Keeper {
        /// Its executable.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system refused to run the program.
    #[error("start {}: {message}", path.display())]
    Refused {
        /// The program.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// The keeper ended, or didn't answer in time.
    #[error("the keeper of {} {what}{}", path.display(), quoted(tail))]
    NoAnswer {
        /// The program.
        path: PathBuf,
        /// `ended at once` or `did not answer within 10 s`.
        what: String,
        /// Its last lines.
        tail: Vec<String>,
    },
}

fn quoted(tail: &[String]) -> String {
    if tail.is_empty() {
        String::new()
    } else {
        format!(": {}", tail.join(" | "))
    }
}

/// Starts `spec` under `keeper engine keeper`. `keeper` is an executable of ours.
pub async fn spawn(keeper: &Program, spec: ChildSpec) -> Result<Child, SpawnError> {
    handover::check(&spec).map_err(SpawnError::Descriptors)?;
    let program = spec.program.path().to_owned();
    let refused = |message| SpawnError::Refused {
        path: program.clone(),
        message,
    };
    let failed = |error| SpawnError::Keeper {
        path: keeper.path().to_owned(),
        error,
    };

    let (output, input) = std::io::pipe().map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(output.into()).map_err(failed)?;
    let (log, log_reader) =
        LogRing::start(output, &spec.log_file).map_err(|error| SpawnError::LogFile {
            path: spec.log_file.clone(),
            error,
        })?;
    let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
    let process = start_keeper(keeper, theirs, input).map_err(failed)?;

    let ids = identities(&process);
    let (ours, order) = handover::send(spec, &ids.tree, ours).map_err(failed)?;
    let (reports, mut orders) = UnixStream::from_std(ours).map_err(failed)?.into_split();
    let mut progress = watch::start(process, reports, ids.clone());
    let start = async {
        // Not taken: the keeper has ended, which its reports tell better.
        let _ = orders.write_all(&order).await;
        let answer = progress
            .wait_for(|now| now.started.is_some() || now.gone)
            .await;
        answer.map(|now| now.started.clone()).unwrap_or_default()
    };
    let what = match tokio::time::timeout(START_LIMIT, start).await {
        Ok(Some(Ok(child))) => {
            let identities = Identities { child, ..ids };
            return Ok(Child {
                identities,
                log,
                log_reader,
                orders,
                progress,
            });
        }
        Ok(Some(Err(message))) => return Err(refused(message)),
        Ok(None) => "ended at once".to_owned(),
        Err(_) => format!("did not answer within {} s", START_LIMIT.as_secs()),
    };
    log.settle(LOG_LIMIT).await;
    Err(SpawnError::NoAnswer {
        path: program,
        what,
        tail: log.tail(TAIL_LINES),
    })
}

/// Who the keeper is, read before anybody can have reaped it; the child is not known yet.
fn identities(keeper: &tokio::process::Child) -> Identities {
    let pid = keeper.id().unwrap_or_default().cast_signed();
    Identities {
        boot_id: boot_id(),
        tree: ulid::Ulid::generate().to_string(),
        keeper: ProcessId::of(pid).unwrap_or(ProcessId {
            pid,
            start_ticks: 0,
        }),
        child: ProcessId {
            pid: 0,
            start_ticks: 0,
        },
    }
}

/// Starts the keeper with the socket as its standard input and the pipe as its output. Our copies
/// of both are closed on return.
fn start_keeper(
    keeper: &Program,
    control: StdUnixStream,
    output: std::io::PipeWriter,
) -> io::Result<tokio::process::Child> {
    let mut command = std::process::Command::new(keeper.exec_path());
    if !keeper.runs_by_path() {
        command.arg0(keeper.path());
    }
    command
        .args(["engine", "keeper"])
        .stdin(Stdio::from(OwnedFd::from(control)))
        .stdout(output.try_clone()?)
        .stderr(output);
    tokio::process::Command::from(command).spawn()
}
