//! The command line: what can be asked, and which file answers it.
//!
//! Results go to stdout, all else to stderr; exit codes are in `exit`.

mod agents;
mod calibrate;
mod cancel;
mod chapters;
mod compare;
mod config;
mod connect;
mod db;
mod doctor;
mod dry_run;
mod history;
mod inputs;
mod measure;
mod plan_words;
mod resume;
mod run;
mod runs;
mod secrets;
mod workload;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum as _};

use crate::config::Config;
use crate::exit::{self, Exit};
use crate::local::Program;
use crate::run::interrupt;
use crate::show::Format;
use crate::{out, values};

/// Measures LLM inference engines on this host and others, and says which one is faster.
#[derive(Debug, Parser)]
#[command(name = "controller", version, arg_required_else_help = true)]
struct Cli {
    /// Database file [default: chapterbench/bench.db in the user's data directory]
    #[arg(long, global = true, value_name = "FILE")]
    db: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bench chapters or engines and store every number
    Run(Box<run::Args>),
    /// Compare sides of what is stored
    Compare(compare::Args),
    /// Runs over time and builds, and the steps where their level changed
    History(history::Args),
    /// List, show, export, import or delete what is stored
    Runs(Box<runs::Args>),
    /// The database as a file: check it, copy it
    Db(db::Args),
    /// The list of agents: add, list, check, remove
    Agents(agents::Args),
    /// The chapters that can be run
    Chapters(chapters::Args),
    /// Measure the bench's own error and noise on a host
    Calibrate(Box<calibrate::Args>),
    /// What a server of others does, and how its tokens can be counted
    Doctor(doctor::Args),
    /// End a run on its agent, keeping what was measured
    Cancel(cancel::Args),
    /// Collect runs that an interrupted command left on agents
    Resume(resume::Args),
    /// Print each setting and where it comes from
    Config(config::Args),
}

/// What every command has at hand.
pub(crate) struct Context {
    config: Config,
    /// `--db`, as given: it is repeated in the commands that we propose.
    db_flag: Option<PathBuf>,
    db: PathBuf,
    program: Program,
}

impl Context {
    fn format(&self, flag: Option<Format>) -> anyhow::Result<Format> {
        self.config.required("format", flag, |word| {
            Format::from_str(word, false).map_err(|_| "use text, json or markdown".to_owned())
        })
    }
}

/// Reads the command line and does what it says.
pub fn main(args: impl Iterator<Item = OsString>, program: Program) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => return complain(&not_utf8(&args)),
        Err(error) => return refuse(&error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return complain(&anyhow::Error::new(error).context("no runtime")),
    };
    init_log();
    match runtime.block_on(dispatch(cli, program)) {
        Ok(exit) => exit.into(),
        Err(error) => complain(&error),
    }
}

async fn dispatch(cli: Cli, program: Program) -> anyhow::Result<Exit> {
    let config = Config::load()?;
    let db_flag = cli.db;
    let db = config.required("db", db_flag.clone(), |word| {
        values::text(word).map(PathBuf::from)
    })?;
    let context = Context {
        config,
        db_flag,
        db,
        program,
    };
    match cli.command {
        Command::Run(args) => run::run(&context, *args).await,
        Command::Compare(args) => until_stopped(compare::run(&context, args)).await,
        Command::History(args) => history::run(&context, args).await,
        Command::Runs(args) => runs::run(&context, *args).await,
        Command::Db(args) => until_stopped(db::run(&context, args)).await,
        Command::Agents(args) => agents::run(&context, args).await,
        Command::Chapters(args) => chapters::run(&context, args).await,
        Command::Calibrate(args) => calibrate::run(&context, *args).await,
        Command::Doctor(args) => doctor::run(&context, args).await,
        Command::Cancel(args) => cancel::run(&context, args).await,
        Command::Resume(args) => resume::run(&context, args).await,
        Command::Config(args) => config::run(&context, args),
    }
}

/// Work that keeps files for a while: where the user ends it, they go away with it. A process that
/// dies of the signal would leave them.
async fn until_stopped(work: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let stopped = interrupt::listen()?;
    tokio::select! {
        done = work => done,
        () = stopped.cancelled() => Ok(Exit::Interrupted),
    }
}

/// Logs of libraries and of the built-in agent: warnings, or what `RUST_LOG` says.
fn init_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

fn complain(error: &anyhow::Error) -> ExitCode {
    let line = one_line(&format!("{error:#}"));
    let line = out::harmless(&line);
    // Where stderr is closed, the exit code still tells.
    let _ = writeln!(std::io::stderr(), "error: {line}");
    exit::of(error).into()
}

/// Clap says only that there is one.
fn not_utf8(args: &[OsString]) -> anyhow::Error {
    // The program's own name is argument 0.
    let found = args.iter().position(|arg| arg.to_str().is_none());
    let place = found.unwrap_or_default();
    let arg = args.get(place).map(|arg| arg.to_string_lossy());
    exit::usage(format!(
        "argument {place} is not UTF-8: {:?}",
        arg.unwrap_or_default()
    ))
}

/// Help and version go to stdout; a wrong command line is one line, exit 2.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match out::print(&error.render().to_string()) {
            Ok(()) => Exit::Done.into(),
            Err(error) => complain(&error),
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = write!(std::io::stderr(), "{}", error.render());
        return Exit::Usage.into();
    }
    let _ = writeln!(std::io::stderr(), "error: {}", told(error));
    Exit::Usage.into()
}

/// What clap has to say, on one line and without the usage.
fn told(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let told = text.split("\n\n").filter(|part| {
        !part.trim_start().starts_with("Usage:") && !part.starts_with("For more information")
    });
    let told: Vec<String> = told.map(one_line).collect();
    told.join("; ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests;
