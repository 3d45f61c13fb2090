//! An executable that is opened once, so that every start in a session runs the same bytes.
//!
//! A rebuild replaces the file under its path. Runs of one session must not change builds half way,
//! so the open descriptor is what is executed, as `/proc/self/fd/N`. Scripts are the exception:
//! their interpreter has to read them by name, so they run by path. So do engines of others, which
//! may find their files by the name they were started under.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

/// Bytes hashed at a time.
const HASH_BLOCK_BYTES: usize = 1 << 20;
/// What `readlink` appends when a running executable was replaced on disk.
const DELETED: &[u8] = b" (deleted)";

/// An open executable. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    path: PathBuf,
    by_path: bool,
    sha256: OnceLock<String>,
}

/// Why a program can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It isn't there, or can't be read.
    #[error("program {}: {error}", path.display())]
    Open {
        /// As given.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A directory, a device, or a file without the execute permission.
    #[error("program {}: not an executable file", path.display())]
    NotExecutable {
        /// As given.
        path: PathBuf,
    },
}

impl Program {
    /// The executable of this very process, even if its file has been replaced since. Only a `main`
    /// calls this: under a test harness "this process" is the harness.
    pub fn of_this_process() -> io::Result<Program> {
        let file = File::open("/proc/self/exe")?;
        let path = std::fs::read_link("/proc/self/exe")?.into_os_string();
        let bytes = path.as_bytes();
        let named = bytes.strip_suffix(DELETED).unwrap_or(bytes);
        Program::new(file, PathBuf::from(OsStr::from_bytes(named)), false)
    }

    /// Opens the executable at `path` and keeps it open.
    pub fn open(path: &Path) -> Result<Program, ProgramError> {
        Self::open_at(path, false)
    }

    /// Opens an executable that is to be started under just this name, links not followed: the
    /// `python` of a virtual environment is a link, and knows by its name where it is.
    pub fn open_by_name(path: &Path) -> Result<Program, ProgramError> {
        Self::open_at(path, true)
    }

    fn open_at(path: &Path, by_name: bool) -> Result<Program, ProgramError> {
        let failed = |error| ProgramError::Open {
            path: path.to_owned(),
            error,
        };
        let real = match by_name {
            true => std::path::absolute(path),
            false => path.canonicalize(),
        };
        let real = real.map_err(failed)?;
        let file = File::open(&real).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        if !facts.is_file() || facts.permissions().mode() & 0o111 == 0 {
            return Err(ProgramError::NotExecutable {
                path: path.to_owned(),
            });
        }
        Program::new(file, real, by_name).map_err(failed)
    }

    fn new(mut file: File, path: PathBuf, by_name: bool) -> io::Result<Program> {
        let mut head = Vec::new();
        (&mut file).take(2).read_to_end(&mut head)?;
        let inner = Inner {
            file,
            path,
            by_path: by_name || head == b"#!",
            sha256: OnceLock::new(),
        };
        Ok(Program {
            inner: Arc::new(inner),
        })
    }

    /// Where it lay when it was opened; also its `argv[0]`.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Facts of the file that was opened, also if another lies at its path by now.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.inner.file.metadata()
    }

    /// SHA-256 (hex) of the bytes that run. Computed at the first call, which reads the whole file,
    /// and kept.
    pub fn sha256(&self) -> io::Result<String> {
        if let Some(known) = self.inner.sha256.get() {
            return Ok(known.clone());
        }
        // A descriptor of its own: the offset of the shared one belongs to everybody.
        let mut file = File::open(format!("/proc/self/fd/{}", self.inner.file.as_raw_fd()))?;
        file.seek(SeekFrom::Start(0))?;
        let mut hash = Sha256::new();
        let mut block = vec![0; HASH_BLOCK_BYTES];
        loop {
            let n = file.read(&mut block)?;
            let Some(read) = block.get(..n).filter(|read| !read.is_empty()) else {
                break;
            };
            hash.update(read);
        }
        Ok(self
            .inner
            .sha256
            .get_or_init(|| hex::encode(hash.finalize()))
            .clone())
    }

    /// The descriptor, for handing it to another process.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.inner.file.as_fd()
    }

    /// Whether it is started by its path and not by its descriptor.
    pub(super) fn runs_by_path(&self) -> bool {
        self.inner.by_path
    }

    /// `argv[0]` as bytes.
    pub(super) fn arg0(&self) -> Vec<u8> {
        self.inner.path.clone().into_os_string().into_vec()
    }

    /// What to execute from *this* process.
    pub(super) fn exec_path(&self) -> PathBuf {
        if self.inner.by_path {
            self.inner.path.clone()
        } else {
            PathBuf::from(format!("/proc/self/fd/{}", self.inner.file.as_raw_fd()))
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn executable(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn hash_is_of_the_bytes_that_were_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tool");
        executable(&path, "first");
        let program = Program::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        executable(&path, "second");
        assert_eq!(
            program.sha256().unwrap(),
            hex::encode(Sha256::digest("first"))
        );
        assert_eq!(
            program.sha256().unwrap(),
            hex::encode(Sha256::digest("first"))
        );
    }

    #[test]
    fn scripts_run_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tool");
        executable(&path, "#!/bin/sh\nexit 3\n");
        let program = Program::open(&path).unwrap();
        assert_eq!(program.exec_path(), path.canonicalize().unwrap());
    }

    #[test]
    fn a_link_keeps_its_name_where_that_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("tool"), dir.path().join("link"));
        executable(&real, "ELF or so");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let by_name = Program::open_by_name(&link).unwrap();
        assert_eq!(
            (by_name.path(), by_name.exec_path()),
            (link.as_path(), link.clone())
        );
        let real = real.canonicalize().unwrap();
        assert_eq!(Program::open(&link).unwrap().path(), real);
    }

    #[test]
    fn what_cannot_run_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        std::fs::write(&plain, "x").unwrap();
        for path in [plain.as_path(), dir.path()] {
            let said = Program::open(path).unwrap_err().to_string();
            assert!(said.contains("not an executable file"), "{said}");
            assert!(said.contains(path.to_str().unwrap()), "{said}");
        }
        let said = Program::open(&dir.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(said.contains("No such file"), "{said}");
    }
}
