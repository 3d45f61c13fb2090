//! Sides of stored runs, cell by cell: figures, ratios, verdicts, differences, and what forbids them.
//!
//! 1. [`Vs::steps`] says which side stands against which;
//! 2. [`pairing::pair`] chooses from all runs, for each step, which ones are used;
//! 3. the caller loads what was measured in them, and the answers that [`differing`] names;
//! 4. [`compare`] turns them into a [`Comparison`], which [`crate::show::compare`] puts into words.
//!
//! The run is the unit: requests inside one are not independent. All is pure: no I/O, no clock.

mod assemble;
pub mod cell;
mod document;
mod doubts;
mod facts;
pub mod gate;
pub mod input;
mod inside;
pub mod judge;
pub mod lint;
pub mod noise;
pub mod outputs;
pub mod overhead;
pub mod pairing;
pub mod product;
pub mod provenance;
pub mod reduced;
pub mod work;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use crate::compare::document::{
    Cell, CellKind, Comparison, NoiseFloor, Overall, Side, Step, UnknownMetric,
};
pub use crate::compare::facts::workload_facts;
pub use crate::compare::input::Input;
use crate::compare::judge::Floor;
use crate::compare::pairing::Pairing;
pub use crate::compare::work::workload_words;
use crate::record::RunRecord;
use crate::selector::SelectorError;

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

/// How sides are compared, as the flags say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// Chance of a false alarm in a family of primary metrics, over all looks together.
    pub alpha: f64,
    /// Ratios from 1/(1+margin) to 1+margin are practically equal.
    pub margin: f64,
    /// Whether contaminated runs are used: numbers, and no verdict where that changes anything.
    pub all: bool,
    /// Whether sides of different hosts get numbers, and no verdict.
    pub allow_different_hosts: bool,
    /// Whether arms must be set up alike.
    pub strict: bool,
    /// Against what each of more than two sides stands.
    pub vs: Vs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alpha: ALPHA,
            margin: MARGIN,
            all: false,
            allow_different_hosts: false,
            strict: false,
            vs: Vs::First,
        }
    }
}

/// Against what each of more than two sides stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vs {
    /// Each against the first.
    First,
    /// Each against the one before it.
    Previous,
}

impl Vs {
    /// (base, candidate) of each step; empty for fewer than two sides.
    pub fn steps<T>(self, sides: &[T]) -> Vec<(&T, &T)> {
        match (self, sides.split_first()) {
            (_, None) => Vec::new(),
            (Self::First, Some((first, rest))) => rest.iter().map(|side| (first, side)).collect(),
            (Self::Previous, Some((_, rest))) => sides.iter().zip(rest).collect(),
        }
    }
}

/// `--alpha` by default.
pub const ALPHA: f64 = 0.05;
/// `--margin` by default: what most changes of an engine are looked at for.
pub const MARGIN: f64 = 0.05;

/// What is known beyond the runs.
pub struct Known<'k> {
    /// Whether a chapter, by its id, promises the baseline's greedy tokens.
    pub same_tokens: &'k dyn Fn(&str) -> bool,
    /// How much equal runs of this run's engine, mode and workload differ on its host, by a
    /// metric's name; none if nobody measured it.
    pub floor: &'k dyn Fn(&RunRecord, &str) -> Option<Floor>,
    /// What time it is, for people: how old a noise floor is.
    pub now_unix_ms: i64,
}

/// A run of a side with what was measured in it, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// What was measured.
    pub input: &'a Input,
}

/// What was measured in the runs of a comparison, by id.
pub type Inputs = BTreeMap<String, Input>;

/// The requests whose answers have to be read before [`compare`], by run
/// ([`outputs::differing`]).
pub fn differing<'a>(
    pairings: &'a [Pairing],
    inputs: &'a Inputs,
) -> BTreeMap<&'a str, BTreeSet<u32>> {
    let mut wanted = BTreeMap::<&str, BTreeSet<u32>>::new();
    for pair in pairings.iter().flat_map(|pairing| &pairing.pairs) {
        let [base, candidate] = [&pair.base, &pair.candidate].map(|g| assemble::load(g, inputs));
        for (run_id, indices) in outputs::differing(&base, &candidate) {
            wanted.entry(run_id).or_default().extend(indices);
        }
    }
    wanted
}

/// Compares the pairs that were chosen, a step for each pairing. `inputs` holds each run of
/// [`Pairing::run_ids`].
pub fn compare(
    pairings: &[Pairing],
    inputs: &Inputs,
    known: &Known<'_>,
    options: &Options,
) -> Comparison {
    let step = |pairing: &Pairing| {
        let cell = |pair| assemble::cell(pairing.across_modes, pair, inputs, known, options);
        Step {
            base: pairing.base.to_string(),
            candidate: pairing.candidate.to_string(),
            cells: pairing.pairs.iter().map(cell).collect(),
            notes: pairing.notes.clone(),
        }
    };
    let steps: Vec<Step> = pairings.iter().map(step).collect();
    let product = match options.vs {
        Vs::Previous => product::products(&steps),
        Vs::First => Vec::new(),
    };
    Comparison {
        schema: contracts::SCHEMA,
        compared_unix_ms: known.now_unix_ms,
        rules: options.clone(),
        steps,
        product,
    }
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
pub(crate) mod tests;
