//! From the tables of a suite to what they describe: each key known, each name one that is there.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Gate, Key, Keys, Named, Suite, SuiteError, Words, words};

/// Tables of one kind: each workload is a session of many runs.
const TABLES_MAX: usize = 100;
/// Characters of a name: it stands in tables.
const NAME_CHARS_MAX: usize = 40;

/// The text of a suite, and what it is read by.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) keys: &'a Keys,
    pub(super) folder: &'a Path,
}

/// Tables that stand in the file as often as they are needed.
const ARM: &str = "arm";
const WORKLOAD: &str = "workload";
const GATE: &str = "gate";

impl Reader<'_> {
    /// The whole file.
    pub(super) fn suite(&self, table: &DeTable<'_>) -> Result<Suite, SuiteError> {
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
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or_default();
        before.matches('\n').count() + 1
    }
}

/// A name stands in flags, in tables and in gates.
fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_alphanumeric() || "-_.+ ".contains(c);
    let edges = name.trim() == name && !name.starts_with('-');
    let chars = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&chars) && name.chars().all(fits) && edges {
        return Ok(());
    }
    Err(format!(
        "give 1 to {NAME_CHARS_MAX} letters, digits, blanks and any of - _ . +"
    ))
}
