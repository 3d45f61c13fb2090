//! Files that hold the work of a run, read into a [`PromptSource`]: prompts, data sets,
//! conversations, traces. A function each, with a pure parser under it.
//!
//! Which flag names a file, and what else goes into a workload, is the command line's matter;
//! what the prompts become on the wire is the agent's.

mod conversations;
mod documents;
mod length;
mod sharegpt;
mod texts;
mod trace;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use contracts::defaults;
use contracts::run::PromptSource;

pub use self::conversations::conversations;
pub use self::length::length;
pub use self::sharegpt::sharegpt;
pub use self::texts::texts;
pub use self::trace::trace;

/// A file whose whole content travels to the agent, in bytes, at most: the body that carries it
/// has the same limit.
const FILE_BYTES_MAX: u64 = defaults::BODY_BYTES_MAX as u64;

/// What was read from a file of which not every entry is a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The prompts.
    pub source: PromptSource,
    /// Entries that hold no usable prompt.
    pub skipped: usize,
    /// Usable entries that were not taken, since enough were.
    pub left_out: usize,
}

/// A file that cannot be used: which, where in it, and what is expected there.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

/// What is wrong within a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// At one place (`line 3`, `entry 3`).
    #[error("{place}: {message}")]
    At {
        /// Where.
        place: Place,
        /// What is expected.
        message: String,
    },
    /// With all of it.
    #[error("{0}")]
    Whole(String),
}

/// A place in a file, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line.
    Line(usize),
    /// An element of a JSON array.
    Entry(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

impl Place {
    fn fault(self, message: impl Into<String>) -> Fault {
        Fault::At {
            place: self,
            message: message.into(),
        }
    }
}

/// Opens `file`, at most `bytes_max` long, and hands it to `parse`.
fn read<T>(
    file: &Path,
    bytes_max: u64,
    parse: impl FnOnce(BufReader<std::io::Take<File>>) -> Result<T, Fault>,
) -> Result<T, FileError> {
    let opened = File::open(file).and_then(|opened| Ok((opened.metadata()?.len(), opened)));
    let parsed = match opened {
        Ok((bytes, _)) if bytes > bytes_max => {
            Err(Fault::Whole(format!("larger than {bytes_max} bytes")))
        }
        // What is no plain file has no length beforehand: the limit holds while reading too.
        Ok((_, opened)) => parse(BufReader::new(opened.take(bytes_max))),
        Err(error) => Err(Fault::Whole(error.to_string())),
    };
    parsed.map_err(|fault| FileError {
        file: file.to_owned(),
        fault,
    })
}

/// Refuses a text that cannot be a prompt.
fn check_text(place: Place, text: &str) -> Result<(), Fault> {
    let most = defaults::PROMPT_BYTES_MAX;
    if text.is_empty() || text.len() > most {
        let message = format!("{} bytes; a prompt has 1 to {most}", text.len());
        return Err(place.fault(message));
    }
    Ok(())
}

/// Refuses none, and more than a spec may hold.
fn check_count(count: usize, what: &str) -> Result<(), Fault> {
    let most = defaults::PROMPTS_MAX;
    match count {
        0 => Err(Fault::Whole(format!("no {what} in it"))),
        n if n > most => Err(Fault::Whole(format!("more than {most} {what}s"))),
        _ => Ok(()),
    }
}

/// What a parser said, as a user reads it.
#[cfg(test)]
fn told<T: std::fmt::Debug>(result: Result<T, Fault>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(fault) => fault.to_string(),
    }
}
