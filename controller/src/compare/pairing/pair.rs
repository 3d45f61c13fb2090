//! The two sides of one cell, and what was left out of them. Types only.

use serde::Serialize;

use crate::compare::judge::Design;
use crate::compare::lint::Reason;
use crate::record::RunRecord;

/// The two sides of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What is compared with.
    pub base: Group,
    /// What is judged.
    pub candidate: Group,
    /// How their runs stand against each other: paired, the i-th run of one side and the i-th of
    /// the other share a block.
    pub design: Design,
    /// How often the data may be looked at: 1, and once more for each extension that was declared.
    pub looks: u32,
    /// Runs that a rule left out, each with the rule.
    pub excluded: Vec<Excluded>,
    /// Why there are numbers and no verdict, each with what to run.
    pub withheld: Vec<String>,
    /// What already forbids the comparison.
    pub reasons: Vec<Reason>,
    /// Footnotes.
    pub notes: Vec<String>,
}

impl Pair {
    /// In which order the runs of one session ran, A the base, B the candidate: `ABBAABBAAB`. None
    /// across sessions or hosts.
    pub fn order(&self) -> Option<String> {
        let place = |run: &RunRecord| (run.session_id.clone(), run.host_fingerprint.clone());
        if place(&self.base.newest) != place(&self.candidate.newest) {
            return None;
        }
        let base = self.base.runs().map(|run| (run.position, 'A'));
        let candidate = self.candidate.runs().map(|run| (run.position, 'B'));
        let mut order: Vec<(u32, char)> = base.chain(candidate).collect();
        order.sort_unstable();
        Some(order.into_iter().map(|(_, letter)| letter).collect())
    }
}

/// A run that a rule fixed beforehand left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excluded {
    /// The run.
    pub run_id: String,
    /// `base` or `candidate`.
    pub side: &'static str,
    /// Its block.
    pub block: u32,
    /// `it failed (load): …`, `its block's other run failed`, `its GPU was throttled …`
    pub why: String,
}

/// Runs of one arm and one build in one session.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The newest.
    pub newest: RunRecord,
    /// The others, oldest first.
    pub older: Vec<RunRecord>,
}

impl Group {
    /// All its runs, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.older.iter().chain(std::iter::once(&self.newest))
    }

    pub(super) fn of(runs: &[&RunRecord]) -> Option<Self> {
        let (newest, older) = runs.split_last()?;
        Some(Self {
            newest: (*newest).clone(),
            older: older.iter().map(|run| (*run).clone()).collect(),
        })
    }
}
