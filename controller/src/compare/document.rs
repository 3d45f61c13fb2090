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
use crate::compare::provenance::Provenance;

/// All that is printed, and the JSON of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this document.
    pub schema: u32,
    /// When it was made, for people.
    pub compared_unix_ms: i64,
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

    /// Whether every cell is comparable.
    pub fn comparable(&self) -> bool {
        self.cells().all(|cell| cell.reasons.is_empty())
    }

    /// Shows only the rows of these metrics. Verdicts, the overall words and the exit code stay
    /// those of all primary metrics: what is not looked at still happened.
    ///
    /// # Errors
    /// A name that no cell has a row of; nothing is hidden then.
    pub fn show_only(&mut self, metrics: &[String]) -> Result<(), UnknownMetric> {
        let mut known: Vec<String> = Vec::new();
        for row in self.cells().flat_map(|cell| &cell.rows) {
            if !known.contains(&row.metric) {
                known.push(row.metric.clone());
            }
        }
        if let Some(name) = metrics.iter().find(|name| !known.contains(name)) {
            return Err(UnknownMetric {
                name: name.clone(),
                known: known.join(", "),
            });
        }
        self.product
            .retain(|product| metrics.contains(&product.metric));
        for cell in self.steps.iter_mut().flat_map(|step| &mut step.cells) {
            let rows = std::mem::take(&mut cell.rows);
            let (shown, hidden) = rows
                .into_iter()
                .partition(|row: &Row| metrics.contains(&row.metric));
            cell.rows = shown;
            cell.hidden = hidden;
        }
        Ok(())
    }
}

/// A metric that no cell has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no cell has the metric `{name}`; these are there: {known}")]
pub struct UnknownMetric {
    name: String,
    known: String,
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
    /// What equal runs differ by on this host, of each primary metric for which it is known.
    pub noise_floors: Vec<NoiseFloor>,
    /// All that differs between the sides, by name.
    pub differences: Vec<Difference>,
    /// Figures, ratios and verdicts.
    pub rows: Vec<Row>,
    /// Rows that were asked not to be shown. Those of primary metrics count like any other.
    #[serde(skip)]
    pub hidden: Vec<Row>,
    /// Online − offline, where that is what is compared.
    pub overhead: Option<Overhead>,
    /// How the answers agree.
    pub outputs: Outputs,
    /// Why the cell is not comparable; empty if it is.
    pub reasons: Vec<Reason>,
    /// What all of this rests on.
    pub provenance: Provenance,
    /// How often each word occurs over the primary metrics.
    pub overall: Overall,
    /// What the evidence says, in a few words.
    pub word: String,
    /// Footnotes of this cell.
    pub notes: Vec<String>,
}

impl Cell {
    /// What the sides are judged by, shown or not.
    pub fn primaries(&self) -> impl Iterator<Item = &Row> {
        let all = self.rows.iter().chain(&self.hidden);
        all.filter(|row| row.primary)
    }
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

/// The noise floor of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Name of the metric, for programs.
    pub metric: String,
    /// The same for people.
    pub label: String,
    /// What was measured.
    #[serde(flatten)]
    pub floor: Floor,
}

/// How often each word occurs over the primary metrics of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Overall {
    /// Primary metrics.
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
