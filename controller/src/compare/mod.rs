//! Two sides of stored runs, cell by cell: figures, ratios, differences, and what forbids them.
//!
//! 1. [`pairing::pair`] chooses from all runs which ones stand against each other;
//! 2. the caller loads their samples;
//! 3. [`compare`] turns them into a [`Comparison`], which [`crate::show::compare`] puts into words.
//!
//! A pair of runs has no statistics: requests inside one run are not independent, so there is
//! no verdict from one run a side. All is pure: no I/O, no clock.

pub mod cell;
mod facts;
pub mod judge;
pub mod lint;
pub mod noise;
pub mod outputs;
pub mod pairing;
mod reduced;
pub mod work;

use std::collections::BTreeMap;

use contracts::run::{Mode, Soundness};
use contracts::sample::Sample;
use serde::Serialize;

use crate::compare::cell::{Overhead, Row};
pub use crate::compare::facts::workload_facts;
use crate::compare::lint::{Difference, Reason};
use crate::compare::outputs::Outputs;
use crate::compare::pairing::{Group, Pair, Pairing};
pub use crate::compare::work::workload_words;
use crate::record::{RunRecord, RunWithSamples};
use crate::selector::SelectorError;
use crate::show::validity;
use crate::stats::bench::measured;
use crate::stats::gaps::GapCounts;

/// Why there is nothing to compare at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A selector selects nothing, or several ids.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Only runs that are under way or were cancelled.
    #[error(
        "`{word}` matches no run that has ended by itself; `controller runs` shows their states"
    )]
    NotEnded {
        /// The selector.
        word: String,
    },
}

/// All that is printed, and the JSON of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this document.
    pub schema: u32,
    /// Selector of the base.
    pub base: String,
    /// Selector of the candidate.
    pub candidate: String,
    /// At least one, the newest first.
    pub cells: Vec<Cell>,
    /// What was left out, one line each.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Whether every cell is comparable; if not, the exit code is 11.
    pub fn comparable(&self) -> bool {
        self.cells.iter().all(|cell| cell.reasons.is_empty())
    }
}

/// One workload on one host: both sides, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// What the ratio says: one engine against another, or the layer between two modes.
    pub kind: CellKind,
    /// Key of the workload; that of the base if they differ.
    pub workload_key: String,
    /// The workload in words; that of the base if they differ.
    pub workload: String,
    /// For people.
    pub hostname: String,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// What is compared with.
    pub base: Side,
    /// What is judged.
    pub candidate: Side,
    /// All that differs between the sides, by name.
    pub differences: Vec<Difference>,
    /// Figures, ratios and differences.
    pub rows: Vec<Row>,
    /// Online − offline, where that is what is compared.
    pub overhead: Option<Overhead>,
    /// How the answers agree.
    pub outputs: Outputs,
    /// Why the cell is not comparable; empty if it is.
    pub reasons: Vec<Reason>,
    /// What the evidence says, in a few words.
    pub word: String,
    /// Footnotes of this cell.
    pub notes: Vec<String>,
}

/// What a cell compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// Two engines, builds or arms.
    Engines,
    /// One engine, offline and online: the cost of the network and server layer.
    NetworkLayer,
}

/// One side of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// `ch01`, or an engine's name.
    pub engine: String,
    /// How it was driven.
    pub mode: Mode,
    /// Name of the agent.
    pub agent: String,
    /// Build of the engine, if it is known.
    pub build: Option<String>,
    /// Session of its runs.
    pub session_id: String,
    /// Arm in that session.
    pub arm: String,
    /// Its runs, oldest first.
    pub run_ids: Vec<String>,
    /// Measured requests that succeeded, over all its runs.
    pub requests: u32,
    /// Measured requests that failed.
    pub failed_requests: u32,
    /// When its newest run was made, for people.
    pub created_unix_ms: i64,
}

/// A run of a side with its samples, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Its samples.
    pub samples: &'a [Sample],
    /// Gaps between its answers' events.
    pub gaps: &'a GapCounts,
}

/// The runs of a comparison by id, with texts and token ids where answers are to be compared.
pub type Runs = BTreeMap<String, RunWithSamples>;

/// Compares the pairs that were chosen. `samples` holds each run of [`Pairing::run_ids`]; `same_tokens` says of a chapter's id whether it promises the baseline's
/// greedy tokens.
pub fn compare(
    pairing: &Pairing,
    samples: &Runs,
    same_tokens: &dyn Fn(&str) -> bool,
) -> Comparison {
    let cells = pairing
        .pairs
        .iter()
        .map(|pair| compare_pair(pairing.across_modes, pair, samples, same_tokens))
        .collect();
    Comparison {
        schema: contracts::SCHEMA,
        base: pairing.base.to_string(),
        candidate: pairing.candidate.to_string(),
        cells,
        notes: pairing.notes.clone(),
    }
}

fn compare_pair(
    across_modes: bool,
    pair: &Pair,
    samples: &Runs,
    same_tokens: &dyn Fn(&str) -> bool,
) -> Cell {
    let base = load(&pair.base, samples);
    let candidate = load(&pair.candidate, samples);
    let (base_run, candidate_run) = (&pair.base.newest, &pair.candidate.newest);
    let differences = lint::differences(
        &with_samples(base_run, samples),
        &with_samples(candidate_run, samples),
    );
    let outputs = outputs::judge(&base, &candidate);

    let mut reasons = pair.reasons.clone();
    reasons.extend(lint::reasons(
        base_run,
        candidate_run,
        across_modes,
        &differences,
    ));
    for (name, runs) in [("base", &base), ("candidate", &candidate)] {
        reasons.extend(runs.iter().flat_map(|run| lint::faults(name, run)));
        reasons.extend(
            runs.iter()
                .flat_map(|run| lint::client_bound(name, run.run)),
        );
    }
    if outputs.parted > 0 && lint::must_agree(base_run, candidate_run, same_tokens) {
        reasons.push(Reason::outputs_differ(&outputs, base_run, candidate_run));
    }

    let mut notes = pair.notes.clone();
    for (name, runs) in [("base", &base), ("candidate", &candidate)] {
        notes.extend(runs.iter().flat_map(|run| doubts(name, run.run)));
    }

    let kind = kind(base_run, candidate_run);
    let comparable = reasons.is_empty();
    let layer = comparable && kind == CellKind::NetworkLayer;
    Cell {
        kind,
        workload_key: base_run.workload_key.clone(),
        workload: workload_words(&base_run.status.spec.workload),
        hostname: base_run.hostname.clone(),
        host_fingerprint: base_run.host_fingerprint.clone(),
        base: side(&pair.base, &base),
        candidate: side(&pair.candidate, &candidate),
        differences,
        rows: cell::rows(&base, &candidate, comparable),
        overhead: layer.then(|| cell::overhead(&base, &candidate)),
        outputs,
        word: word(&reasons, base.len(), candidate.len()),
        reasons,
        notes,
    }
}

/// A run's doubts go wherever its figures go.
fn doubts(side: &str, run: &RunRecord) -> Vec<String> {
    let mut doubts = Vec::new();
    if run.status.validity.verdict == Soundness::Degraded {
        let verdict = validity::verdict(&run.status.validity);
        doubts.push(format!("the {side}'s run {} is {verdict}", run.run_id));
    }
    let warnings = validity::other_warnings(&run.status);
    doubts.extend(warnings.map(|w| format!("the {side}'s run {}: {}", run.run_id, w.message)));
    doubts
}

fn load<'a>(group: &'a Group, samples: &'a Runs) -> Vec<Measured<'a>> {
    group.runs().map(|run| with_samples(run, samples)).collect()
}

fn with_samples<'a>(run: &'a RunRecord, samples: &'a Runs) -> Measured<'a> {
    static NO_GAPS: GapCounts = GapCounts::EMPTY;
    match samples.get(&run.run_id) {
        Some(loaded) => Measured {
            run,
            samples: &loaded.samples,
            gaps: &loaded.gaps,
        },
        None => Measured {
            run,
            samples: &[],
            gaps: &NO_GAPS,
        },
    }
}

/// The same engine in two modes is the layer between them, anything else is two engines.
fn kind(base: &RunRecord, candidate: &RunRecord) -> CellKind {
    let (base, candidate) = (&base.status.spec.arm, &candidate.status.spec.arm);
    if base.engine == candidate.engine && base.mode != candidate.mode {
        CellKind::NetworkLayer
    } else {
        CellKind::Engines
    }
}

fn side(group: &Group, runs: &[Measured<'_>]) -> Side {
    let newest = &group.newest;
    let provenance = newest.status.provenance.as_ref();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let succeeded = runs.iter().map(|run| measured(run.samples).count()).sum();
    let failed = runs.iter().map(|run| lint::failed_requests(run)).sum();
    Side {
        engine: newest.engine.clone(),
        mode: newest.status.spec.arm.mode,
        agent: newest.agent_name.clone(),
        build: provenance.and_then(|p| p.engine_build.clone()),
        session_id: newest.session_id.clone(),
        arm: newest.arm_letter.clone(),
        run_ids: group.runs().map(|run| run.run_id.clone()).collect(),
        requests: count(succeeded),
        failed_requests: count(failed),
        created_unix_ms: newest.created_unix_ms,
    }
}

/// Without intervals there is no verdict, and the words say why.
fn word(reasons: &[Reason], base_runs: usize, candidate_runs: usize) -> String {
    if !reasons.is_empty() {
        let reasons: Vec<&str> = reasons.iter().map(|r| r.message.as_str()).collect();
        return format!("NOT COMPARABLE: {}", reasons.join("; "));
    }
    match (base_runs, candidate_runs) {
        (1, 1) => "no verdict: one run a side".to_owned(),
        (b, c) if b == c => {
            format!("no verdict: {b} runs a side, intervals are not computed yet")
        }
        (b, c) => {
            format!("no verdict: {b} and {c} runs a side, intervals are not computed yet")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
