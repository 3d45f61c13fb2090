//! `controller runs`: list, show and export what is stored.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{Context, connect};
use crate::exit::{Exit, Refusal, usage};
use crate::export::Export;
use crate::record::RunRecord;
use crate::selector::Selector;
use crate::show::{self, Format};
use crate::store::{RunFilter, Store, StoreError};
use crate::{export, out};

/// Runs listed unless `--limit` says otherwise: what is still read at a glance.
const LIST_LIMIT: u32 = 50;

/// Flags of `runs`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List runs, the newest last
    List(List),
    /// One run in full
    Show {
        /// The run, by any unique prefix of its id
        run: String,
        /// Every request too
        #[arg(long)]
        samples: bool,
        /// text, json or markdown [default: text]
        #[arg(long)]
        format: Option<Format>,
    },
    /// Runs with every raw record, for other programs
    Export {
        /// Which runs, as `compare` selects them [default: all]
        selectors: Vec<String>,
        /// json: all there is; csv: a row a request
        #[arg(long, default_value = "json")]
        format: ExportFormat,
        /// Write here instead of to stdout
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Default, ClapArgs)]
struct List {
    /// Only these, as `compare` selects them
    selectors: Vec<String>,
    /// Only the newest so many [default: 50]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// What an export is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// All there is.
    Json,
    /// A row for each request.
    Csv,
}

/// The command.
///
/// # Errors
/// Usage, the database, a file that cannot be written.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let list = || List {
        format: args.format,
        ..List::default()
    };
    match args.command.unwrap_or_else(|| Command::List(list())) {
        Command::List(list) => {
            let format = context.format(list.format)?;
            let store = connect::open_for_reading(context).await?;
            let limit = list.limit.unwrap_or(LIST_LIMIT);
            let runs = if list.selectors.is_empty() {
                newest(&store, limit).await?
            } else {
                let mut runs = select(&store, &list.selectors).await?;
                runs.drain(..runs.len().saturating_sub(limit as usize));
                runs
            };
            store.close().await;
            out::print(&show::runs::render(&runs, format)?)?;
        }
        Command::Show {
            run,
            samples,
            format,
        } => {
            let format = context.format(format)?;
            let store = connect::open_for_reading(context).await?;
            let run = store.run_by_prefix(&run).await?;
            let events = store.events(&run.run_id).await?;
            let run = if samples {
                store.with_samples(run).await?
            } else {
                store.with_figures(run).await?
            };
            store.close().await;
            out::print(&show::run::render(&run, &events, samples, format)?)?;
        }
        Command::Export {
            selectors,
            format,
            output,
        } => {
            let store = connect::open_for_reading(context).await?;
            let runs = select(&store, &selectors).await?;
            let exported = export_to(&store, &runs, format, output.as_deref()).await;
            store.close().await;
            exported?;
        }
    }
    Ok(Exit::Done)
}

/// The newest so many of all runs, oldest first.
async fn newest(store: &Store, limit: u32) -> Result<Vec<RunRecord>, StoreError> {
    let filter = RunFilter {
        limit: Some(limit),
        ..RunFilter::default()
    };
    store.runs(&filter).await
}

/// Runs that any of the selectors means, oldest first; all of them where there is no selector.
async fn select(store: &Store, selectors: &[String]) -> anyhow::Result<Vec<RunRecord>> {
    let mut runs = store.runs(&RunFilter::default()).await?;
    if selectors.is_empty() {
        return Ok(runs);
    }
    let mut wanted = Vec::new();
    for word in selectors {
        let selector = Selector::parse(word).map_err(|error| usage(error.to_string()))?;
        let selected = selector.select(&runs).map_err(|error| Refusal {
            exit: Exit::Failed,
            message: error.to_string(),
        })?;
        wanted.extend(selected.into_iter().map(|run| run.run_id.clone()));
    }
    runs.retain(|run| wanted.contains(&run.run_id));
    Ok(runs)
}

async fn export_to(
    store: &Store,
    runs: &[RunRecord],
    format: ExportFormat,
    output: Option<&Path>,
) -> anyhow::Result<()> {
    match output {
        Some(path) => {
            let name = || format!("--output {}", path.display());
            let file = std::fs::File::create(path).with_context(name)?;
            write_export(store, runs, format, file)
                .await
                .with_context(name)
        }
        None => match write_export(store, runs, format, std::io::stdout()).await {
            Err(error) if is_broken_pipe(&error) => Ok(()),
            written => written.context("stdout"),
        },
    }
}

async fn write_export(
    store: &Store,
    runs: &[RunRecord],
    format: ExportFormat,
    sink: impl Write,
) -> anyhow::Result<()> {
    let sink = BufWriter::new(sink);
    match format {
        ExportFormat::Json => write_runs(store, runs, export::Json::new(sink)?).await,
        ExportFormat::Csv => write_runs(store, runs, export::Csv::new(sink)?).await,
    }
}

async fn write_runs(
    store: &Store,
    runs: &[RunRecord],
    mut export: impl Export,
) -> anyhow::Result<()> {
    for run in runs {
        export.run(run)?;
        let written = store.each_sample(&run.run_id, |sample| export.sample(&sample));
        written.await?;
    }
    Ok(export.end()?)
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = match error.downcast_ref::<StoreError>() {
        Some(StoreError::Taken(error)) => Some(error),
        _ => error.downcast_ref::<std::io::Error>(),
    };
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
