//! What a model is: one SHA-256 over its weights, its config and its tokenizer.
//!
//! Hashing gigabytes at each start would cost more than a short run, so that a file's hash is kept
//! by path, size, time of change and inode in a small JSON file in the user's cache directory
//! (`$CHAPTERBENCH_CACHE_DIR` sets another). That file is a convenience: one that cannot be read
//! or written costs time and nothing else.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::EngineError;

/// Name of the variable with the directory of the cache.
pub const CACHE_DIR_VARIABLE: &str = "CHAPTERBENCH_CACHE_DIR";
const FILE: &str = "model-sha256.json";
/// Files remembered, at most; beyond it the cache starts anew.
const ENTRIES_MAX: usize = 1000;
const CACHE_BYTES_MAX: u64 = 4 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// SHA-256 (hex) over the parts of a model: a name and a hash each, in order.
pub fn of_parts<'a>(parts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut hasher = Sha256::new();
    for (name, sha256) in parts {
        hasher.update(format!("{name} {sha256}\n"));
    }
    hex::encode(hasher.finalize())
}

/// SHA-256 (hex) of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    size: u64,
    mtime_ns: i64,
    inode: u64,
    sha256: String,
}

/// Hashes of files, remembered between processes.
pub struct FileHashes {
    path: Option<PathBuf>,
    entries: BTreeMap<String, Entry>,
    changed: bool,
}

impl FileHashes {
    /// The user's cache.
    pub fn open() -> Self {
        Self::open_in(cache_dir())
    }

    /// The cache in a directory of its own; without one, nothing is remembered.
    pub fn open_in(dir: Option<PathBuf>) -> Self {
        let path = dir.map(|dir| dir.join(FILE));
        let entries = path.as_deref().and_then(read).unwrap_or_default();
        Self {
            path,
            entries,
            changed: false,
        }
    }

    /// SHA-256 (hex) of a file.
    pub fn of_file(&mut self, path: &Path, model: &str) -> Result<String, EngineError> {
        let failed =
            |error: io::Error| EngineError::model(model, format!("{}: {error}", path.display()));
        let path = path.canonicalize().map_err(failed)?;
        let metadata = path.metadata().map_err(failed)?;
        let key = path.to_string_lossy().into_owned();
        let mtime_ns = metadata
            .mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(metadata.mtime_nsec());
        if let Some(entry) = self.entries.get(&key)
            && (entry.size, entry.mtime_ns, entry.inode)
                == (metadata.size(), mtime_ns, metadata.ino())
        {
            return Ok(entry.sha256.clone());
        }
        let sha256 = hash(&path).map_err(failed)?;
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.clear();
        }
        let entry = Entry {
            size: metadata.size(),
            mtime_ns,
            inode: metadata.ino(),
            sha256: sha256.clone(),
        };
        self.entries.insert(key, entry);
        self.changed = true;
        Ok(sha256)
    }

    /// Writes what is new; a failure is logged and is no error.
    pub fn save(self) {
        let Some(path) = self.path.filter(|_| self.changed) else {
            return;
        };
        if let Err(error) = write(&path, &self.entries) {
            tracing::debug!("{} could not be written: {error}", path.display());
        }
    }
}

fn cache_dir() -> Option<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable(CACHE_DIR_VARIABLE)
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("chapterbench")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache").join("chapterbench")))
}

fn read(path: &Path) -> Option<BTreeMap<String, Entry>> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(CACHE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Written beside and renamed, so that another process reads the old file or the new one.
fn write(path: &Path, entries: &BTreeMap<String, Entry>) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let beside = dir.join(format!(
        ".{FILE}.{}.{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&beside, serde_json::to_vec(entries)?)?;
    std::fs::rename(&beside, path)
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = file.read(&mut buffer)?;
        match buffer.get(..count) {
            Some(bytes) if !bytes.is_empty() => hasher.update(bytes),
            _ => return Ok(hex::encode(hasher.finalize())),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const ABC_SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn hash_once(cache: &Path, file: &Path) -> String {
        let mut hashes = FileHashes::open_in(Some(cache.to_owned()));
        let sha256 = hashes.of_file(file, "m").unwrap();
        hashes.save();
        sha256
    }

    #[test]
    fn a_hash_is_remembered_until_the_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("weights");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(hash_once(dir.path(), &file), ABC_SHA256);

        // A second look takes the remembered value: plant one to see that.
        let cache = dir.path().join(FILE);
        let planted = std::fs::read_to_string(&cache)
            .unwrap()
            .replace(ABC_SHA256, "planted");
        std::fs::write(&cache, planted).unwrap();
        assert_eq!(hash_once(dir.path(), &file), "planted");

        std::fs::write(&file, "abcd").unwrap();
        assert_eq!(hash_once(dir.path(), &file), of_bytes(b"abcd"));
    }

    #[test]
    fn a_cache_that_cannot_be_used_costs_nothing_but_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("weights");
        std::fs::write(&file, "abc").unwrap();
        // A file where the directory should be: neither readable nor writable.
        assert_eq!(hash_once(&file, &file), ABC_SHA256);
        std::fs::write(dir.path().join(FILE), "{ broken").unwrap();
        assert_eq!(hash_once(dir.path(), &file), ABC_SHA256);
        assert_eq!(
            FileHashes::open_in(None).of_file(&file, "m").unwrap(),
            ABC_SHA256
        );
    }

    #[test]
    fn parts_are_told_apart_by_name_and_order() {
        let of =
            |parts: [(&str, &str); 2]| of_parts(parts.map(|(name, sha)| (name, sha.to_owned())));
        assert_ne!(
            of([("config", "1"), ("weights", "2")]),
            of([("config", "2"), ("weights", "1")])
        );
        assert_ne!(
            of([("config", "1"), ("weights", "2")]),
            of([("weights", "2"), ("config", "1")])
        );
    }
}
