//! Executables of engines: this one, and other builds of ours that the config names.
//!
//! A file that is replaced while the agent runs is opened anew at the next run; a run that has begun
//! keeps what it opened. Hashing an executable takes a part of a second, so hashes are kept in the
//! state folder, by the file's inode, size and time of change.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

use crate::process::Program;
use crate::state::write_atomically;

/// Hashes that are kept; beyond it all are forgotten, which costs a hash each.
const HASHES_MAX: usize = 64;

/// Opened executables.
pub struct Builds {
    own: Program,
    others: Mutex<BTreeMap<PathBuf, (String, Program)>>,
    hashes: Mutex<BTreeMap<String, String>>,
    hashes_file: PathBuf,
}

impl Builds {
    /// `own` is the agent's own executable; known hashes are read from `hashes_file`.
    pub fn new(own: Program, hashes_file: PathBuf) -> Self {
        let known = std::fs::read(&hashes_file).unwrap_or_default();
        // A file that cannot be read is a cache that is empty.
        let hashes = serde_json::from_slice(&known).unwrap_or_default();
        Self {
            own,
            others: Mutex::new(BTreeMap::new()),
            hashes: Mutex::new(hashes),
            hashes_file,
        }
    }

    /// This executable, or the one at `path` as it is now.
    pub fn open(&self, path: Option<&Path>) -> anyhow::Result<Program> {
        let Some(path) = path else {
            return Ok(self.own.clone());
        };
        let stamp = stamp(
            &path
                .metadata()
                .with_context(|| path.display().to_string())?,
        );
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, program)) = others.get(path)
            && *known == stamp
        {
            return Ok(program.clone());
        }
        let program = Program::open(path)?;
        others.insert(path.to_path_buf(), (stamp, program.clone()));
        Ok(program)
    }

    /// SHA-256 (hex) of a program. Blocks while it reads a file that it does not know yet.
    pub fn sha256(&self, program: &Program) -> io::Result<String> {
        let stamp = stamp(&program.metadata()?);
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hashes.get(&stamp) {
            return Ok(known.clone());
        }
        let sha256 = program.sha256()?;
        if hashes.len() >= HASHES_MAX {
            hashes.clear();
        }
        hashes.insert(stamp, sha256.clone());
        if let Err(error) = write_atomically(&self.hashes_file, &serde_json::to_vec(&*hashes)?) {
            tracing::warn!(%error, "hashes of executables are not kept");
        }
        Ok(sha256)
    }
}

/// Says whether a file is still the same: device, inode, size, times of change and of its inode's.
fn stamp(file: &Metadata) -> String {
    let changed = (
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    );
    format!("{}:{}:{}:{changed:?}", file.dev(), file.ino(), file.size())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn executable(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_replaced_build_is_another_one_and_hashes_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, hashes) = (dir.path().join("tool"), dir.path().join("hashes.json"));
        executable(&path, "one");
        let own = Program::open(&path).unwrap();
        let builds = Builds::new(own.clone(), hashes.clone());
        let first = builds.open(Some(&path)).unwrap();
        let one = builds.sha256(&first).unwrap();
        std::fs::remove_file(&path).unwrap();
        executable(&path, "two, and longer");
        let two = builds.sha256(&builds.open(Some(&path)).unwrap()).unwrap();
        assert_ne!(one, two);
        assert_eq!(builds.sha256(&first).unwrap(), one, "what was opened stays");

        // The next agent knows them without reading the files.
        let text = std::fs::read_to_string(&hashes)
            .unwrap()
            .replace(&two, "kept");
        std::fs::write(&hashes, text).unwrap();
        let next = Builds::new(own, hashes);
        assert_eq!(
            next.sha256(&next.open(Some(&path)).unwrap()).unwrap(),
            "kept"
        );
    }
}
