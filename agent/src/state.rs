//! The agent's state folder: who owns it, who the agent is, and what it has running.
//!
//! ```text
//! lock          held (flock) for the agent's life; holds its pid
//! agent_id      stable ULID
//! current.json  the run in progress: id, stage, identities of its processes
//! quarantine    why nothing may run until a person has looked and removed the file
//! hashes.json   of executables, see [`crate::run`]
//! calibrate.log output of the last calibration's server
//! runs/         the spool, see [`crate::spool`]
//! ```
//! Only the holder of the lock may write here, so whatever a dead agent left is the next one's alone.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use contracts::run::Stage;
use serde::{Deserialize, Serialize};

use crate::process::Identities;

/// Why a state folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another agent owns it. Programs exit 3.
    #[error("state folder {} is held by the agent with pid {pid}; stop it, or name another folder with --state-dir", path.display())]
    StateHeld {
        /// The folder.
        path: PathBuf,
        /// As the holder wrote it; 0 if it has not yet.
        pid: u32,
    },
    /// It cannot be read or written.
    #[error("state folder {}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file in it is not ours or is damaged.
    #[error("{}: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
}

/// The run in progress, as the next agent finds it after a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Current {
    /// Whose processes these are.
    pub run_id: String,
    /// What was under way.
    pub stage: Stage,
    /// Keeper and child, once they exist.
    pub identities: Option<Identities>,
}

/// An open state folder.
pub struct StateDir {
    root: PathBuf,
    agent_id: String,
    boot_id: String,
    _lock: File,
}

impl StateDir {
    /// Takes the lock, makes what is missing.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |error| OpenError::Io { path, error }
        };
        let runs = root.join("runs");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&runs)
            .map_err(io(&runs))?;
        let lock = take_lock(root)?;
        let id_file = root.join("agent_id");
        let agent_id = match fs::read_to_string(&id_file) {
            Ok(text) => ulid::Ulid::from_string(text.trim()).map_err(|_| OpenError::Damaged {
                path: id_file.clone(),
                message: "not an agent id; remove the file to get a new one".to_owned(),
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = ulid::Ulid::generate();
                write_atomically(&id_file, id.to_string().as_bytes()).map_err(io(&id_file))?;
                id
            }
            Err(error) => return Err(io(&id_file)(error)),
        };
        Ok(Self {
            root: root.to_path_buf(),
            agent_id: agent_id.to_string(),
            boot_id: ulid::Ulid::generate().to_string(),
            _lock: lock,
        })
    }

    /// Stable over restarts.
    pub fn agent_id(&self) -> &str {
        &self.agent_id
    }

    /// New with each start.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Folder of the spool.
    pub fn runs_dir(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Where hashes of executables are kept.
    pub fn hashes_file(&self) -> PathBuf {
        self.root.join("hashes.json")
    }

    /// Output of the server that the load generator is calibrated with.
    pub fn calibrate_log_file(&self) -> PathBuf {
        self.root.join("calibrate.log")
    }

    /// What a dead agent left running, if anything.
    pub fn current(&self) -> Result<Option<Current>, OpenError> {
        let path = self.current_file();
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes)
                    .map(Some)
                    .map_err(|error| OpenError::Damaged {
                        path,
                        message: format!(
                            "{error}; see that no engine process is left, then remove the file"
                        ),
                    })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::Io { path, error }),
        }
    }

    /// Writes down what runs, before it can be lost.
    pub fn set_current(&self, current: &Current) -> io::Result<()> {
        write_atomically(&self.current_file(), &serde_json::to_vec(current)?)
    }

    /// Nothing runs any more.
    pub fn clear_current(&self) -> io::Result<()> {
        remove_if_there(&self.current_file())
    }

    /// Why nothing may run, if so. Read anew each time: a person ends it by removing the file.
    pub fn quarantine(&self) -> Option<String> {
        let file = self.quarantine_file();
        match fs::read_to_string(&file) {
            Ok(reason) => Some(format!(
                "{}; when it is clean, remove {}",
                reason.trim(),
                file.display()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(format!("{}: {error}", file.display())),
        }
    }

    /// From now on nothing may run.
    pub fn set_quarantine(&self, reason: &str) -> io::Result<()> {
        write_atomically(&self.quarantine_file(), reason.as_bytes())
    }

    fn current_file(&self) -> PathBuf {
        self.root.join("current.json")
    }

    fn quarantine_file(&self) -> PathBuf {
        self.root.join("quarantine")
    }
}

fn take_lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join("lock");
    let io = |error| OpenError::Io {
        path: path.clone(),
        error,
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(io)?;
            return Err(OpenError::StateHeld {
                path: root.to_path_buf(),
                pid: pid.trim().parse().unwrap_or(0),
            });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Replaces `path` as a whole: whoever reads it sees the old bytes or the new ones, also after a crash.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    sync_folder_of(path)
}

/// Removes a file; one that is not there is removed already.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_agent_id_stays_and_the_boot_id_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::open(dir.path()).unwrap();
        let (agent, boot) = (first.agent_id().to_owned(), first.boot_id().to_owned());
        drop(first);
        let second = StateDir::open(dir.path()).unwrap();
        assert_eq!(second.agent_id(), agent);
        assert_ne!(second.boot_id(), boot);
    }

    #[test]
    fn a_second_agent_is_told_the_holders_pid() {
        let dir = tempfile::tempdir().unwrap();
        let _held = StateDir::open(dir.path()).unwrap();
        let refused = StateDir::open(dir.path()).err().unwrap();
        assert!(
            matches!(refused, OpenError::StateHeld { pid, .. } if pid == std::process::id()),
            "{refused}"
        );
    }

    #[test]
    fn what_runs_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.current().unwrap(), None);
        let current = Current {
            run_id: "01J".to_owned(),
            stage: Stage::Measure,
            identities: None,
        };
        state.set_current(&current).unwrap();
        drop(state);
        let state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.current().unwrap(), Some(current));
        state.clear_current().unwrap();
        state.clear_current().unwrap();
        assert_eq!(state.current().unwrap(), None);
        fs::write(dir.path().join("current.json"), "{").unwrap();
        assert!(
            state
                .current()
                .unwrap_err()
                .to_string()
                .contains("current.json")
        );
    }

    #[test]
    fn quarantine_lasts_until_the_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.quarantine(), None);
        state.set_quarantine("pid 7 does not die").unwrap();
        drop(state);
        let state = StateDir::open(dir.path()).unwrap();
        assert!(
            state
                .quarantine()
                .unwrap()
                .starts_with("pid 7 does not die; when it is clean, remove ")
        );
        fs::remove_file(dir.path().join("quarantine")).unwrap();
        assert_eq!(state.quarantine(), None);
    }
}
