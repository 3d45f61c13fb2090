//! `controller runs import`: what other databases and exports have and this database has not.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use super::is_same;
use crate::cli::Context;
use crate::exit::{Exit, usage};
use crate::import::Source;
use crate::out;
use crate::show::store::{ImportView, imported};
use crate::show::{self};
use crate::store::Store;

/// Flags of `runs import`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Databases and JSON exports; none is changed
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<show::Format>,
}

/// The command.
///
/// # Errors
/// A file that cannot be read; a run of the same id with other requests; the database. What was
/// taken over from earlier files stays.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    for file in &args.files {
        if is_same(file, &context.db) {
            return Err(usage(format!(
                "{} is the database itself; name another file, or another --db",
                file.display()
            )));
        }
    }
    let mut views = Vec::new();
    for file in &args.files {
        views.push(ImportView {
            file: file.display().to_string(),
            merged: take_over(&context.db, file).await?,
        });
    }
    out::print(&imported(&views, format)?)?;
    Ok(Exit::Done)
}

/// The file is looked at first: a wrong one makes no database.
async fn take_over(db: &Path, file: &Path) -> anyhow::Result<crate::store::Merged> {
    let source = Source::open(file).await?;
    let merged = async {
        source.store.check_pages().await?;
        let store = Store::open(db).await?;
        let merged = store.merge(&source.store).await;
        store.close().await;
        merged
    };
    let merged = merged.await;
    source.close().await;
    merged.map_err(|error| anyhow::Error::new(error).context(file.display().to_string()))
}
