//! A suite: a TOML file that describes sessions for a repository, with the gates that judge them.
//!
//! Every key is the name of a flag, so a table is read into the words of a command line, and the
//! flags' own readers decide on types and ranges: file and command line cannot drift apart. Which
//! keys there are is told by [`Keys`]; what the words mean is left to `cli`. The only I/O is reading
//! the file, and looking whether a model that it names lies beside it.

mod keys;
mod reader;
mod words;

use std::io::Read as _;
use std::path::Path;

use serde::Serialize;
use toml::de::DeTable;

use self::reader::Reader;

pub use keys::{Key, Keys, Kind};
pub use words::{Given, Words};

/// A suite is written by hand; what is longer was named by mistake.
const SUITE_BYTES_MAX: u64 = 1 << 20;

/// What a file describes, not yet judged by the flags' readers.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// What holds for every session: agents, label, repeat, order.
    pub session: Words,
    /// What is judged, in the order of the file; at least one.
    pub arms: Vec<Named>,
    /// What it is asked to do, a session each; at least one.
    pub workloads: Vec<Named>,
    /// What must hold of it.
    pub gates: Vec<Gate>,
}

/// An arm or a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// How gates and results call it.
    pub name: String,
    /// Its flags.
    pub words: Words,
}

/// Two arms that are compared after the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// Arm that is compared with.
    pub base: String,
    /// Arm that is judged.
    pub candidate: String,
    /// Only in the session of this workload; none for each.
    pub workload: Option<String>,
    /// Flags of `compare`.
    #[serde(rename = "flags")]
    pub words: Words,
}

/// What is wrong with a suite, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct SuiteError {
    /// From 1; none where it is the file as a whole.
    pub line: Option<usize>,
    /// One line.
    pub what: String,
}

impl SuiteError {
    fn whole(what: impl Into<String>) -> Self {
        Self {
            line: None,
            what: what.into(),
        }
    }

    fn at(line: usize, what: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            what: what.into(),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// It cannot be read; as [`parse`].
pub fn read(file: &Path, keys: &Keys) -> Result<Suite, SuiteError> {
    let refuse = |error: std::io::Error| SuiteError::whole(error.to_string());
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(SUITE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(refuse)?;
    if text.len() as u64 > SUITE_BYTES_MAX {
        return Err(SuiteError::whole(format!(
            "longer than {SUITE_BYTES_MAX} bytes"
        )));
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    parse(&text, keys, folder)
}

/// Reads a text; relative paths in it are relative to `folder`.
///
/// # Errors
/// The first thing that is wrong, with its table, its key and its line.
pub fn parse(text: &str, keys: &Keys, folder: &Path) -> Result<Suite, SuiteError> {
    let reader = Reader { text, keys, folder };
    let table = DeTable::parse(text).map_err(|error| {
        let what = error.message().replace('\n', " ");
        match error.span() {
            Some(span) => SuiteError::at(reader.line(&span), what),
            None => SuiteError::whole(what),
        }
    })?;
    reader.suite(table.get_ref())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
