//! Starting a child under its keeper, from the agent.
//!
//! Each keeper has a task of its own that reads its reports and reaps it, so neither a dropped
//! [`Child`] nor a cancelled start leaves a zombie. What happens inside the keeper is
//! [`super::keeper`].

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, pipe};
use tokio::sync::watch;

use super::child::{Child, ExitInfo, LOG_LIMIT, Progress, Swept, force};
use super::identity::{Identities, ProcessId, boot_id};
use super::log::LogRing;
use super::program::Program;
use super::protocol::{
    FD_TARGET_MAX, FD_TARGET_MIN, FDS_MAX, Order, Report, StartOrder, line, send_fds,
};

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
    #[error("log file {}: {source}", path.display())]
    LogFile {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The keeper can't be started or spoken to.
    #[error("start the keeper {}: {source}", path.display())]
    Keeper {
        /// Its executable.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
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
    check_fds(&spec)?;
    let failed = |source| SpawnError::Keeper {
        path: keeper.path().to_owned(),
        source,
    };
    let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
    let (output, input) = std::io::pipe().map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(output.into()).map_err(failed)?;
    let (log, log_reader) =
        LogRing::start(output, &spec.log_file).map_err(|source| SpawnError::LogFile {
            path: spec.log_file.clone(),
            source,
        })?;

    let process = start_keeper(keeper, theirs, input).map_err(failed)?;
    let keeper_pid = process.id().unwrap_or_default().cast_signed();
    // Read while we have not reaped it: the pid is certainly still its own.
    let keeper_id = ProcessId::of(keeper_pid).unwrap_or(ProcessId {
        pid: keeper_pid,
        start_ticks: 0,
    });
    let tree = ulid::Ulid::generate().to_string();

    let (program_path, fds_and_order) = (spec.program.path().to_owned(), order(spec, &tree));
    let sent = send(&ours, &fds_and_order.0);
    drop(fds_and_order.0);
    ours.set_nonblocking(true).map_err(failed)?;
    let (reports, mut orders) = UnixStream::from_std(ours).map_err(failed)?.into_split();
    let (tell, mut progress) = watch::channel(Progress::default());
    let ids = Identities {
        boot_id: boot_id(),
        tree,
        keeper: keeper_id,
        // Known once it has started; until then an identity that nothing can have.
        child: ProcessId {
            pid: 0,
            start_ticks: 0,
        },
    };
    tokio::spawn(watch_keeper(process, reports, tell, ids.clone()));
    sent.map_err(failed)?;
    let start = async {
        // A keeper that has ended can't be written to; its reports say more than EPIPE would.
        let _ = orders.write_all(&fds_and_order.1).await;
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
        Ok(Some(Err(message))) => {
            return Err(SpawnError::Refused {
                path: program_path,
                message,
            });
        }
        Ok(None) => "ended at once".to_owned(),
        Err(_) => format!("did not answer within {} s", START_LIMIT.as_secs()),
    };
    log.settle(LOG_LIMIT).await;
    Err(SpawnError::NoAnswer {
        path: program_path,
        what,
        tail: log.tail(TAIL_LINES),
    })
}

fn check_fds(spec: &ChildSpec) -> Result<(), SpawnError> {
    let mut numbers: Vec<RawFd> = spec.fds.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    let refuse = |text: String| Err(SpawnError::Descriptors(text));
    if let Some(bad) = numbers
        .iter()
        .find(|n| !(FD_TARGET_MIN..=FD_TARGET_MAX).contains(*n))
    {
        return refuse(format!(
            "number {bad} is not between {FD_TARGET_MIN} and {FD_TARGET_MAX}"
        ));
    }
    if let Some(bad) = numbers.windows(2).find(|pair| pair.first() == pair.last()) {
        return refuse(format!("number {:?} is used twice", bad.first()));
    }
    if 1 + spec.fds.len() + spec.keep.len() > FDS_MAX {
        return refuse(format!("at most {} can be passed on", FDS_MAX - 1));
    }
    Ok(())
}

/// Starts the keeper with the socket as its standard input and the pipe as its output. Our copies
/// of both are closed on return.
fn start_keeper(
    keeper: &Program,
    control: StdUnixStream,
    output: std::io::PipeWriter,
) -> io::Result<tokio::process::Child> {
    let mut command = std::process::Command::new(keeper.exec_path());
    if !keeper.is_script() {
        command.arg0(keeper.path());
    }
    command
        .args(["engine", "keeper"])
        .stdin(Stdio::from(OwnedFd::from(control)))
        .stdout(output.try_clone()?)
        .stderr(output);
    tokio::process::Command::from(command).spawn()
}

/// Descriptors and the order's line.
type FdsAndOrder = (Descriptors, Vec<u8>);

/// What is passed on, in the order that [`StartOrder`] names.
struct Descriptors {
    program: Program,
    given: Vec<OwnedFd>,
    keep: Vec<OwnedFd>,
}

fn order(spec: ChildSpec, tree: &str) -> FdsAndOrder {
    let bytes = |items: Vec<OsString>| items.into_iter().map(OsString::into_vec).collect();
    let (given, targets) = spec.fds.into_iter().unzip();
    let start = StartOrder {
        tree: tree.to_owned(),
        by_path: spec.program.is_script().then(|| spec.program.arg0()),
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
    // Bytes, numbers and strings: this can't fail to become JSON.
    (descriptors, line(&Order::Start(start)).unwrap_or_default())
}

fn send(socket: &StdUnixStream, fds: &Descriptors) -> io::Result<()> {
    let mut raw = vec![fds.program.fd().as_raw_fd()];
    raw.extend(fds.given.iter().chain(&fds.keep).map(AsRawFd::as_raw_fd));
    send_fds(socket, &raw)
}

/// Turns reports into [`Progress`] until the keeper has closed its socket, then reaps it. A keeper
/// that ends without its last report was killed: what it left is ended from here.
async fn watch_keeper(
    mut keeper: tokio::process::Child,
    reports: OwnedReadHalf,
    progress: watch::Sender<Progress>,
    mut ids: Identities,
) {
    let mut lines = BufReader::new(reports).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        match serde_json::from_str(&text) {
            Ok(report) => {
                if let Report::Started { pid } = report {
                    // Gone and reaped already: then no process can match, as it should be.
                    ids.child = ProcessId::of(pid).unwrap_or(ProcessId {
                        pid,
                        start_ticks: 0,
                    });
                }
                progress.send_modify(|now| note(now, report, ids.child));
            }
            Err(error) => tracing::warn!("a report of the keeper can't be read: {error}"),
        }
    }
    if let Err(error) = keeper.wait().await {
        tracing::warn!("the keeper could not be waited for: {error}");
    }
    let known = progress.borrow().clone();
    if let (Some(Ok(_)), None) = (&known.started, known.swept) {
        // Its child got the parent death signal; the mark finds what escaped.
        let clean = force(ids).await;
        progress.send_modify(|now| {
            now.exit.get_or_insert(ExitInfo::default());
            now.swept = Some(Swept {
                killed: true,
                swept: 0,
                clean,
            });
        });
    }
    progress.send_modify(|now| now.gone = true);
}

fn note(now: &mut Progress, report: Report, child: ProcessId) {
    match report {
        Report::Started { .. } => now.started = Some(Ok(child)),
        Report::Failed { message } => now.started = Some(Err(message)),
        Report::Exited {
            code,
            signal,
            rss_bytes_max,
        } => {
            now.exit = Some(ExitInfo { code, signal });
            now.rss_bytes_max = Some(rss_bytes_max);
        }
        Report::Swept {
            killed,
            swept,
            clean,
        } => {
            now.swept = Some(Swept {
                killed,
                swept,
                clean,
            });
        }
    }
}
