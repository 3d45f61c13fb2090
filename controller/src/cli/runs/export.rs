//! `controller runs export`: runs with every raw record, to a file or to stdout.

use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args as ClapArgs, ValueEnum};

use super::filter::FilterArgs;
use super::{NOTHING, note, select_without_walls, selectors};
use crate::cli::{Context, connect};
use crate::exit::{Exit, usage};
use crate::export::{Csv, Json, OutputFile, Parquet, Rows, runs, samples};
use crate::record::RunRecord;
use crate::store::{RunFilter, Store, StoreError};

/// Flags of `runs export`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Which runs, as `compare` selects them [default: all]
    selectors: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only the newest so many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// json: all there is, and what import reads; csv and parquet: a table
    #[arg(long, default_value = "json")]
    format: Format,
    /// With csv and parquet, a row a request (samples) or a row a run (runs) [default: samples]
    #[arg(long)]
    what: Option<What>,
    /// Write here instead of to stdout; the file is there whole or not at all
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What an export is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// All there is.
    Json,
    /// Rows, for everything that reads text.
    Csv,
    /// Columns, for DuckDB, pandas and the like.
    Parquet,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// A request.
    Samples,
    /// A run.
    Runs,
}

/// The command.
///
/// # Errors
/// Usage, the database, a file that cannot be written.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    if args.format == Format::Json && args.what.is_some() {
        return Err(usage(
            "--what with --format json: JSON has runs and samples; give csv or parquet",
        ));
    }
    let stdout = args.output.is_none();
    if args.format == Format::Parquet && stdout && std::io::stdout().is_terminal() {
        return Err(usage(
            "--format parquet is no text for a terminal; give --output FILE",
        ));
    }
    if let Some(path) = args.output.as_deref() {
        not_the_database(&context.db, path)?;
    }
    let filter = RunFilter::from(args.filter.clone());
    let selectors = selectors(&args.selectors)?;
    let store = connect::open_for_reading(context).await?;
    let runs = select_without_walls(&store, &selectors, &filter, args.limit).await?;
    if runs.is_empty() {
        note(NOTHING);
    }
    let exported = export(&store, &runs, &args).await;
    store.close().await;
    exported.map(|()| Exit::Done)
}

/// What is exported must not take the place of where it comes from, nor of the files that SQLite
/// keeps beside it.
fn not_the_database(db: &Path, output: &Path) -> anyhow::Result<()> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let (Some(ours), Some(output_is)) = (real(db), real(output)) else {
        return Ok(());
    };
    let is_ours = |suffix: &str| {
        let mut name = ours.clone().into_os_string();
        name.push(suffix);
        output_is.as_os_str() == name
    };
    if ["", "-wal", "-shm", "-journal"].into_iter().any(is_ours) {
        return Err(usage(format!(
            "--output {} is the database itself; name another file",
            output.display()
        )));
    }
    Ok(())
}

async fn export(store: &Store, runs: &[RunRecord], args: &Args) -> anyhow::Result<()> {
    let Some(path) = &args.output else {
        return match write(store, runs, args, std::io::stdout()).await {
            Err(error) if is_broken_pipe(&error) => Ok(()),
            written => written.context("stdout"),
        };
    };
    let name = || format!("--output {}", path.display());
    let file = OutputFile::create(path).with_context(name)?;
    let sink = file.sink().with_context(name)?;
    write(store, runs, args, sink).await.with_context(name)?;
    file.finish().with_context(name)
}

async fn write(
    store: &Store,
    stored: &[RunRecord],
    args: &Args,
    sink: impl Write + Send,
) -> anyhow::Result<()> {
    let sink = BufWriter::new(sink);
    let of_runs = args.what == Some(What::Runs);
    let (name, columns) = match of_runs {
        true => ("runs", runs::columns()),
        false => ("samples", samples::columns()),
    };
    match args.format {
        Format::Json => write_json(store, stored, sink).await,
        Format::Csv => write_rows(store, stored, of_runs, Csv::new(sink, &columns)?).await,
        Format::Parquet => {
            let table = Parquet::new(sink, name, &columns)?;
            write_rows(store, stored, of_runs, table).await
        }
    }
}

async fn write_json(store: &Store, runs: &[RunRecord], sink: impl Write) -> anyhow::Result<()> {
    let mut fingerprints: Vec<String> = runs.iter().map(|r| r.host_fingerprint.clone()).collect();
    fingerprints.sort();
    fingerprints.dedup();
    let hosts = store.host_documents(&fingerprints).await?;
    let mut json = Json::new(sink, &hosts)?;
    for run in runs {
        let whole = store.with_walls(run.clone()).await?;
        json.run(&whole, &store.events(&run.run_id).await?)?;
        let written = store.each_sample(&run.run_id, |sample| json.sample(&sample));
        written.await?;
    }
    Ok(json.end()?)
}

async fn write_rows(
    store: &Store,
    stored: &[RunRecord],
    of_runs: bool,
    mut table: impl Rows,
) -> anyhow::Result<()> {
    for run in stored {
        if of_runs {
            table.row(runs::row(run))?;
            continue;
        }
        let written =
            store.each_sample(&run.run_id, |sample| table.row(samples::row(run, &sample)));
        written.await?;
    }
    Ok(table.end()?)
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = match error.downcast_ref::<StoreError>() {
        Some(StoreError::Taken(error)) => Some(error),
        _ => error.downcast_ref::<std::io::Error>(),
    };
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
