//! What was measured, on this agent's disk, until its controller acknowledges it.
//!
//! ```text
//! runs/<id>/status.json     RunStatus: written as a whole when accepted, when loaded, at the end
//!           samples.ndjson  one Sample a line, appended as they come
//!           events.ndjson   one RunEvent a line, likewise
//!           log.txt         the child's output, capped (written by crate::process)
//! ```
//! A folder without `status.json` was never accepted. [`writer`] appends, [`read`] gives pages,
//! [`recover`] ends what a dead agent left. Who runs what is not known here.

pub mod read;
pub mod recover;
pub mod writer;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use contracts::run::RunStatus;

use crate::state::write_atomically;

/// Runs that wait to be collected, at most: far more than a controller leaves behind by accident.
pub const SPOOLED_RUNS_MAX: usize = 1_000;
/// Bytes of all spooled runs together above which no new run is taken.
pub const SPOOL_BYTES_MAX: u64 = 16 << 30;
/// Bytes of one run's samples, at most: a million samples of 4 KiB.
pub const SAMPLES_BYTES_MAX: u64 = 4 << 30;
/// Bytes that must be free on the spool's disk before a run begins.
pub const DISK_FREE_BYTES_MIN: u64 = 256 << 20;

/// A run's id, known to be a ULID: it is safe as the name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// None if `text` is not a ULID in its one canonical form.
    pub fn parse(text: &str) -> Option<Self> {
        let ulid = ulid::Ulid::from_string(text).ok()?;
        (ulid.to_string() == text).then(|| Self(text.to_owned()))
    }

    /// As given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why the spool takes no new run.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Too much waits to be collected, or the disk is full.
    #[error("{0}")]
    Full(String),
    /// The disk.
    #[error("spool {}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The folder `runs/`.
pub struct Spool {
    root: PathBuf,
    bookmark: Mutex<Option<read::Bookmark>>,
}

impl Spool {
    /// `root` exists and is ours alone.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            bookmark: Mutex::new(None),
        }
    }

    /// Makes room for a run: checks the limits, then writes its first status.
    pub fn create(&self, id: &RunId, status: &RunStatus) -> Result<RunFolder, SpoolError> {
        self.check_room()?;
        let folder = self.folder(id);
        let io = |source| SpoolError::Io {
            path: folder.path.clone(),
            source,
        };
        fs::create_dir_all(&folder.path).map_err(io)?;
        folder.save(status).map_err(io)?;
        Ok(folder)
    }

    /// The run's last saved status; none if it is not here.
    pub fn status(&self, id: &RunId) -> io::Result<Option<RunStatus>> {
        match fs::read(self.folder(id).status_file()) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ids of all runs here, oldest first (a ULID sorts by time).
    pub fn ids(&self) -> io::Result<Vec<RunId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            ids.extend(entry?.file_name().to_str().and_then(RunId::parse));
        }
        ids.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok(ids)
    }

    /// Forgets a run; one that is not here is forgotten already.
    pub fn remove(&self, id: &RunId) -> io::Result<()> {
        let folder = self.folder(id);
        // Without its status the folder is "never accepted", should we die half way.
        crate::state::remove_if_there(&folder.status_file())?;
        match fs::remove_dir_all(&folder.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The folder of `id`, whether it is there or not.
    pub fn folder(&self, id: &RunId) -> RunFolder {
        RunFolder {
            path: self.root.join(id.as_str()),
        }
    }

    fn check_room(&self) -> Result<(), SpoolError> {
        let io = |source| SpoolError::Io {
            path: self.root.clone(),
            source,
        };
        let ids = self.ids().map_err(io)?;
        if ids.len() >= SPOOLED_RUNS_MAX {
            return Err(SpoolError::Full(format!(
                "the spool holds {SPOOLED_RUNS_MAX} runs that nobody collected; collect them with `controller resume`"
            )));
        }
        let bytes: u64 = ids.iter().map(|id| self.folder(id).bytes()).sum();
        if bytes >= SPOOL_BYTES_MAX {
            return Err(SpoolError::Full(format!(
                "the spool holds {} MiB of runs that nobody collected (limit {} MiB); collect them with `controller resume`",
                bytes >> 20,
                SPOOL_BYTES_MAX >> 20
            )));
        }
        let free = free_bytes(&self.root).map_err(io)?;
        if free < DISK_FREE_BYTES_MIN {
            return Err(SpoolError::Full(format!(
                "{} MiB are free under {}, a run needs {} MiB",
                free >> 20,
                self.root.display(),
                DISK_FREE_BYTES_MIN >> 20
            )));
        }
        Ok(())
    }
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Replaces the saved status.
    pub fn save(&self, status: &RunStatus) -> io::Result<()> {
        write_atomically(&self.status_file(), &serde_json::to_vec(status)?)
    }

    /// Where the child's output goes.
    pub fn log_file(&self) -> PathBuf {
        self.path.join("log.txt")
    }

    fn status_file(&self) -> PathBuf {
        self.path.join("status.json")
    }

    fn samples_file(&self) -> PathBuf {
        self.path.join("samples.ndjson")
    }

    fn events_file(&self) -> PathBuf {
        self.path.join("events.ndjson")
    }

    fn bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return 0;
        };
        entries
            .flatten()
            .filter_map(|entry| entry.metadata().ok())
            .map(|meta| meta.len())
            .sum()
    }
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
