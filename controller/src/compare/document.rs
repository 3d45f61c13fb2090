//! All that a comparison says: what text, Markdown and JSON are made of. Types only.
//!
//! [`super::compare`] makes it; [`crate::show::compare`] puts it into words.

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::Options;
use crate::compare::cell::Row;
use crate::compare::judge::{Design, Floor, Rules};
use crate::compare::lint::{Difference, Reason};
use crate::compare::outputs::Outputs;
use crate::compare::overhead::Overhead;
use crate::compare::pairing::Excluded;
use crate::compare::product::Product;

/// All that is printed, and the JSON of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this document.
    pub schema: u32,
    /// By which rules it was judged.
    pub rules: Options,
    /// One for two sides; for more, one for each candidate, in the order of the selectors.
    pub steps: Vec<Step>,
    /// What the steps come to together; only where each is compared with the one before it.
    pub product: Vec<Product>,
}

impl Comparison {
    /// All cells of all steps.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.steps.iter().flat_map(|step| &step.cells)
    }

    /// Whether every cell is comparable; if not, the exit code is 11.
    pub fn comparable(&self) -> bool {
        self.cells().all(|cell| cell.reasons.is_empty())
    }
}

/// One candidate against one base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Selector of the base.
    pub base: String,
    /// Selector of the candidate.
    pub candidate: String,
    /// At least one, the newest first.
    pub cells: Vec<Cell>,
    /// What was left out, one line each.
    pub notes: Vec<String>,
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
    /// How the runs of the sides stand against each other.
    pub design: Design,
    /// In which order the used runs of one session ran, A the base, B the candidate: `ABBAABBAAB`.
    /// None across sessions.
    pub order: Option<String>,
    /// Alpha, margin and looks of this cell; each look has alpha / looks.
    pub rules: Rules,
    /// Runs that a rule left out.
    pub excluded: Vec<Excluded>,
    /// Why there are numbers and no verdict; empty where there is one, or where the cell is not
    /// comparable.
    pub withheld: Vec<String>,
    /// What equal runs differ by on this host, of the first primary metric that has it.
    pub noise_floor: Option<Floor>,
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
    /// How often each word occurs over the primary metrics.
    pub overall: Overall,
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
    /// The export that its runs were read from; none for the database.
    pub file: Option<String>,
}

/// How often each word occurs over the primary metrics of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Overall {
    /// Primary metrics that are shown.
    pub primary: u32,
    /// FASTER.
    pub faster: u32,
    /// SLOWER.
    pub slower: u32,
    /// EQUIVALENT.
    pub equivalent: u32,
    /// NO DIFFERENCE SHOWN.
    pub undecided: u32,
    /// No verdict.
    pub none: u32,
}
