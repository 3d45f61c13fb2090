//! The built-in agent: the same agent, inside this process, on a loopback port of its own.
//!
//! It is talked to over the same HTTP as any other. What an earlier command left in its state
//! folder is recovered when it opens; collecting that is left to `run::collect`.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use agent::{Agent, AgentConfig, EngineEntry, ModelRoots, OpenError};
use anyhow::Context as _;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::exit::usage;
use crate::fleet::{AgentAddress, LOCAL};

pub use agent::process::Program;

/// What a child of this program does.
pub fn engine_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    agent::engine_main(args)
}

/// The chapters of the engine that is linked.
///
/// # Errors
/// None; a build without the engine has some.
pub fn chapters() -> anyhow::Result<Vec<contracts::host::ChapterFacts>> {
    Ok(agent::chapters())
}

/// The engines that the built-in agent's file names.
///
/// # Errors
/// What is wrong with the file.
pub fn engines(file: Option<&Path>) -> anyhow::Result<Vec<contracts::host::EngineFacts>> {
    let facts = |entry: EngineEntry| contracts::host::EngineFacts {
        kind: entry.kind_word().to_owned(),
        name: entry.name,
        binary_sha256: None,
    };
    Ok(entries(file)?.into_iter().map(facts).collect())
}

fn entries(file: Option<&Path>) -> anyhow::Result<Vec<EngineEntry>> {
    match file {
        Some(file) => agent::config::engines::read(file).map_err(|error| usage(error.to_string())),
        None => Ok(Vec::new()),
    }
}

/// A running built-in agent.
pub struct Local {
    /// Where it is, with a token that only this process knows.
    pub address: AgentAddress,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Local {
    /// Takes the state folder and serves.
    ///
    /// # Errors
    /// The folder is held by another process (exit 3, its pid named) or cannot be used; what is
    /// wrong in `engines`, the file that names engines.
    pub async fn start(
        program: &Program,
        state_dir: &Path,
        engines: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let token = token();
        let config = AgentConfig {
            state_dir: state_dir.to_path_buf(),
            token: Some(token.clone()),
            // The same user as we are: what he can read, he may run.
            model_roots: ModelRoots::Any,
            engines: entries(engines)?,
            program: program.clone(),
            tls: None,
        };
        // Recovery ends processes and reads files: not on the runtime's threads.
        let agent = tokio::task::spawn_blocking(move || Agent::open(config)).await?;
        let agent = agent.map_err(refusal)?;
        let listener = TcpListener::bind("127.0.0.1:0").context("no port on loopback")?;
        let url = format!(
            "http://{}",
            listener.local_addr().context("no port on loopback")?
        );
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(agent.serve(listener, shutdown.clone()));
        let address = AgentAddress {
            name: LOCAL.to_owned(),
            url,
            token: Some(token),
            ca_file: None,
        };
        Ok(Self {
            address,
            shutdown,
            task,
        })
    }

    /// Stops it; a child that still runs is stopped and swept first, within the agent's own bounds.
    pub async fn stop(self) {
        self.shutdown.cancel();
        match self.task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the built-in agent ended with: {error:#}"),
            Err(error) => tracing::warn!("the built-in agent ended with: {error}"),
        }
    }
}

/// Another process owns the state folder, and so the built-in agent.
#[derive(Debug, thiserror::Error)]
#[error(
    "the built-in agent works for the command with pid {pid}: end that with Ctrl-C, or wait until it has ended (`controller run` does, with --wait TIME)"
)]
struct Held {
    pid: u32,
}

fn refusal(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::StateHeld { pid, .. } => Held { pid }.into(),
        error => error.into(),
    }
}

/// Whether [`Local::start`] was refused because another process holds the built-in agent.
pub fn is_held(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Held>().is_some()
}

/// 160 random bits in hex: ULIDs carry 80 each beside their time.
fn token() -> String {
    let mut hash = Sha256::new();
    for _ in 0..2 {
        hash.update(Ulid::generate().to_bytes());
    }
    hex::encode(hash.finalize())
}
