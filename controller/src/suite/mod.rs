//! A suite: a TOML file that describes sessions for a repository, with the gates that judge them.
//!
//! Every key is the name of a flag, so a table is read into the words of a command line, and the
//! flags' own readers decide on types and ranges: file and command line cannot drift apart. Which
//! keys there are is told by [`Keys`]; what the words mean is left to `cli`. The only I/O is reading
//! the file, and looking whether a model that it names lies beside it.

mod keys;
mod words;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use keys::{Key, Keys, Kind};
pub use words::{Given, Words};

/// A suite is written by hand; what is longer was named by mistake.
const SUITE_BYTES_MAX: u64 = 1 << 20;
/// Tables of one kind: each workload is a session of many runs.
const TABLES_MAX: usize = 100;
/// Characters of a name: it stands in tables.
const NAME_CHARS_MAX: usize = 40;

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
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Arm that is compared with.
    pub base: String,
    /// Arm that is judged.
    pub candidate: String,
    /// Only in the session of this workload; none for each.
    pub workload: Option<String>,
    /// Flags of `compare`.
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

/// The text of a suite, and what it is read by.
struct Reader<'a> {
    text: &'a str,
    keys: &'a Keys,
    folder: &'a Path,
}

/// Tables that stand in the file as often as they are needed.
const ARM: &str = "arm";
const WORKLOAD: &str = "workload";
const GATE: &str = "gate";

impl Reader<'_> {
    fn suite(&self, table: &DeTable<'_>) -> Result<Suite, SuiteError> {
        // First, so that a misspelt table is told, and not the lack of it.
        let session = self.words("", table, &self.keys.session, &[ARM, WORKLOAD, GATE])?;
        let arms = self.named(table, ARM, &self.keys.arm)?;
        let workloads = self.named(table, WORKLOAD, &self.keys.workload)?;
        let gates = self.gates(table, &arms, &workloads)?;
        Ok(Suite {
            session,
            arms,
            workloads,
            gates,
        })
    }

    fn named(
        &self,
        suite: &DeTable<'_>,
        what: &str,
        keys: &[Key],
    ) -> Result<Vec<Named>, SuiteError> {
        let tables = self.tables(suite, what)?;
        if tables.is_empty() {
            return Err(SuiteError::whole(format!(
                "no [[{what}]]: a suite has at least one"
            )));
        }
        let mut names = BTreeSet::new();
        let mut all = Vec::with_capacity(tables.len());
        for (line, table) in tables {
            let name = self.required(what, line, table, "name")?;
            check_name(&name)
                .map_err(|why| SuiteError::at(line, format!("[[{what}]] name {name:?}: {why}")))?;
            if !names.insert(name.clone()) {
                return Err(SuiteError::at(
                    line,
                    format!("[[{what}]] name {name:?}: another one has it"),
                ));
            }
            let place = format!("[[{what}]] {name:?} ");
            let words = self.words(&place, table, keys, &["name"])?;
            all.push(Named { name, words });
        }
        Ok(all)
    }

    fn gates(
        &self,
        suite: &DeTable<'_>,
        arms: &[Named],
        workloads: &[Named],
    ) -> Result<Vec<Gate>, SuiteError> {
        let mut gates = Vec::new();
        for (line, table) in self.tables(suite, GATE)? {
            let known = |key: &str, what: &str, all: &[Named], name: String| {
                if all.iter().any(|one| one.name == name) {
                    return Ok(name);
                }
                let there: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                let there = there.join(", ");
                let why = format!("[[gate]] {key} {name:?}: no such {what}; there are {there}");
                Err(SuiteError::at(line, why))
            };
            let arm = |key: &str| {
                let name = self.required(GATE, line, table, key)?;
                known(key, ARM, arms, name)
            };
            let (base, candidate) = (arm("base")?, arm("candidate")?);
            if base == candidate {
                return Err(SuiteError::at(
                    line,
                    format!("[[gate]] base and candidate are both {base:?}; name two arms"),
                ));
            }
            let workload = match self.text(GATE, table, WORKLOAD)? {
                Some(name) => Some(known(WORKLOAD, WORKLOAD, workloads, name)?),
                None => None,
            };
            let own = ["base", "candidate", WORKLOAD];
            let words = self.words("[[gate]] ", table, &self.keys.gate, &own)?;
            gates.push(Gate {
                base,
                candidate,
                workload,
                words,
            });
        }
        Ok(gates)
    }

    /// The tables of this kind with their lines; none where the file has none.
    fn tables<'t, 'i>(
        &self,
        suite: &'t DeTable<'i>,
        what: &str,
    ) -> Result<Vec<(usize, &'t DeTable<'i>)>, SuiteError> {
        let Some(value) = suite.get(what) else {
            return Ok(Vec::new());
        };
        let wrong = |line| SuiteError::at(line, format!("{what}: write each as [[{what}]]"));
        let DeValue::Array(array) = value.get_ref() else {
            return Err(wrong(self.line(&value.span())));
        };
        if array.len() > TABLES_MAX {
            return Err(SuiteError::whole(format!(
                "{} of [[{what}]]; a suite has at most {TABLES_MAX}",
                array.len()
            )));
        }
        let one = |value: &'t Spanned<DeValue<'i>>| {
            let line = self.line(&value.span());
            match value.get_ref() {
                DeValue::Table(table) => Ok((line, table)),
                _ => Err(wrong(line)),
            }
        };
        array.iter().map(one).collect()
    }

    fn required(
        &self,
        what: &str,
        line: usize,
        table: &DeTable<'_>,
        key: &str,
    ) -> Result<String, SuiteError> {
        self.text(what, table, key)?
            .ok_or_else(|| SuiteError::at(line, format!("[[{what}]] has no {key}")))
    }

    fn text(
        &self,
        what: &str,
        table: &DeTable<'_>,
        key: &str,
    ) -> Result<Option<String>, SuiteError> {
        let Some(value) = table.get(key) else {
            return Ok(None);
        };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(text.to_string())),
            other => Err(SuiteError::at(
                self.line(&value.span()),
                format!(
                    "[[{what}]] {key}: give a text, not {}",
                    words::kind_of(other)
                ),
            )),
        }
    }

    /// The table's keys as flags, in the order of the keys; `own` are those that are no flags.
    fn words(
        &self,
        place: &str,
        table: &DeTable<'_>,
        keys: &[Key],
        own: &[&str],
    ) -> Result<Words, SuiteError> {
        let mut words = Words::default();
        for (name, value) in table {
            let key_name: &str = name.get_ref();
            if own.contains(&key_name) {
                continue;
            }
            let line = self.line(&name.span());
            let refuse = |why: String| SuiteError::at(line, format!("{place}{key_name}: {why}"));
            let Some(key) = keys.iter().find(|key| key.name == key_name) else {
                let there = own.iter().copied();
                let there: Vec<&str> = there.chain(keys.iter().map(|k| k.name.as_str())).collect();
                return Err(refuse(format!(
                    "no such key; there are {}",
                    there.join(", ")
                )));
            };
            words
                .add(key, line, value.get_ref(), self.folder)
                .map_err(refuse)?;
        }
        Ok(words)
    }

    /// From 1.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or_default();
        before.matches('\n').count() + 1
    }
}

/// A name is a word: it stands in flags, in tables and in gates.
fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    if name.is_empty() || !name.chars().all(fits) || name.chars().count() > NAME_CHARS_MAX {
        return Err(format!(
            "give 1 to {NAME_CHARS_MAX} letters, digits and any of - _ . +"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
