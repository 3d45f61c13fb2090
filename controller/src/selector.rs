//! Words that select runs: `ch01`, `engine:vllm:online`, `run:01J…`, `label:nightly@box%3fa1c2#a`,
//! `file:lab.json:offline`.
//!
//! A selector is a head (what) and suffixes (which of those), in any order, each at most once:
//! `:offline` or `:online`, `@agent`, `%BUILD`, `#arm`. Which of the selected runs are used is
//! [`crate::compare::pairing`]'s business.
//!
//! The URL of `url:http://host:8000/v1:online@box` ends where the first suffix begins: at an `@`, a
//! `%`, a `#`, or at `:offline` or `:online` before another suffix or the end. Its other colons are its
//! own. `/v1` and slashes at its end change nothing. A URL that itself has one of the marks is
//! selected by its run, session or label.
//!
//! The path of `file:` ends in the same way; a file whose name has one of the marks is given another
//! name first. `file:` selects from that file, every other head from the database.

use std::fmt;
use std::str::FromStr;

use contracts::run::{EngineRef, Mode};

use crate::record::RunRecord;

/// All that a selector may be, for messages.
const ALLOWED: &str = "ch01, engine:NAME, url:URL, label:NAME, file:PATH, run:ID or session:ID (any unique prefix), \
                       each with :offline or :online, @AGENT, %BUILD, #ARM";

/// What a selector says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// Which runs in the large.
    pub head: Head,
    /// Only runs of this mode.
    pub mode: Option<Mode>,
    /// Only runs of the agent of this name.
    pub agent: Option<String>,
    /// Only builds whose commit, version or executable's SHA-256 starts with this.
    pub build: Option<String>,
    /// Only this arm of its session.
    pub arm: Option<String>,
}

/// Which runs in the large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A chapter of the agent's own build, by its id.
    Chapter(String),
    /// An engine by name.
    Engine(String),
    /// A server that ran already, by its address without `/v1`.
    Url(String),
    /// A label.
    Label(String),
    /// Start of a run's id.
    Run(String),
    /// Start of a session's id.
    Session(String),
    /// An export, or another database, by its path.
    File(String),
}

/// Why a word is no selector, or selects nothing that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not one of the heads.
    #[error("`{word}` is not a selector; allowed: {ALLOWED}")]
    UnknownHead {
        /// The word given.
        word: String,
    },
    /// A suffix that is not one of the four, or one with nothing in it.
    #[error("`{suffix}` in `{word}` is not a suffix of a selector; allowed: {ALLOWED}")]
    UnknownSuffix {
        /// The suffix.
        suffix: String,
        /// The word given.
        word: String,
    },
    /// The same kind of suffix twice.
    #[error("`{word}` has two suffixes of the kind `{suffix}`; give one")]
    Twice {
        /// The second one.
        suffix: String,
        /// The word given.
        word: String,
    },
    /// No run matches.
    #[error("no run matches `{word}`; `controller runs` lists what there is")]
    Nothing {
        /// The selector.
        word: String,
    },
    /// A prefix of several ids.
    #[error("`{word}` is the start of several ids: {}; give more of it", ids.join(", "))]
    Ambiguous {
        /// The selector.
        word: String,
        /// Some of them.
        ids: Vec<String>,
    },
}

/// Ids that an [`SelectorError::Ambiguous`] lists at most: enough to see where they part.
const AMBIGUOUS_SHOWN: usize = 5;

impl Selector {
    /// Reads a selector. Chapters may be written `ch01`, `ch1`, `01` or `1`.
    pub fn parse(word: &str) -> Result<Self, SelectorError> {
        let (head, suffixes) = read_head(word)?;
        let mut selector = Self {
            head,
            mode: None,
            agent: None,
            build: None,
            arm: None,
        };
        for suffix in split_suffixes(suffixes) {
            selector.take_suffix(suffix, word)?;
        }
        Ok(selector)
    }

    fn take_suffix(&mut self, suffix: &str, word: &str) -> Result<(), SelectorError> {
        let unknown = || SelectorError::UnknownSuffix {
            suffix: suffix.to_owned(),
            word: word.to_owned(),
        };
        let mut rest = suffix.chars();
        let mark = rest.next();
        let value = rest.as_str();
        if value.is_empty() {
            return Err(unknown());
        }
        let twice = match mark {
            Some(':') => {
                let mode = match value {
                    "offline" => Mode::Offline,
                    "online" => Mode::Online,
                    _ => return Err(unknown()),
                };
                self.mode.replace(mode).is_some()
            }
            Some('@') => self.agent.replace(value.to_owned()).is_some(),
            Some('%') => self.build.replace(value.to_owned()).is_some(),
            Some('#') => self.arm.replace(value.to_owned()).is_some(),
            _ => return Err(unknown()),
        };
        if twice {
            return Err(SelectorError::Twice {
                suffix: suffix.to_owned(),
                word: word.to_owned(),
            });
        }
        Ok(())
    }

    /// Whether a run is one of those meant.
    pub fn matches(&self, run: &RunRecord) -> bool {
        let spec = &run.status.spec;
        let head = match &self.head {
            Head::Chapter(id) => {
                matches!(&spec.arm.engine, EngineRef::Chapter { id: of_run } if of_run == id)
            }
            Head::Engine(name) => run.engine == *name,
            Head::Url(wanted) => {
                matches!(&spec.arm.engine, EngineRef::Url { url, .. } if bare_url(url) == wanted)
            }
            Head::Label(label) => run.label.as_ref() == Some(label),
            Head::Run(prefix) => starts_with_id(&run.run_id, prefix),
            Head::Session(prefix) => starts_with_id(&run.session_id, prefix),
            Head::File(path) => run.file.as_ref() == Some(path),
        };
        let from_file = matches!(self.head, Head::File(_));
        head && from_file == run.file.is_some()
            && self.mode.is_none_or(|mode| mode == spec.arm.mode)
            && self.agent.as_ref().is_none_or(|a| *a == run.agent_name)
            && self.arm.as_ref().is_none_or(|arm| *arm == run.arm_letter)
            && self.build.as_ref().is_none_or(|b| build_matches(run, b))
    }

    /// The runs meant, in the order given. An error if there is none, or if a prefix of an id is
    /// the start of several.
    pub fn select<'a>(&self, runs: &'a [RunRecord]) -> Result<Vec<&'a RunRecord>, SelectorError> {
        let selected: Vec<&RunRecord> = runs.iter().filter(|run| self.matches(run)).collect();
        if selected.is_empty() {
            return Err(SelectorError::Nothing {
                word: self.to_string(),
            });
        }
        let mut ids: Vec<String> = match self.head {
            Head::Run(_) => selected.iter().map(|run| run.run_id.clone()).collect(),
            Head::Session(_) => selected.iter().map(|run| run.session_id.clone()).collect(),
            _ => return Ok(selected),
        };
        ids.sort();
        ids.dedup();
        if ids.len() > 1 {
            ids.truncate(AMBIGUOUS_SHOWN);
            return Err(SelectorError::Ambiguous {
                word: self.to_string(),
                ids,
            });
        }
        Ok(selected)
    }

    /// Whether it says itself which mode its runs have, so that two such selectors may be compared
    /// across modes.
    pub fn pins_mode(&self) -> bool {
        self.mode.is_some() || self.arm.is_some() || matches!(self.head, Head::Run(_))
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::parse(word)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.head {
            Head::Chapter(id) => write!(f, "{id}")?,
            Head::Engine(name) => write!(f, "engine:{name}")?,
            Head::Url(url) => write!(f, "url:{url}")?,
            Head::Label(label) => write!(f, "label:{label}")?,
            Head::Run(id) => write!(f, "run:{id}")?,
            Head::Session(id) => write!(f, "session:{id}")?,
            Head::File(path) => write!(f, "file:{path}")?,
        }
        match self.mode {
            Some(Mode::Offline) => write!(f, ":offline")?,
            Some(Mode::Online) => write!(f, ":online")?,
            None => {}
        }
        for (mark, value) in [('@', &self.agent), ('%', &self.build), ('#', &self.arm)] {
            if let Some(value) = value {
                write!(f, "{mark}{value}")?;
            }
        }
        Ok(())
    }
}

fn is_mark(c: char) -> bool {
    matches!(c, ':' | '@' | '%' | '#')
}

/// A head's prefix, and what makes it of the name that follows.
type HeadKind = (&'static str, fn(String) -> Head);

/// The head, and the suffixes still in one piece.
fn read_head(word: &str) -> Result<(Head, &str), SelectorError> {
    let unknown = || SelectorError::UnknownHead {
        word: word.to_owned(),
    };
    let kinds: [HeadKind; 4] = [
        ("engine:", Head::Engine),
        ("label:", Head::Label),
        ("run:", Head::Run),
        ("session:", Head::Session),
    ];
    if let Some(rest) = word.strip_prefix("url:") {
        let (url, suffixes) = rest.split_at(name_end(rest));
        let named = url.split_once("://").filter(|(scheme, host)| {
            matches!(*scheme, "http" | "https") && !host.trim_matches('/').is_empty()
        });
        named.ok_or_else(unknown)?;
        return Ok((Head::Url(bare_url(url).to_owned()), suffixes));
    }
    if let Some(rest) = word.strip_prefix("file:") {
        let (path, suffixes) = rest.split_at(name_end(rest));
        if path.is_empty() {
            return Err(unknown());
        }
        return Ok((Head::File(path.to_owned()), suffixes));
    }
    for (kind, make) in kinds {
        if let Some(rest) = word.strip_prefix(kind) {
            let (name, suffixes) = rest.split_at(rest.find(is_mark).unwrap_or(rest.len()));
            if name.is_empty() {
                return Err(unknown());
            }
            return Ok((make(name.to_owned()), suffixes));
        }
    }
    let (name, suffixes) = word.split_at(word.find(is_mark).unwrap_or(word.len()));
    let id = chapter_id(name).ok_or_else(unknown)?;
    Ok((Head::Chapter(id), suffixes))
}

/// Where the URL or path ends that `rest` begins with.
fn name_end(rest: &str) -> usize {
    let ends = |(at, mark): &(usize, char)| {
        let after = rest.get(at + mark.len_utf8()..).unwrap_or_default();
        let mode = after.split(is_mark).next().unwrap_or_default();
        *mark != ':' || matches!(mode, "offline" | "online")
    };
    let mut marks = rest.char_indices().filter(|(_, c)| is_mark(*c));
    marks.find(ends).map_or(rest.len(), |(at, _)| at)
}

/// An address without what users may or may not write at its end.
fn bare_url(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v1").unwrap_or(url).trim_end_matches('/')
}

/// `ch01` for `ch01`, `ch1`, `01` and `1`; `fake` for the tests' chapter. Whether a chapter of
/// that number exists shows when no run has it.
pub(crate) fn chapter_id(name: &str) -> Option<String> {
    if name == "fake" {
        return Some(name.to_owned());
    }
    let digits = name.strip_prefix("ch").unwrap_or(name);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u8 = digits.parse().ok().filter(|_| plain)?;
    Some(format!("ch{number:02}"))
}

/// Pieces that each begin with a mark.
fn split_suffixes(mut rest: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while let Some(mark) = rest.chars().next() {
        let value = rest.get(mark.len_utf8()..).unwrap_or_default();
        let end = value.find(is_mark).unwrap_or(value.len()) + mark.len_utf8();
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// ULIDs are written in upper case; people type what they like.
fn starts_with_id(id: &str, prefix: &str) -> bool {
    id.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn build_matches(run: &RunRecord, wanted: &str) -> bool {
    let Some(provenance) = &run.status.provenance else {
        return false;
    };
    let build = provenance.engine_build.as_deref().unwrap_or_default();
    let commit = build.split_once('+').map_or("", |(_, commit)| commit);
    let binary = provenance.engine_binary_sha256.as_deref();
    [build, commit, binary.unwrap_or_default()]
        .iter()
        .any(|text| text.starts_with(wanted))
}

#[cfg(test)]
mod tests;
