//! `controller runs`: list and show what is stored; export, import, delete and prune it.

mod export;
pub(super) mod filter;
mod import;
mod remove;

use std::io::Write as _;
use std::path::Path;

use clap::{Args as ClapArgs, Subcommand};

use super::{Context, connect, until_stopped};
use crate::exit::{Exit, Refusal, usage};
use crate::out;
use crate::record::RunRecord;
use crate::selector::{Head, Selector};
use crate::show::{self, Format};
use crate::store::{RunFilter, Store};
use filter::FilterArgs;

/// Runs listed unless `--limit` says otherwise: what is still read at a glance.
const LIST_LIMIT: u32 = 50;

/// Flags of `runs`; without a command, those of `list`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List runs, the newest last
    List(List),
    /// One run in full
    Show(Show),
    /// Runs with every raw record, for other programs
    Export(export::Args),
    /// Take over the runs of another database or a JSON export that are not here
    Import(import::Args),
    /// Take runs out, after asking
    Delete(remove::DeleteArgs),
    /// Take old or failed runs out, after asking
    Prune(remove::PruneArgs),
}

#[derive(Debug, Default, ClapArgs)]
struct List {
    /// Only these, as `compare` selects them
    selectors: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only the newest so many [default: 50]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

#[derive(Debug, ClapArgs)]
struct Show {
    /// The run, by any unique prefix of its id
    run: String,
    /// Every request too
    #[arg(long)]
    samples: bool,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// Usage, the database, a file that cannot be read or written.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command.unwrap_or(Command::List(args.list)) {
        Command::List(args) => list(context, args).await,
        Command::Show(args) => show(context, args).await,
        Command::Export(args) => until_stopped(export::run(context, args)).await,
        Command::Import(args) => until_stopped(import::run(context, args)).await,
        Command::Delete(args) => remove::delete(context, args).await,
        Command::Prune(args) => remove::prune(context, args).await,
    }
}

async fn list(context: &Context, args: List) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let filter = RunFilter::from(args.filter);
    let store = connect::open_for_reading(context).await?;
    let limit = args.limit.unwrap_or(LIST_LIMIT);
    let selectors = selectors(&args.selectors)?;
    let (count, shown) = if selectors.is_empty() && format != Format::Json {
        let newest = RunFilter {
            limit: Some(limit),
            ..filter.clone()
        };
        let lines = store.run_lines(&newest).await?;
        (lines.len(), show::runs::table(&lines, format))
    } else {
        let runs = select(&store, &selectors, &filter, Some(limit)).await?;
        (runs.len(), show::runs::render(&runs, format)?)
    };
    store.close().await;
    if count == 0 && !filter.is_all() {
        note(NOTHING);
    }
    out::print(&shown)?;
    Ok(Exit::Done)
}

async fn show(context: &Context, args: Show) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let store = connect::open_for_reading(context).await?;
    let run = store.run_by_prefix(&args.run).await?;
    let events = store.events(&run.run_id).await?;
    let run = if args.samples {
        store.with_samples(run).await?
    } else {
        store.with_figures(run).await?
    };
    store.close().await;
    out::print(&show::run::render(&run, &events, args.samples, format)?)?;
    Ok(Exit::Done)
}

/// What is told where flags leave nothing: that is an answer and no failure.
const NOTHING: &str = "no run matches; `controller runs` without flags lists the newest";

/// A line for people, beside the result.
fn note(line: &str) {
    // Where stderr is closed, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether both paths lead to one file that is there.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|path| real(other) == Some(path))
}

/// Words as selectors of stored runs.
fn selectors(words: &[String]) -> anyhow::Result<Vec<Selector>> {
    words.iter().map(|word| stored(word)).collect()
}

fn stored(word: &str) -> anyhow::Result<Selector> {
    let selector = Selector::parse(word).map_err(|error| usage(error.to_string()))?;
    if let Head::File(path) = &selector.head {
        return Err(usage(format!(
            "`{word}` is a file, which `compare` reads; `controller runs import {path}` takes its runs over"
        )));
    }
    Ok(selector)
}

/// Runs that any of the selectors means and the filter lets through, oldest first, at most the
/// newest so many.
async fn select(
    store: &Store,
    selectors: &[Selector],
    filter: &RunFilter,
    limit: Option<u32>,
) -> anyhow::Result<Vec<RunRecord>> {
    let runs = store.runs(&limited(selectors, filter, limit)).await?;
    meant(runs, selectors, limit)
}

/// The same without the wall time of each request, of which a file of large runs has more than
/// memory.
async fn select_without_walls(
    store: &Store,
    selectors: &[Selector],
    filter: &RunFilter,
    limit: Option<u32>,
) -> anyhow::Result<Vec<RunRecord>> {
    let limited = limited(selectors, filter, limit);
    let runs = store.runs_without_walls(&limited).await?;
    meant(runs, selectors, limit)
}

fn limited(selectors: &[Selector], filter: &RunFilter, limit: Option<u32>) -> RunFilter {
    RunFilter {
        // Which of them are the newest is known when they are selected.
        limit: limit.filter(|_| selectors.is_empty()),
        selectors: selectors.to_vec(),
        ..filter.clone()
    }
}

/// Those that any of the selectors means, the newest so many; all where there is no selector.
fn meant(
    mut runs: Vec<RunRecord>,
    selectors: &[Selector],
    limit: Option<u32>,
) -> anyhow::Result<Vec<RunRecord>> {
    if selectors.is_empty() {
        return Ok(runs);
    }
    let mut wanted = std::collections::HashSet::new();
    for selector in selectors {
        let selected = selector.select(&runs).map_err(|error| Refusal {
            exit: Exit::Failed,
            message: error.to_string(),
        })?;
        wanted.extend(selected.into_iter().map(|run| run.run_id.clone()));
    }
    runs.retain(|run| wanted.contains(&run.run_id));
    let kept = limit.map_or(runs.len(), |limit| limit as usize);
    runs.drain(..runs.len().saturating_sub(kept));
    Ok(runs)
}
