//! `controller db`: the database as a file — whether it is whole, and a copy of it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args as ClapArgs, Subcommand};

use super::Context;
use crate::exit::{Exit, Refusal};
use crate::export::OutputFile;
use crate::out;
use crate::show::Format;
use crate::show::store::{BackupView, backed_up, checked};
use crate::store::Store;

/// Flags of `db`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// text, json or markdown [default: text]
    #[arg(long, global = true)]
    format: Option<Format>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read all of it and name what is not whole
    Check,
    /// Copy it as it is at this moment, also while runs are being stored
    Backup {
        /// The copy; nothing may be there yet
        file: PathBuf,
    },
}

/// The command.
///
/// # Errors
/// The database, the copy. Problems found by `check` are exit code 1.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    match args.command {
        Command::Check => {
            let store = Store::open_read(&context.db).await?;
            let found = store.check().await;
            store.close().await;
            let found = found?;
            let path = context.db.display().to_string();
            out::print(&checked(&path, &found, format)?)?;
            Ok(match found.problems.is_empty() {
                true => Exit::Done,
                false => Exit::Failed,
            })
        }
        Command::Backup { file } => {
            let view = backup(&context.db, &file).await?;
            out::print(&backed_up(&view, format)?)?;
            Ok(Exit::Done)
        }
    }
}

/// What SQLite keeps beside a copy while it makes it, and would leave where it is stopped.
struct Journal(PathBuf);

impl Journal {
    fn of(copy: &Path) -> Self {
        let mut path = copy.to_path_buf().into_os_string();
        path.push("-journal");
        Self(path.into())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A copy that was made has none any more.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Copies the database beside its place, looks whether the copy is whole, and only then puts it
/// there.
async fn backup(db: &Path, file: &Path) -> anyhow::Result<BackupView> {
    let taken = || Refusal {
        exit: Exit::Failed,
        message: format!(
            "{} is there already; a backup writes over nothing, name another file",
            file.display()
        ),
    };
    if file.symlink_metadata().is_ok() {
        return Err(taken().into());
    }
    let name = || file.display().to_string();
    let (store, _) = Store::open_as_is(db).await?;
    let output = OutputFile::create(file).with_context(name)?;
    let _journal = Journal::of(output.path());
    let copied = copy(&store, &output, file).await;
    store.close().await;
    let view = copied?;
    match output.finish_new() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(taken().into()),
        finished => finished.map(|()| view).with_context(name),
    }
}

async fn copy(store: &Store, output: &OutputFile, file: &Path) -> anyhow::Result<BackupView> {
    let path = output.path();
    store.copy_to(path).await?;
    let (copy, _) = Store::open_as_is(path).await?;
    let read = async {
        copy.check_pages().await?;
        copy.totals().await
    };
    let read = read.await;
    copy.close().await;
    // What is wrong names the copy, which goes away again.
    let (runs, samples) = read.map_err(|_| Refusal {
        exit: Exit::Failed,
        message: format!(
            "{} is not made: the copy of {} is not whole; `controller db check` says what is wrong with the database",
            file.display(),
            store.path().display()
        ),
    })?;
    Ok(BackupView {
        file: file.display().to_string(),
        bytes: std::fs::metadata(path)?.len(),
        runs,
        samples,
    })
}
