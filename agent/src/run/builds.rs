//! Executables of engines: this one, and other builds of ours that the config names.
//!
//! A file that is replaced while the agent runs is opened anew at the next run; a run that has begun
//! keeps what it opened.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

use crate::process::Program;

/// Says whether a file is still the one that was opened: inode, size, mtime in s and ns.
type Stamp = (u64, u64, i64, i64);

/// Opened executables.
pub struct Builds {
    own: Program,
    others: Mutex<BTreeMap<PathBuf, (Stamp, Program)>>,
}

impl Builds {
    /// `own` is the agent's own executable.
    pub fn new(own: Program) -> Self {
        Self {
            own,
            others: Mutex::new(BTreeMap::new()),
        }
    }

    /// This executable, or the one at `path` as it is now.
    pub fn open(&self, path: Option<&Path>) -> anyhow::Result<Program> {
        let Some(path) = path else {
            return Ok(self.own.clone());
        };
        let metadata = path
            .metadata()
            .with_context(|| path.display().to_string())?;
        let stamp = stamp(&metadata);
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
}

fn stamp(metadata: &Metadata) -> Stamp {
    (
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    )
}
