//! Starting the child of a run: its command line, its descriptors, its log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use contracts::run::{Device, Mode, RunSpec, Stage};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use super::foreign::{HOST, ServerCommand, dtype_word};
use super::machine;
use super::offline_job::offline_job;
use super::prepare;
use super::record::Record;
use super::resolve::{Engine, Resolved};
use super::story::{Failure, Run};
use crate::load::OfflineWatch;
use crate::process::{self, Child, ChildSpec, port};
use crate::state::Current;

/// Where the server finds its listening socket, the worker its job, and where it reports.
const LISTEN_FD: i32 = 3;
const JOB_FD: i32 = 4;
const REPORT_FD: i32 = 5;
/// Secrets of the agent that its children have no use for.
const SECRETS: [&str; 2] = ["CHAPTERBENCH_TOKEN", "CHAPTERBENCH_TOKEN_FILE"];

/// How the child is reached.
pub(super) enum Link {
    /// Over HTTP.
    Online {
        /// Its socket's address.
        addr: SocketAddr,
        /// The id it must show.
        instance: String,
    },
    /// Over HTTP, a server of others.
    Server {
        /// Where it was told to listen.
        addr: SocketAddr,
        /// Path of the page that says that it is ready.
        health: String,
        /// The model's name in requests; none asks it.
        served_name: Option<String>,
    },
    /// By the lines it reports.
    Offline {
        /// Read end of its report pipe.
        report: OwnedFd,
        /// What it was asked.
        watch: OfflineWatch,
    },
}

/// A child that was just started.
pub(super) struct Launched {
    pub child: Child,
    pub link: Link,
    /// When its start began.
    pub spawned: Instant,
}

impl Link {
    /// The address that must refuse once the child is gone.
    pub fn addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Online { addr, .. } | Self::Server { addr, .. } => Some(*addr),
            Self::Offline { .. } => None,
        }
    }
}

/// Starts the child with the device's lock in its keeper's hands, and writes down who it is.
pub(super) async fn spawn(run: &Run, lock: OwnedFd) -> Result<Launched, Failure> {
    let spec = run.active.record.status().spec;
    let prepared = run.guarded(None, prepare::prepare(run)).await?;
    let mut known = prepared.provenance;

    let mut child_spec = ChildSpec::new(prepared.program, run.folder.log_file());
    child_spec.env_remove = SECRETS.map(OsString::from).to_vec();
    child_spec.keep = vec![lock];
    let link = match (&run.resolved.engine, spec.arm.mode) {
        (Engine::Ours { chapter, .. }, Mode::Online) => {
            online(&mut child_spec, &spec, chapter, &run.resolved.model)
        }
        (Engine::Ours { chapter, .. }, Mode::Offline) => {
            offline(&mut child_spec, &spec, chapter, &run.resolved).await
        }
        (Engine::Server(command), _) => server(&mut child_spec, command),
        (Engine::Url { .. }, _) => Err(anyhow::anyhow!("a server that runs is not started")),
    };
    let link = link.map_err(|error| run.failed(format!("{error:#}")))?;
    if let Engine::Server(command) = &run.resolved.engine {
        known.command = command_line(&command.program, &child_spec.args);
    }
    super::ready::begin_provenance(run, known);
    let looked = async {
        machine::before(run).await;
        Ok(())
    };
    run.guarded(None, looked).await?;
    let spawned = Instant::now();
    let child = process::spawn(&run.bench.config.program, child_spec).await;
    let child = child.map_err(|error| run.failed(error.to_string()))?;

    let current = Current {
        run_id: run.active.id.to_string(),
        stage: Stage::Load,
        identities: Some(child.identity().clone()),
    };
    if let Err(error) = run.bench.state.set_current(&current) {
        // Dropping the child ends it: nothing may run that the next agent could not find.
        return Err(run.failed(format!("the state folder: {error}")));
    }
    Ok(Launched {
        child,
        link,
        spawned,
    })
}

/// The child's lines become events of the run, also those it wrote before it was known to be up.
pub(super) fn forward_log(child: &Child, record: Arc<Record>) -> AbortHandle {
    let (so_far, mut lines) = child.log().follow();
    for line in so_far {
        record.log(&line);
    }
    tokio::spawn(async move {
        loop {
            match lines.recv().await {
                Ok(line) => record.log(&line),
                // All of them are in the log file; these lines are for people who watch.
                Err(RecvError::Lagged(missed)) => {
                    record.log(&format!("({missed} lines not shown)"))
                }
                Err(RecvError::Closed) => return,
            }
        }
    })
    .abort_handle()
}

/// A server of others opens its port by itself. The port is free as late as can be known; should
/// somebody take it in between, the server says so and dies.
fn server(child: &mut ChildSpec, command: &ServerCommand) -> anyhow::Result<Link> {
    let port = port::free_port(HOST).context("find a port for the server")?;
    let addr = SocketAddr::new(HOST, port);
    let filled = command.filled(port);
    child.args = filled.args.into_iter().map(OsString::from).collect();
    child.env = filled.env;
    child.cwd = command.entry.cwd.clone();
    Ok(Link::Server {
        addr,
        health: command.entry.health.clone(),
        served_name: command.served_name(port),
    })
}

/// As it is started, and without the variables, which may hold keys.
fn command_line(program: &Path, args: &[OsString]) -> Vec<String> {
    let words = std::iter::once(program.as_os_str()).chain(args.iter().map(OsString::as_os_str));
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn online(
    child: &mut ChildSpec,
    spec: &RunSpec,
    chapter: &str,
    model: &str,
) -> anyhow::Result<Link> {
    let (listener, addr) = port::listen_for_child().context("open a port for the server")?;
    child.fds.push((listener, LISTEN_FD));
    let instance = ulid::Ulid::generate().to_string();
    child.args = serve_args(spec, chapter, model, &instance);
    Ok(Link::Online { addr, instance })
}

fn serve_args(spec: &RunSpec, chapter: &str, model: &str, instance: &str) -> Vec<OsString> {
    let mut args: Vec<String> = ["engine", "serve", "--chapter", chapter, "--model", model]
        .map(str::to_owned)
        .to_vec();
    let mut flag = |name: &str, value: String| args.extend([name.to_owned(), value]);
    if let Some(dtype) = spec.arm.dtype {
        flag("--dtype", dtype_word(dtype).to_owned());
    }
    flag("--device", device_word(spec.arm.device));
    if let Some(threads) = spec.arm.threads {
        flag("--threads", threads.to_string());
    }
    for (key, value) in &spec.arm.options {
        flag("--option", format!("{key}={value}"));
    }
    flag("--listen-fd", LISTEN_FD.to_string());
    flag("--instance", instance.to_owned());
    args.into_iter().map(OsString::from).collect()
}

async fn offline(
    child: &mut ChildSpec,
    spec: &RunSpec,
    chapter: &str,
    resolved: &Resolved,
) -> anyhow::Result<Link> {
    let (spec, chapter) = (spec.clone(), chapter.to_owned());
    let (model, text) = (resolved.model.clone(), resolved.text.clone());
    // Prompts that must be made take a while: not on a thread that answers others.
    let made = tokio::task::spawn_blocking(move || {
        let (job, watch) = offline_job(&spec, &chapter, &model, text)?;
        anyhow::Ok((serde_json::to_vec(&job)?, watch))
    });
    let (job, watch) = made.await??;
    let (report, theirs) = std::io::pipe().context("open a pipe for the worker's report")?;
    child.fds.push((
        memory_file(&job).context("hand the job to the worker")?,
        JOB_FD,
    ));
    child.fds.push((theirs.into(), REPORT_FD));
    child.args = [
        "engine",
        "offline",
        "--job-fd",
        &JOB_FD.to_string(),
        "--report-fd",
        &REPORT_FD.to_string(),
    ]
    .map(OsString::from)
    .to_vec();
    Ok(Link::Offline {
        report: report.into(),
        watch,
    })
}

/// A file in memory: a job may be larger than what a pipe holds before anybody reads.
fn memory_file(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let mut file = File::from(memfd_create(c"chapterbench-job", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

fn device_word(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda { index } => format!("cuda:{index}"),
        Device::Metal { index } => format!("metal:{index}"),
    }
}

#[cfg(test)]
mod tests {
    use contracts::run::Dtype;

    use super::*;
    use crate::run::testing::fake_spec;

    #[test]
    fn the_servers_command_line_is_the_contracts() {
        let mut spec = fake_spec();
        spec.arm.dtype = Some(Dtype::Bf16);
        spec.arm.device = Device::Cuda { index: 1 };
        spec.arm.threads = Some(4);
        spec.arm
            .options
            .insert("ttft_ms".to_owned(), "5".to_owned());
        let args = serve_args(&spec, "ch02", "/m", "ID");
        let line = args
            .iter()
            .map(|arg| arg.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        insta::assert_snapshot!(line, @"engine serve --chapter ch02 --model /m --dtype bf16 --device cuda:1 --threads 4 --option ttft_ms=5 --listen-fd 3 --instance ID");
    }
}
