//! The command line of `agent`: reads settings, opens the agent, serves until a signal.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::api::server::tls_config;
use crate::config::settings::{Flags, Settings, UserDirs, resolve};
use crate::process::Program;
use crate::{Agent, AgentConfig, OpenError};

/// Exit codes, as all programs here have them.
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const REFUSED: u8 = 3;
const INTERRUPTED: u8 = 130;

/// Runs inference engines on this host and measures them, on order of a controller.
///
/// Each setting: flag, else environment variable, else agent.toml, else default.
#[derive(Debug, Parser)]
#[command(name = "agent", version)]
struct Args {
    /// Address to listen on; port 0 takes a free one. Beyond this machine a token is required
    /// [CHAPTERBENCH_LISTEN] [default: 127.0.0.1:7070]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// File with the token that callers must show, at least 16 characters; or set
    /// CHAPTERBENCH_TOKEN [CHAPTERBENCH_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Folder for the agent's id, its lock and results not yet collected [CHAPTERBENCH_STATE_DIR]
    /// [default: chapterbench/agent in the user's state folder]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Folder whose models may be used; repeatable. Hub ids and dummy:NAME always may
    /// [CHAPTERBENCH_MODEL_ROOT]
    #[arg(long = "model-root", value_name = "DIR")]
    model_roots: Vec<PathBuf>,
    /// File that names engines [CHAPTERBENCH_ENGINES] [default: engines.toml in the user's
    /// configuration folder, if it is there]
    #[arg(long, value_name = "FILE")]
    engines: Option<PathBuf>,
    /// Certificate chain (PEM), for TLS [CHAPTERBENCH_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM), for TLS [CHAPTERBENCH_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Settings file [CHAPTERBENCH_AGENT_CONFIG] [default: agent.toml in the user's configuration
    /// folder, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The whole program: `agent [flags]`, or `agent engine …` as a child of an agent.
///
/// `program` opens this process's executable. It is called for an agent only: a keeper must not
/// have a descriptor open where its child's will be.
pub fn run(
    args: impl Iterator<Item = OsString>,
    program: impl FnOnce() -> std::io::Result<Program>,
) -> ExitCode {
    let mut args = args.peekable();
    let name = args.next();
    if args.next_if(|word| word == "engine").is_some() {
        return crate::engine_main(args);
    }
    let args = match Args::try_parse_from(name.into_iter().chain(args)) {
        Ok(args) => args,
        Err(error) => {
            return engine::cli::refuse(&error);
        }
    };
    start_log();
    match serve(args, program()) {
        Ok(code) => code,
        Err((code, error)) => {
            let _ = writeln!(std::io::stderr(), "agent: {error:#}");
            ExitCode::from(code)
        }
    }
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CHAPTERBENCH_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

type Ending = Result<ExitCode, (u8, anyhow::Error)>;

fn serve(args: Args, program: std::io::Result<Program>) -> Ending {
    let program = program
        .context("open this executable")
        .map_err(|error| (FAILED, error))?;
    let settings = resolve(
        flags(args),
        |name| std::env::var_os(name),
        &UserDirs::of_this_user(),
    )
    .map_err(|error| (USAGE, error.into()))?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")
        .map_err(|error| (FAILED, error))?;
    runtime.block_on(open_and_serve(settings, program))
}

fn flags(args: Args) -> Flags {
    Flags {
        config: args.config,
        listen: args.listen,
        token_file: args.token_file,
        state_dir: args.state_dir,
        model_roots: args.model_roots,
        engines: args.engines,
        tls_cert: args.tls_cert,
        tls_key: args.tls_key,
    }
}

async fn open_and_serve(settings: Settings, program: Program) -> Ending {
    let failed = |error: anyhow::Error| (FAILED, error);
    // Signals first: one that comes while the agent opens must not kill it half way.
    let mut interrupt = listen_for(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = listen_for(SignalKind::terminate()).map_err(failed)?;
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let listen = settings.listen;
    let tls = settings.tls.clone();
    let config = AgentConfig {
        state_dir: settings.state_dir,
        token: settings.token,
        model_roots: settings.model_roots,
        engines: settings.engines,
        program,
        tls: settings.tls,
    };
    let agent = Agent::open(config).map_err(|error| {
        let code = if matches!(error, OpenError::StateHeld { .. }) {
            REFUSED
        } else {
            FAILED
        };
        (code, error.into())
    })?;
    if let Some(files) = &tls {
        // Looked at before the address is told: who reads it may call at once.
        tls_config(files).await.map_err(|error| (USAGE, error))?;
    }
    let (listener, addr) = bind(listen).map_err(failed)?;
    let _ = writeln!(
        std::io::stderr(),
        "agent {} listens on {scheme}://{addr}",
        agent.id()
    );

    let shutdown = CancellationToken::new();
    let mut serving = std::pin::pin!(agent.serve(listener, shutdown.clone()));
    let code = tokio::select! {
        served = &mut serving => return served.map(|()| ExitCode::SUCCESS).map_err(failed),
        _ = interrupt.recv() => ExitCode::from(INTERRUPTED),
        _ = terminate.recv() => ExitCode::SUCCESS,
    };
    shutdown.cancel();
    serving.await.map_err(failed)?;
    Ok(code)
}

fn listen_for(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("listen for signals")
}

fn bind(listen: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow::anyhow!(
            "--listen {listen}: a program listens there already; stop it, or name another port (0 takes a free one)"
        ),
        _ => anyhow::anyhow!("--listen {listen}: {error}"),
    })?;
    let addr = listener.local_addr()?;
    Ok((listener, addr))
}
