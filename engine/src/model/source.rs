//! What a model's name means: a directory, a `.gguf` file, a hub id, or a dummy.

use std::path::{Path, PathBuf};

use super::{dummy, hub};
use crate::error::EngineError;

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `dummy:NAME`; the name without the prefix.
    Dummy(String),
    /// A directory in Hugging Face layout.
    Directory(PathBuf),
    /// A `.gguf` file.
    Gguf(PathBuf),
    /// `org/name`.
    Hub(String),
}

impl Source {
    /// A path that exists is a path; else what has the form of a hub id is one.
    pub fn of(name: &str) -> Result<Self, EngineError> {
        if let Some(dummy) = name.strip_prefix(dummy::PREFIX) {
            return Ok(Self::Dummy(dummy.to_owned()));
        }
        let path = Path::new(name);
        let is_gguf = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        if path.is_dir() {
            return absolute(path, name).map(Self::Directory);
        }
        if path.exists() {
            return match is_gguf {
                true => absolute(path, name).map(Self::Gguf),
                false => Err(EngineError::model(
                    name,
                    "is neither a directory nor a .gguf file",
                )),
            };
        }
        if !is_gguf && hub::is_id(name) {
            return Ok(Self::Hub(name.to_owned()));
        }
        Err(EngineError::model(
            name,
            "no such directory or file; a model is a directory, a .gguf file, a hub id org/name, or dummy:tiny-llm",
        ))
    }

    /// The model as it would be loaded: an absolute path, or the name.
    pub fn canonical(&self) -> String {
        match self {
            Self::Dummy(name) => format!("{}{name}", dummy::PREFIX),
            Self::Directory(path) | Self::Gguf(path) => path.to_string_lossy().into_owned(),
            Self::Hub(id) => id.clone(),
        }
    }
}

fn absolute(path: &Path, name: &str) -> Result<PathBuf, EngineError> {
    path.canonicalize()
        .map_err(|error| EngineError::model(name, error.to_string()))
}
