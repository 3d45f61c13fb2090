//! The database: one SQLite file in WAL mode, one writer, every SQL statement of the project.
//!
//! [`open`](Store::open) is for commands that write, [`open_read`](Store::open_read) for those that
//! only look. What rows mean is in `migrations/`; what is computed from them is left to `stats`.

mod agents;
mod backup;
mod check;
mod client_floor;
mod columns;
mod delete;
mod filter;
mod insert;
mod lines;
mod merge;
mod noise_floor;
mod open;
mod readable;
mod rows;
mod runs;
mod samples;
mod server_reports;
mod sessions;
mod tables;
mod whole;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::SqlitePool;

pub use agents::AgentRow;
pub use check::Checked;
pub use delete::Deleted;
pub use filter::RunFilter;
pub use merge::Merged;
pub use noise_floor::{FloorKey, NewFloor, NoiseFloors, StoredFloor};
pub use tables::{HostDocument, RowDocument};
pub use write::{NewSession, Stored};

/// Longest wait for SQLite to let go of the file: folding in a long write-ahead log takes seconds.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// An open database.
#[derive(Debug, Clone)]
pub struct Store {
    pool: SqlitePool,
    path: PathBuf,
    /// The file that lay there when it was opened.
    file: Option<(u64, u64)>,
}

/// Why the database cannot be used, in one line that names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A command that only reads, and there is no file yet.
    #[error("no runs yet: {0} does not exist; `controller run --chapter 1` makes it")]
    Missing(PathBuf),
    /// The file, or its folder, does not let us write.
    #[error("database {0} is read-only; make it writable or name another with --db")]
    ReadOnly(PathBuf),
    /// Not SQLite, or somebody else's tables.
    #[error("{0} is not a chapterbench database; name another with --db")]
    NotOurs(PathBuf),
    /// Written by a build that knows more than this one.
    #[error(
        "database {path} is from a newer version (schema {found}, this build knows {known}); use the newer controller or another --db"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Another process keeps it locked beyond the wait.
    #[error("database {0} is locked by another process; try again when that has ended")]
    Locked(PathBuf),
    /// Neither made nor opened: rights, a read-only disk.
    #[error(
        "database {0} cannot be opened or made; check the rights of the file and its folder, or name another with --db"
    )]
    CannotOpen(PathBuf),
    /// Ours once; its pages are not whole.
    #[error("database {0} is damaged; put it aside, or name another with --db")]
    Damaged(PathBuf),
    /// The file was taken away while it was open: what was written went with it.
    #[error(
        "database {0} was removed or replaced while in use; what was measured since is not in it"
    )]
    Removed(PathBuf),
    /// No room to write.
    #[error("database {0}: the disk is full")]
    Full(PathBuf),
    /// Damaged content: a row that cannot be read back.
    #[error("database {path}: {what} cannot be read: {why}")]
    BadRow {
        /// The file.
        path: PathBuf,
        /// Which column.
        what: String,
        /// Why.
        why: String,
    },
    /// A sample that was to be stored and cannot be.
    #[error("run {run_id}: {why}")]
    BadSample {
        /// The run.
        run_id: String,
        /// Which, and what is wrong with it.
        why: String,
    },
    /// A run of the same id with other requests.
    #[error(
        "run {run_id} is here already with other requests; nothing was imported. One of the two is not what was measured: `controller runs show {run_id}` shows ours"
    )]
    OtherContent {
        /// The run.
        run_id: String,
    },
    /// Who took samples one by one could not go on.
    #[error(transparent)]
    Taken(std::io::Error),
    /// A unique prefix was asked for.
    #[error("run {prefix} is not unique: {} match, such as {}", .matches.len(), .matches.join(", "))]
    Ambiguous {
        /// As asked for.
        prefix: String,
        /// Some of the ids that match.
        matches: Vec<String>,
    },
    /// Nothing has this id.
    #[error("no {what} `{id}` in {path}; `controller {what}s list` shows what there is")]
    NotFound {
        /// `run`, `agent`.
        what: &'static str,
        /// As asked for.
        id: String,
        /// The file.
        path: PathBuf,
    },
    /// Anything else that SQLite says.
    #[error("database {path}: {message}")]
    Other {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        message: String,
    },
}

/// Primary result codes of SQLite (`code & 0xff`) that get a line of their own.
mod sqlite_code {
    pub const BUSY: i32 = 5;
    pub const LOCKED: i32 = 6;
    pub const READONLY: i32 = 8;
    pub const CORRUPT: i32 = 11;
    pub const FULL: i32 = 13;
    pub const CANTOPEN: i32 = 14;
    pub const NOTADB: i32 = 26;
}

impl StoreError {
    /// Turns what SQLite said about `path` into the line that fits.
    fn of(path: &Path, error: &sqlx::Error) -> Self {
        let path = path.to_path_buf();
        if matches!(error, sqlx::Error::PoolTimedOut) {
            return Self::Locked(path);
        }
        let Some(database) = error.as_database_error() else {
            return Self::Other {
                path,
                message: error.to_string(),
            };
        };
        let code = database
            .code()
            .and_then(|code| code.parse::<i32>().ok())
            .unwrap_or_default();
        match code & 0xff {
            sqlite_code::BUSY | sqlite_code::LOCKED => Self::Locked(path),
            sqlite_code::READONLY => Self::ReadOnly(path),
            sqlite_code::FULL => Self::Full(path),
            sqlite_code::CANTOPEN => Self::CannotOpen(path),
            sqlite_code::CORRUPT => Self::Damaged(path),
            sqlite_code::NOTADB => Self::NotOurs(path),
            _ => Self::Other {
                path,
                message: database.message().to_owned(),
            },
        }
    }
}

impl Store {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file; the write-ahead log is folded in. A damaged file may have taken SQLite's
    /// thread along, which then is not waited for for ever.
    pub async fn close(self) {
        if tokio::time::timeout(CLOSE_WAIT, self.pool.close())
            .await
            .is_err()
        {
            tracing::warn!("database {} does not close", self.path.display());
        }
    }

    fn error(&self, error: &sqlx::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }

    fn bad_row(&self, what: &str, why: impl ToString) -> StoreError {
        StoreError::BadRow {
            path: self.path.clone(),
            what: what.to_owned(),
            why: why.to_string(),
        }
    }
}
