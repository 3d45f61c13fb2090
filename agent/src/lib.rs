//! The agent: runs engines on its host and measures them, one run at a time, on order over HTTP.
//!
//! [`Agent`] is the whole of it, for `agent`'s own `main` and for the controller, which starts one
//! inside itself. [`engine_main`] is what a child does. The agent has no SQL and compares nothing.
//!
//! | room | what it holds |
//! |---|---|
//! | [`config`] | settings and `engines.toml` |
//! | `state`, `spool` | the folder on disk: lock, ids, run in progress; what was measured |
//! | `api` | HTTP |
//! | `run` | the story of one run |
//! | [`process`] | children: start, ready, stop, sweep |
//! | [`calibrate`] | the error of [`load`] itself on this host |
//! | [`prompts`] | what each request says |
//! | [`load`] | requests and their instants |
//! | [`metronome`] | a server on a known schedule, to measure [`load`] with |
//! | [`doctor`] | what a server does |
//! | `blot` | secrets kept out of what is shown and stored |
//! | [`host`] | the machine |

mod api;
mod blot;
pub mod calibrate;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod host;
pub mod load;
pub mod metronome;
pub mod process;
pub mod prompts;
mod run;
mod spool;
mod state;

use std::ffi::OsString;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use contracts::host::ChapterFacts;
use contracts::run::Stage;
use tokio_util::sync::CancellationToken;

pub use config::{AgentConfig, EngineEntry, ModelRoots, TlsFiles};
use run::Bench;
use spool::Spool;
pub use state::OpenError;
use state::StateDir;

/// An agent that owns its state folder and is ready to serve.
pub struct Agent {
    bench: Arc<Bench>,
}

impl Agent {
    /// Takes the state folder, ends what a dead agent left running, and fails the run it had.
    ///
    /// # Errors
    /// [`OpenError::StateHeld`] if another agent owns the folder; else what is wrong with it.
    pub fn open(config: AgentConfig) -> Result<Self, OpenError> {
        let state = StateDir::open(&config.state_dir)?;
        let spool = Spool::new(state.runs_dir());
        recover(&state, &spool)?;
        Ok(Self {
            bench: Arc::new(Bench::new(config, state, spool, host::facts())),
        })
    }

    /// Stable over restarts, as `/v1/host` gives it.
    pub fn id(&self) -> &str {
        self.bench.state.agent_id()
    }

    /// Serves on `listener` until `shutdown` fires; then the run in progress is ended, swept and
    /// spooled before this returns.
    ///
    /// # Errors
    /// A listener beyond loopback without a token; a certificate that cannot be used; the socket.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let addr = listener.local_addr().context("the listening socket")?;
        config::settings::require_token(addr, self.bench.config.token.as_deref())?;
        api::server::serve(self.bench, listener, shutdown).await
    }
}

/// What `EXE engine …` does, given what follows the word `engine`: the keeper, the metronome, else
/// an engine.
pub fn engine_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args.peekable();
    if args.next_if(|word| word == "keeper").is_some() {
        return process::keeper_main(args);
    }
    if args.next_if(|word| word == metronome::COMMAND).is_some() {
        return metronome::main(args);
    }
    engine::cli::run(args)
}

/// The chapters of the engine that is linked, as `/v1/host` gives them.
pub fn chapters() -> Vec<ChapterFacts> {
    let facts = |chapter: &engine::chapters::Chapter| ChapterFacts {
        id: chapter.id.to_owned(),
        title: chapter.title.to_owned(),
        adds: chapter.adds.to_owned(),
        streams: chapter.streams,
        same_tokens: chapter.same_tokens,
        hidden: chapter.hidden,
    };
    engine::chapters::TABLE.iter().map(facts).collect()
}

fn recover(state: &StateDir, spool: &Spool) -> Result<(), OpenError> {
    let io = |error| OpenError::Io {
        path: state.runs_dir(),
        error,
    };
    let current = state.current()?;
    if let Some(identities) = current
        .as_ref()
        .and_then(|current| current.identities.as_ref())
    {
        let leftover = process::kill_leftover(identities);
        if leftover.left > 0 {
            let reason = format!(
                "{} processes of an earlier agent could not be ended: {identities:?}",
                leftover.left
            );
            state.set_quarantine(&reason).map_err(io)?;
        }
    }
    let running: Option<(&str, Stage)> = current
        .as_ref()
        .map(|current| (current.run_id.as_str(), current.stage));
    for id in spool.recover(running, run::now_unix_ms()).map_err(io)? {
        tracing::warn!(run = %id, "the agent before this one ended in this run; it is reported as failed");
    }
    state.clear_current().map_err(io)
}
