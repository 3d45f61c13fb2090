//! What several steps come to together: the product of their ratios.
//!
//! Each step is a ratio of its own session and its own noise. The product has no interval and no
//! verdict: whoever wants one compares the last with the first.

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::cell::Row;
use crate::compare::document::{Cell, Step};

/// The ratios of one primary metric over all steps, on one host under one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Product {
    /// Key of the workload.
    pub workload_key: String,
    /// The workload in words.
    pub workload: String,
    /// For people.
    pub hostname: String,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// Mode of the first base.
    pub mode: Mode,
    /// Name of the metric, for programs.
    pub metric: String,
    /// The same for people.
    pub label: String,
    /// One for each step, in their order.
    pub parts: Vec<Part>,
    /// Last candidate / first base, as the steps have it; none where one has no ratio.
    pub ratio: Option<f64>,
    /// Why there is no ratio.
    pub missing: Option<String>,
}

/// What one step adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Selector of the base.
    pub base: String,
    /// Selector of the candidate.
    pub candidate: String,
    /// Candidate / base.
    pub ratio: Option<f64>,
}

/// One product for each cell of the first step and each of its primary metrics; none of one step.
pub fn products(steps: &[Step]) -> Vec<Product> {
    let Some((first, [_, ..])) = steps.split_first() else {
        return Vec::new();
    };
    let rows = first.cells.iter().flat_map(|cell| {
        let primary = cell.rows.iter().filter(|row| row.primary);
        primary.map(move |row| (cell, row))
    });
    rows.map(|(cell, row)| product(steps, cell, row)).collect()
}

fn product(steps: &[Step], of: &Cell, row: &Row) -> Product {
    let mut parts = Vec::new();
    let mut missing = None;
    // A step may lead from one mode to the other: the next one begins where it ends.
    let mut mode = of.base.mode;
    for step in steps {
        let cell = cell(step, of, mode);
        mode = cell.map_or(mode, |cell| cell.candidate.mode);
        let ratio = ratio(cell, &row.metric);
        if let Err(why) = &ratio {
            let why = format!("{} → {} {why}", step.base, step.candidate);
            missing.get_or_insert(why);
        }
        parts.push(Part {
            base: step.base.clone(),
            candidate: step.candidate.clone(),
            ratio: ratio.ok(),
        });
    }
    let ratios: Option<Vec<f64>> = parts.iter().map(|part| part.ratio).collect();
    Product {
        workload_key: of.workload_key.clone(),
        workload: of.workload.clone(),
        hostname: of.hostname.clone(),
        host_fingerprint: of.host_fingerprint.clone(),
        mode: of.base.mode,
        metric: row.metric.clone(),
        label: row.label.clone(),
        ratio: ratios.map(|ratios| ratios.iter().product()),
        parts,
        missing,
    }
}

/// The step's cell of the same workload on the same host, with a base of this mode.
fn cell<'s>(step: &'s Step, of: &Cell, mode: Mode) -> Option<&'s Cell> {
    step.cells.iter().find(|cell| {
        cell.workload_key == of.workload_key
            && cell.host_fingerprint == of.host_fingerprint
            && cell.base.mode == mode
    })
}

/// A cell's ratio of a metric, or why it has none.
fn ratio(cell: Option<&Cell>, metric: &str) -> Result<f64, &'static str> {
    let cell = cell.ok_or("was not run under this workload on this host")?;
    if !cell.reasons.is_empty() {
        return Err("is not comparable");
    }
    let row = cell.rows.iter().find(|row| row.metric == metric);
    row.and_then(|row| row.ratio).ok_or("has no ratio of it")
}

#[cfg(test)]
mod tests;
