//! A file that is written whole or not at all: beside its place first, then moved there.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// What a new file's rights are before the user's mask.
const MODE: u32 = 0o666;

/// A file that is being written. Dropped before [`OutputFile::finish`], it leaves what was there.
#[derive(Debug)]
pub enum OutputFile {
    /// Beside its place.
    Beside {
        /// What is written.
        new: NamedTempFile,
        /// Its place.
        path: PathBuf,
    },
    /// A device or a pipe: nothing can be put in its place.
    Itself {
        /// What is written to.
        file: File,
        /// Its place.
        path: PathBuf,
    },
}

impl OutputFile {
    /// Begins the file; its folder must be there and take files.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        // Through a link, so that the link stays one.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if path.exists() && !path.is_file() {
            let file = File::create(&path)?;
            return Ok(Self::Itself { file, path });
        }
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let why = format!("there is no folder {}", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        let new = tempfile::Builder::new()
            .prefix(".chapterbench-")
            .suffix(".part")
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Self::Beside { new, path })
    }

    /// What to write to.
    ///
    /// # Errors
    /// What the system says.
    pub fn sink(&self) -> io::Result<File> {
        match self {
            Self::Beside { new, .. } => new.as_file().try_clone(),
            Self::Itself { file, .. } => file.try_clone(),
        }
    }

    /// Where what is written lies now.
    pub fn path(&self) -> &Path {
        match self {
            Self::Beside { new, .. } => new.path(),
            Self::Itself { path, .. } => path,
        }
    }

    /// Puts it in its place, over what was there.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self) -> io::Result<()> {
        let Self::Beside { new, path } = self else {
            return Ok(());
        };
        new.as_file().sync_all()?;
        new.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Puts it in its place, where nothing may be yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; what the system says.
    pub fn finish_new(self) -> io::Result<()> {
        let Self::Beside { new, path } = self else {
            return Err(io::ErrorKind::AlreadyExists.into());
        };
        new.as_file().sync_all()?;
        new.persist_noclobber(path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let output = OutputFile::create(&path).unwrap();
        output.sink().unwrap().write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert!(names(folder.path()).is_empty(), "and nothing is left");

        for text in ["one", "two"] {
            let output = OutputFile::create(&path).unwrap();
            output.sink().unwrap().write_all(text.as_bytes()).unwrap();
            output.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let again = OutputFile::create(&path).unwrap().finish_new();
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(folder.path()), ["a.json"]);
        assert!(OutputFile::create(folder.path()).is_err());
        let device = OutputFile::create(Path::new("/dev/null")).unwrap();
        assert!(matches!(device, OutputFile::Itself { .. }));
    }
}
