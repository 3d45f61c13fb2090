//! What differs between two sides, and which of it forbids comparing them.
//!
//! Everything that differs is listed by name. Work, host, mode, model, definition, and the tokenizer
//! where tokens are counted by ours, may not differ; the rest is what is being judged. The agent's
//! and the controller's build may: what they mean by a metric is the definition's id. What is wrong
//! with the runs themselves is [`faults`]' business, what to run instead that of `rerun`.

mod faults;
mod rerun;
mod work_flags;

use contracts::run::Arm;
use serde::Serialize;

use crate::compare::Measured;
use crate::compare::facts::{self, Part};
use crate::record::RunRecord;
use crate::show::words;

pub use faults::{faults, must_agree};
pub(super) use rerun::{quoted, rerun, rerun_twice};

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which part of a run it belongs to.
    pub part: Part,
    /// Its name.
    pub field: &'static str,
    /// The base's value, `not known` where it is not.
    pub base: String,
    /// The candidate's.
    pub candidate: String,
}

impl Difference {
    /// Whether it is one, and not a value that one side's run does not tell.
    pub(super) fn both_known(&self) -> bool {
        self.base != UNKNOWN && self.candidate != UNKNOWN
    }
}

/// Why a cell is not comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// For programs.
    pub code: ReasonCode,
    /// One line for people.
    pub message: String,
    /// What to run or to change.
    pub todo: String,
}

/// Kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// Different work was asked.
    WorkloadDiffers,
    /// It ran on different machines.
    HostDiffers,
    /// Different modes, and nobody asked for that.
    ModeDiffers,
    /// Other weights under the same name.
    ModelDiffers,
    /// Tokens were counted by two tokenizers.
    TokenizerDiffers,
    /// Other definitions of the metrics.
    DefinitionDiffers,
    /// Arms are set up differently, under `--strict`.
    ArmsDiffer,
    /// No block is left: runs failed or were cancelled.
    FailedRun,
    /// No block is left: something else was measured with the engine.
    Contaminated,
    /// No block is left whose runs are of one build and spec a side.
    MixedSide,
    /// A run has failed requests.
    FailedRequests,
    /// The client, not the server, may be what was measured.
    ClientBound,
    /// A run has no successful request.
    NothingMeasured,
    /// Both sides are the same runs.
    SameRuns,
    /// A side is more than one arm.
    AmbiguousArm,
    /// Outputs part where they must not.
    OutputsDiffer,
}

/// All that differs between two runs, by name, in a fixed order.
pub fn differences(base: &Measured<'_>, candidate: &Measured<'_>) -> Vec<Difference> {
    let unknown = || UNKNOWN.to_owned();
    let both = facts::facts(base).into_iter().zip(facts::facts(candidate));
    both.filter(|(b, c)| b.value != c.value)
        .map(|(b, c)| Difference {
            part: b.part,
            field: b.field,
            base: b.value.unwrap_or_else(unknown),
            candidate: c.value.unwrap_or_else(unknown),
        })
        .collect()
}

/// The differences that forbid a comparison of the sides' newest runs.
pub fn reasons(
    base: &RunRecord,
    candidate: &RunRecord,
    allowed: Allowed,
    differences: &[Difference],
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let todo = rerun(base, candidate, "");
    let mut forbid = |code, message: String, todo: &str| {
        reasons.push(Reason {
            code,
            message,
            todo: todo.to_owned(),
        });
    };
    if base.host_fingerprint != candidate.host_fingerprint && !allowed.hosts {
        forbid(
            ReasonCode::HostDiffers,
            format!("hosts differ: {} and {}", base.hostname, candidate.hostname),
            &format!("{todo}; --allow-different-hosts gives numbers and no verdict"),
        );
    }
    let modes = [base, candidate].map(|run| words::snake(&run.status.spec.arm.mode));
    if modes[0] != modes[1] && !allowed.modes {
        forbid(
            ReasonCode::ModeDiffers,
            format!("modes differ: {} and {}", modes[0], modes[1]),
            &format!(
                "{todo}; or ask for two modes with :{} and :{}",
                modes[0], modes[1]
            ),
        );
    }
    if base.workload_key != candidate.workload_key {
        let fields = in_words(differences, |d| d.part == Part::Workload);
        let message = format!("workloads differ: {fields}");
        forbid(ReasonCode::WorkloadDiffers, message, &todo);
    }
    for (code, field, message) in [
        (
            ReasonCode::ModelDiffers,
            "model sha256",
            "the model's files differ",
        ),
        (
            ReasonCode::TokenizerDiffers,
            facts::COUNTED_BY,
            "tokens were counted by two tokenizers",
        ),
        (
            ReasonCode::DefinitionDiffers,
            "definition",
            "metrics are defined differently",
        ),
    ] {
        if differences
            .iter()
            .any(|d| d.both_known() && d.field == field)
        {
            let values = in_words(differences, |d| d.field == field);
            forbid(code, format!("{message}: {values}"), &todo);
        }
    }
    let set_up = |d: &Difference| d.part == Part::Arm && SET_UP.contains(&d.field);
    if !allowed.arms && differences.iter().any(set_up) {
        let fields = in_words(differences, set_up);
        let message = format!("arms differ (--strict): {fields}");
        let alike = rerun(base, &set_up_as(base, candidate), "");
        let todo = format!("{alike}; without --strict this is listed and no more");
        forbid(ReasonCode::ArmsDiffer, message, &todo);
    }
    reasons
}

/// The candidate with the base's set-up.
fn set_up_as(base: &RunRecord, candidate: &RunRecord) -> RunRecord {
    let mut alike = candidate.clone();
    let of_candidate = &candidate.status.spec.arm;
    alike.status.spec.arm = Arm {
        name: of_candidate.name.clone(),
        engine: of_candidate.engine.clone(),
        mode: of_candidate.mode,
        ..base.status.spec.arm.clone()
    };
    alike
}

/// How an engine is set up and asked; what is left of an arm is which engine and build it is.
const SET_UP: [&str; 9] = [
    "dtype",
    "weights",
    "device",
    "threads",
    "stream",
    "options",
    "headers",
    "extra",
    "keep-alive",
];

/// What two sides may differ in because it was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// Two modes, by the selectors.
    pub modes: bool,
    /// Two hosts, by `--allow-different-hosts`.
    pub hosts: bool,
    /// Two ways of setting an engine up; not under `--strict`.
    pub arms: bool,
}

/// What is not known of a side.
const UNKNOWN: &str = "not known";

/// `max_tokens 40 ≠ 20, n_runs 20 ≠ 10`.
fn in_words(differences: &[Difference], wanted: impl Fn(&Difference) -> bool) -> String {
    let words: Vec<String> = differences
        .iter()
        .filter(|d| wanted(d))
        .map(|d| format!("{} {} ≠ {}", d.field, d.base, d.candidate))
        .collect();
    if words.is_empty() {
        return "their keys are not the same".to_owned();
    }
    words.join(", ")
}

#[cfg(test)]
mod tests;
