//! The rows of one cell: each metric's runs on both sides, their figures and ratio, and what is said of it.
//!
//! The run is the unit: a side has one value a run, and requests of different runs are never pooled.
//! A side's figure is the geometric mean of its runs, so that the printed ratio is that of the printed
//! figures. `metrics` says which metrics there are, `family` judges them.

mod family;
mod metrics;

pub use metrics::known_metric;

use serde::Serialize;

use crate::compare::Measured;
use crate::compare::judge::{Better, Design, Effect, Floor, Rules, Verdict};
use crate::compare::reduced::Reduced;
use crate::record::RunRecord;

/// One metric of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// For programs: `req_per_s`, `wall_ms`, `wall_ms_p50`, …
    pub metric: String,
    /// For people.
    pub label: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// Which direction is good; none where neither is.
    pub better: Option<Better>,
    /// Whether the sides are judged by it; all else is exploratory and has no verdict.
    pub primary: bool,
    /// The base's figure.
    pub base: Figure,
    /// The candidate's.
    pub candidate: Figure,
    /// What the base's figure is made of, in the order of the runs.
    pub base_runs: Vec<RunValue>,
    /// What the candidate's is made of.
    pub candidate_runs: Vec<RunValue>,
    /// Candidate / base, of the figures; none where they may not be compared.
    pub ratio: Option<f64>,
    /// The ratio with its intervals, from enough runs a side.
    pub effect: Option<Effect>,
    /// One run a side: the ratio of their requests, which says nothing of other runs.
    pub within_pair: Option<WithinPair>,
    /// What the runs say of it; none of an exploratory row and where the sides are not comparable.
    pub verdict: Option<Verdict>,
    /// Why there is no ratio although both have figures, or why it is not judged.
    pub note: Option<String>,
}

impl Row {
    /// Whether it rests on a count of tokens.
    fn counts_tokens(&self) -> bool {
        matches!(self.unit, Unit::TokPerS | Unit::Tokens) || self.metric == "tpot_ms"
    }

    /// Takes back a ratio that would say something false.
    fn withhold(&mut self, why: &str) {
        if self.ratio.take().is_some() {
            self.note = Some(why.to_owned());
        }
    }
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Completed requests per second.
    #[serde(rename = "req/s")]
    ReqPerS,
    /// Output tokens per second.
    #[serde(rename = "tok/s")]
    TokPerS,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
    /// Tokens of an answer.
    #[serde(rename = "tokens")]
    Tokens,
}

/// A side's figure, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Geometric mean of the runs' values; the arithmetic one where a value has no logarithm.
    pub value: Option<f64>,
    /// Spread of the runs, as a share: the standard deviation of the values' natural logarithms.
    /// None of one run.
    pub spread: Option<f64>,
    /// `not measured`, `n/a (needs ≥ 368, has 100)`.
    pub missing: Option<String>,
}

/// One run's value of a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunValue {
    /// The run.
    pub run_id: String,
    /// Its pass over the session's arms.
    pub block: u32,
    /// In the row's unit.
    pub value: f64,
}

/// The ratio of two runs' requests by Hodges and Lehmann. Requests of one run are not independent,
/// so the interval is of this pair of runs and of no others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithinPair {
    /// Candidate / base.
    pub ratio: f64,
    /// Where it would lie at 95 % if requests were independent, which they are not.
    pub interval: (f64, f64),
}

/// On what terms the sides of a cell are judged.
#[derive(Clone, Copy)]
pub struct Terms<'t> {
    /// Whether there may be ratios.
    pub comparable: bool,
    /// Why there is no verdict although there are ratios.
    pub withheld: Option<&'t str>,
    /// How the runs stand against each other; paired sides have their runs in the blocks' order.
    pub design: Design,
    /// Alpha, margin and looks.
    pub rules: Rules,
    /// What equal runs differ by, by a metric's name.
    pub floor: &'t dyn Fn(&str) -> Option<Floor>,
}

/// A run that measured something, with its values.
struct Run<'a> {
    record: &'a RunRecord,
    reduced: Reduced,
    /// Of its requests, in their order; empty of a run of very many.
    walls_ms: &'a [f64],
}

/// All rows. Metrics that neither side has are left out.
pub fn rows(base: &[Measured<'_>], candidate: &[Measured<'_>], terms: &Terms<'_>) -> Vec<Row> {
    let (base, candidate) = (reduce(base), reduce(candidate));
    let mut rows = metrics::rows(&base, &candidate, terms.comparable);
    if terms.comparable {
        family::judge_rows(&mut rows, &base, &candidate, terms);
    }
    rows
}

fn reduce<'a>(runs: &[Measured<'a>]) -> Vec<Run<'a>> {
    let of = |run: &Measured<'a>| {
        Some(Run {
            record: run.run,
            reduced: Reduced::of(run)?,
            walls_ms: &run.input.walls_ms,
        })
    };
    runs.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
