//! `controller runs delete` and `prune`: what would go is listed, and goes when that is confirmed.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::Args as ClapArgs;
use contracts::run::RunState;

use super::filter::{FilterArgs, moment};
use super::{note, select, stored};
use crate::cli::{Context, connect};
use crate::exit::{Exit, usage};
use crate::out;
use crate::record::RunRecord;
use crate::selector::{Head, Selector};
use crate::show::store::{DeleteView, deleted};
use crate::show::words::count;
use crate::show::{self, Format};
use crate::store::{RunFilter, Store};

/// Flags of `runs delete`.
#[derive(Debug, ClapArgs)]
pub struct DeleteArgs {
    /// Runs by any unique prefix of their ids, or as `compare` selects them
    #[arg(value_name = "RUN|SELECTOR")]
    runs: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    how: How,
}

/// Flags of `runs prune`.
#[derive(Debug, ClapArgs)]
pub struct PruneArgs {
    /// Made before this: so long ago (90d), or a date (2026-11-01, UTC)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    older_than: Option<i64>,
    /// Not those that have a label
    #[arg(long)]
    keep_labelled: bool,
    /// Only those that failed or were cancelled
    #[arg(long, conflicts_with = "state")]
    failed: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, ClapArgs)]
struct How {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// List what would go, and take nothing out
    #[arg(long)]
    dry_run: bool,
    /// Give the room back to the disk: the file is written anew
    #[arg(long)]
    vacuum: bool,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// `runs delete`.
///
/// # Errors
/// Usage, among it that nobody can be asked; the database.
pub async fn delete(context: &Context, args: DeleteArgs) -> anyhow::Result<Exit> {
    let filter = RunFilter::from(args.filter);
    if args.runs.is_empty() && filter.is_all() {
        return Err(usage(
            "which runs? Name them, or give flags such as --state failed; `controller runs` lists them",
        ));
    }
    let selectors = args.runs.iter().map(|word| run_or_selector(word));
    let selectors = selectors.collect::<anyhow::Result<Vec<_>>>()?;
    remove(context, &selectors, &filter, args.how).await
}

/// `runs prune`.
///
/// # Errors
/// As [`delete`].
pub async fn prune(context: &Context, args: PruneArgs) -> anyhow::Result<Exit> {
    let mut filter = RunFilter::from(args.filter);
    filter.before_unix_ms = args.older_than;
    if args.failed {
        filter.states = vec![RunState::Failed, RunState::Cancelled];
    }
    if filter.is_all() {
        return Err(usage(
            "which runs? Give --older-than 90d, --failed, or flags such as --chapter 1",
        ));
    }
    filter.unlabelled = args.keep_labelled;
    remove(context, &[], &filter, args.how).await
}

/// Digits alone may be a chapter or the start of an id, and what is deleted is gone.
fn run_or_selector(word: &str) -> anyhow::Result<Selector> {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(usage(format!(
            "`{word}` may be a chapter or the start of a run's id; write ch{word} or run:{word}"
        )));
    }
    match stored(word) {
        Err(_) if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Ok(Selector {
                head: Head::Run(word.to_owned()),
                mode: None,
                agent: None,
                build: None,
                arm: None,
            })
        }
        parsed => parsed,
    }
}

async fn remove(
    context: &Context,
    selectors: &[Selector],
    filter: &RunFilter,
    how: How,
) -> anyhow::Result<Exit> {
    let format = context.format(how.format)?;
    let store = connect::open_for_reading(context).await?;
    let mut runs = select(&store, selectors, filter, None).await?;
    store.close().await;
    let all = runs.len();
    runs.retain(|run| run.status.state.is_final());
    if runs.len() < all {
        let under_way = count((all - runs.len()) as u64, "run");
        note(&format!(
            "{under_way} under way stays; `controller cancel RUN` ends one"
        ));
    }
    if format != Format::Json || how.dry_run {
        out::print(&show::runs::render(&runs, format)?)?;
    }
    if how.dry_run || (runs.is_empty() && !how.vacuum) {
        if runs.is_empty() {
            note("nothing to delete");
        }
        return Ok(Exit::Done);
    }
    if !runs.is_empty() && !how.yes && !confirmed(&runs)? {
        note("nothing was deleted");
        return Ok(Exit::Done);
    }
    let store = Store::open(&context.db).await?;
    let view = take_out(&store, &runs, how.vacuum).await;
    store.close().await;
    out::print(&deleted(&view?, format)?)?;
    Ok(Exit::Done)
}

async fn take_out(store: &Store, runs: &[RunRecord], vacuum: bool) -> anyhow::Result<DeleteView> {
    let run_ids: Vec<String> = runs.iter().map(|run| run.run_id.clone()).collect();
    let deleted = store.delete_runs(&run_ids).await?;
    let returned_bytes = match vacuum {
        true => Some(store.vacuum().await?),
        false => None,
    };
    Ok(DeleteView {
        run_ids,
        deleted,
        returned_bytes,
        free_bytes: store.free_bytes().await?,
    })
}

/// Whether the user says yes; an error where there is nobody to ask.
fn confirmed(runs: &[RunRecord]) -> anyhow::Result<bool> {
    let what = count(runs.len() as u64, "run");
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(usage(format!(
            "{what} would be deleted, and there is no terminal to ask on; give --yes"
        )));
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "Delete {what} for good? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(
        answer.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}
