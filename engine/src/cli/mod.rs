//! The command line `engine generate|serve|offline|chapters`, also what the agent starts as a child.
//!
//! Results go to stdout, logs to stderr. Exit codes: 0 done, 1 failed, 2 usage or bad input. An
//! error is one line that names what is wrong.

mod args;
mod chapters;
mod fd;
mod generate;
mod offline;
mod serve;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use contracts::host::BuildFacts;
use tracing_subscriber::EnvFilter;

use crate::error::EngineError;

pub use args::parse_device;

/// Exit code of a command that was asked something that cannot be.
const USAGE: u8 = 2;

/// Inference engines in chapters: ask one, serve one.
#[derive(Debug, Parser)]
#[command(name = "engine", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer one prompt
    Generate(generate::Args),
    /// Serve a chapter over OpenAI's HTTP API
    Serve(serve::Args),
    /// Run a job from a descriptor and report on another (what an agent starts)
    #[command(hide = true)]
    Offline(offline::Args),
    /// List the chapters
    Chapters(chapters::Args),
}

/// Why a command ends early.
#[derive(Debug)]
enum Failure {
    /// Exit code 2, one line.
    Usage(String),
    /// Exit code 1, one line.
    Failed(String),
    /// Who read our output went away (`| head`): nothing to say, nobody to say it to.
    OutputClosed,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::BadInput { .. }
            | EngineError::ContextTooLong { .. }
            | EngineError::Unsupported { .. } => Self::Usage(message),
            EngineError::Model { .. } | EngineError::Stopping | EngineError::Internal(_) => {
                Self::Failed(message)
            }
        }
    }
}

/// Writing results to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("cannot write to stdout: {error}")),
        }
    }
}

/// Runs a command; `args` are those after the word `engine`.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    if let Some((index, arg)) = args
        .iter()
        .enumerate()
        .find(|(_, arg)| arg.to_str().is_none())
    {
        let shown = arg.to_string_lossy();
        return report(Failure::Usage(format!(
            "argument {} is not UTF-8: {shown:?}",
            index + 1
        )));
    }
    let words = std::iter::once(OsString::from("engine")).chain(args);
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    log_to_stderr();
    let outcome = match cli.command {
        Command::Generate(args) => generate::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Offline(args) => offline::run(args),
        Command::Chapters(args) => chapters::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(failure),
    }
}

/// What clap said: help and version for stdout, a wrong command line as one line on stderr.
/// Also the agent's answer to a wrong command line of its own.
pub fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        // A closed stream is no failure.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
    }
    let text = error.render().to_string();
    let told: Vec<String> = text
        .split("\n\n")
        .filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"))
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    eprintln!("{}", told.join("; "));
    ExitCode::from(USAGE)
}

fn report(failure: Failure) -> ExitCode {
    let (code, message) = match failure {
        Failure::OutputClosed => return ExitCode::SUCCESS,
        Failure::Usage(message) => (USAGE, message),
        Failure::Failed(message) => (1, message),
    };
    // Causes of others may have several lines; ours is one.
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("error: {line}");
    ExitCode::from(code)
}

/// `RUST_LOG` decides if it is set. A binary that logs already keeps its own.
fn log_to_stderr() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,engine=info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .try_init();
}

/// What this engine was built from.
pub fn build_facts() -> BuildFacts {
    let features = [
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(feature = "metal")),
    ];
    BuildFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("CHAPTERBENCH_COMMIT").to_owned(),
        profile: if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
        .to_owned(),
        features: features
            .iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| (*name).to_owned())
            .collect(),
    }
}
