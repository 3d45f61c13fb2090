//! Files of others: an export or another database, opened as a store of its own.
//!
//! A JSON export is read into a database in a folder that goes away with it; a database of an older
//! version is copied there and brought up to date. So both are read like the user's own, and no file
//! is ever changed. What is done with one is the caller's: [`Store::merge`] takes its runs over,
//! [`Sides`] lets a comparison read it in place.

mod json;
mod sides;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::store::{Store, StoreError};

pub use sides::{Sides, only_files};

/// The first bytes of every SQLite file.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// A file of others that can be read like a database of our own.
#[derive(Debug)]
pub struct Source {
    /// Its runs, up to date with this build's schema.
    pub store: Store,
    /// Where a copy lives, if there is one.
    folder: Option<TempDir>,
}

/// Why a file cannot be read, in one line that names it.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is not there, or may not be read.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's word.
        why: std::io::Error,
    },
    /// Neither SQLite nor JSON.
    #[error(
        "{0} is neither a chapterbench database nor an export (`controller runs export --output FILE`)"
    )]
    Unknown(PathBuf),
    /// JSON that is no export, or a damaged one.
    #[error("{path} is not an export that can be read: {why}")]
    BadExport {
        /// The file.
        path: PathBuf,
        /// What, and where: line and column, or the run.
        why: String,
    },
    /// The database, or the one that the export is read into.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Source {
    /// Opens a file of either kind.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub async fn open(path: &Path) -> Result<Self, ImportError> {
        let unreadable = |why| ImportError::Unreadable {
            path: path.to_path_buf(),
            why,
        };
        let mut start = Vec::new();
        let mut file = File::open(path).map_err(unreadable)?;
        let magic = SQLITE_MAGIC.len() as u64;
        let read = file.by_ref().take(magic).read_to_end(&mut start);
        read.map_err(unreadable)?;
        if start == SQLITE_MAGIC {
            return Self::database(path).await;
        }
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'{') {
            return Err(ImportError::Unknown(path.to_path_buf()));
        }
        let folder = tempfile::tempdir().map_err(unreadable)?;
        let store = Store::open(&folder.path().join("export.db")).await?;
        if let Err(error) = json::load(path, &store).await {
            store.close().await;
            return Err(error);
        }
        Ok(Self {
            store,
            folder: Some(folder),
        })
    }

    async fn database(path: &Path) -> Result<Self, ImportError> {
        let (store, up_to_date) = Store::open_as_is(path).await?;
        if up_to_date {
            return Ok(Self {
                store,
                folder: None,
            });
        }
        let folder = tempfile::tempdir().map_err(|why| ImportError::Unreadable {
            path: std::env::temp_dir(),
            why,
        })?;
        let copy = folder.path().join("copy.db");
        let copied = store.copy_to(&copy).await;
        store.close().await;
        copied?;
        Ok(Self {
            store: Store::open(&copy).await?,
            folder: Some(folder),
        })
    }

    /// Closes it, and takes a copy away.
    pub async fn close(self) {
        self.store.close().await;
        drop(self.folder);
    }
}
