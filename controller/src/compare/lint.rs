//! What differs between two sides, and which differences and faults forbid comparing them.

use contracts::run::{Device, Dtype, EngineRef, Mode, RunState, Soundness};
use serde::Serialize;

use crate::compare::Measured;
use crate::compare::facts::{self, Part};
use crate::compare::outputs::Outputs;
use crate::record::RunRecord;
use crate::show::{self, words};

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
    /// Other definitions of the metrics.
    DefinitionDiffers,
    /// A run failed or was cancelled.
    FailedRun,
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
    let unknown = || "not known".to_owned();
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

/// The differences that forbid a comparison. `across_modes` says that two modes are meant.
pub fn reasons(
    base: &RunRecord,
    candidate: &RunRecord,
    across_modes: bool,
    differences: &[Difference],
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let todo = rerun(base, candidate);
    if base.host_fingerprint != candidate.host_fingerprint {
        reasons.push(Reason {
            code: ReasonCode::HostDiffers,
            message: format!("hosts differ: {} and {}", base.hostname, candidate.hostname),
            todo: todo.clone(),
        });
    }
    let (base_arm, candidate_arm) = (&base.status.spec.arm, &candidate.status.spec.arm);
    if base_arm.mode != candidate_arm.mode && !across_modes {
        let modes = [base_arm.mode, candidate_arm.mode].map(|mode| words::snake(&mode));
        reasons.push(Reason {
            code: ReasonCode::ModeDiffers,
            message: format!("modes differ: {} and {}", modes[0], modes[1]),
            todo: format!(
                "{todo}; or ask for two modes with :{} and :{}",
                modes[0], modes[1]
            ),
        });
    }
    if base.workload_key != candidate.workload_key {
        let fields = in_words(differences, |d| d.part == Part::Workload);
        reasons.push(Reason {
            code: ReasonCode::WorkloadDiffers,
            message: format!("workloads differ: {fields}"),
            todo: todo.clone(),
        });
    }
    let mut forbid = |code, field: &str, message: &str| {
        let known = |d: &&Difference| d.base != "not known" && d.candidate != "not known";
        let differs = differences.iter().filter(known).any(|d| d.field == field);
        if differs {
            let values = in_words(differences, |d| d.field == field);
            reasons.push(Reason {
                code,
                message: format!("{message}: {values}"),
                todo: todo.clone(),
            });
        }
    };
    forbid(
        ReasonCode::ModelDiffers,
        "model sha256",
        "the model's files differ",
    );
    forbid(
        ReasonCode::DefinitionDiffers,
        "definition",
        "metrics are defined differently",
    );
    reasons
}

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

/// What is wrong with one run of a side: it failed, requests failed, nothing was measured.
pub fn faults(side: &str, run: &Measured<'_>) -> Option<Reason> {
    let record = run.run;
    let id = &record.run_id;
    let todo = format!(
        "`controller runs show {id}` says why; then {}",
        rerun(record, record)
    );
    let (code, message) = match record.status.state {
        RunState::Cancelled => (
            ReasonCode::FailedRun,
            format!("the {side}'s run {id} was cancelled"),
        ),
        RunState::Failed => (ReasonCode::FailedRun, failure(side, record)),
        _ if run.input.succeeded == 0 => (
            ReasonCode::NothingMeasured,
            format!("the {side}'s run {id} has no successful request"),
        ),
        _ => {
            let failed = run.input.failed;
            if failed == 0 {
                return None;
            }
            let failed = words::count(failed, "failed request");
            (
                ReasonCode::FailedRequests,
                format!("the {side}'s run {id} has {failed}"),
            )
        }
    };
    Some(Reason {
        code,
        message,
        todo,
    })
}

/// A run in which the client may be what was measured.
pub fn client_bound(side: &str, record: &RunRecord) -> Option<Reason> {
    let validity = &record.status.validity;
    if validity.verdict != Soundness::ClientBound {
        return None;
    }
    let verdict = show::validity::verdict(validity);
    let id = &record.run_id;
    Some(Reason {
        code: ReasonCode::ClientBound,
        message: format!("the {side}'s run {id} is {verdict}"),
        todo: format!(
            "offer fewer requests at a time or fewer a second, or free CPU on {} (`controller calibrate --client` measures its floor); then {}",
            record.hostname,
            rerun(record, record)
        ),
    })
}

fn failure(side: &str, record: &RunRecord) -> String {
    let id = &record.run_id;
    match &record.status.failure {
        Some(failure) => format!(
            "the {side}'s run {id} failed ({}): {}",
            words::snake(&failure.stage),
            failure.message
        ),
        None => format!("the {side}'s run {id} failed"),
    }
}

/// Whether both sides have promised the same greedy tokens and are in f32 on a CPU, where the
/// promise binds.
pub fn must_agree(
    base: &RunRecord,
    candidate: &RunRecord,
    same_tokens: &dyn Fn(&str) -> bool,
) -> bool {
    [base, candidate]
        .iter()
        .all(|run| chapter(run).is_some_and(same_tokens) && is_f32_on_cpu(run))
}

fn chapter(run: &RunRecord) -> Option<&str> {
    match &run.status.spec.arm.engine {
        EngineRef::Chapter { id } => Some(id),
        EngineRef::Named { chapter, .. } => chapter.as_deref(),
        EngineRef::Url { .. } => None,
    }
}

/// By what the engine says that it loaded, else by what was asked for.
fn is_f32_on_cpu(run: &RunRecord) -> bool {
    let arm = &run.status.spec.arm;
    let model = run
        .status
        .provenance
        .as_ref()
        .and_then(|p| p.model.as_ref());
    let f32_weights = match model {
        Some(model) => model.weights == "f32",
        None => matches!(arm.dtype, None | Some(Dtype::F32)),
    };
    f32_weights && arm.device == Device::Cpu
}

impl Reason {
    /// Outputs part at a step that is no near tie, between chapters that promise the same tokens.
    pub fn outputs_differ(outputs: &Outputs, base: &RunRecord, candidate: &RunRecord) -> Self {
        let at = outputs.first_difference.as_ref();
        let at = at.map_or(String::new(), |d| {
            format!(", first in request {} at {}", d.request, d.place())
        });
        Self {
            code: ReasonCode::OutputsDiffer,
            message: format!(
                "outputs differ: {} of {} requests part at a firm step{at}",
                outputs.parted, outputs.compared
            ),
            todo: format!(
                "find out which of {} and {} is wrong: fast and wrong does not win",
                base.engine, candidate.engine
            ),
        }
    }
}

/// The command that measures both sides alike; a side that is not ours has one of its own.
fn rerun(base: &RunRecord, candidate: &RunRecord) -> String {
    let spec = &candidate.status.spec;
    let mode = match (base.status.spec.arm.mode, spec.arm.mode) {
        (b, c) if b != c => "both",
        (_, Mode::Offline) => "offline",
        (_, Mode::Online) => "online",
    };
    let mut rest = format!(" --mode {mode} --model {}", spec.workload.model);
    if candidate.agent_name != "local" {
        rest.push_str(&format!(" --agent {}", candidate.agent_name));
    }
    let commands: Vec<String> = engine_flags(base, candidate)
        .iter()
        .map(|engines| format!("`controller run{engines}{rest}`"))
        .collect();
    format!("run {}", commands.join(" and "))
}

/// What names the engines of both sides, for each command that it takes.
fn engine_flags(base: &RunRecord, candidate: &RunRecord) -> Vec<String> {
    let foreign = |run: &RunRecord| match &run.status.spec.arm.engine {
        EngineRef::Named {
            name,
            chapter: None,
        } => Some(format!(" --engine {name}")),
        EngineRef::Url { url, .. } => Some(format!(" --url {url}")),
        _ => None,
    };
    let (of_base, of_candidate) = (foreign(base), foreign(candidate));
    if of_base.is_some() || of_candidate.is_some() {
        let mut commands = vec![of_base.unwrap_or_else(|| our_flags(&[base]))];
        let other = of_candidate.unwrap_or_else(|| our_flags(&[candidate]));
        if commands.first() != Some(&other) {
            commands.push(other);
        }
        return commands;
    }
    vec![our_flags(&[base, candidate])]
}

fn our_flags(runs: &[&RunRecord]) -> String {
    let mut chapters: Vec<&str> = Vec::new();
    let mut engines: Vec<&str> = Vec::new();
    for run in runs {
        if let EngineRef::Named { name, .. } = &run.status.spec.arm.engine
            && !engines.contains(&name.as_str())
        {
            engines.push(name);
        }
        if let Some(id) = chapter(run)
            && !chapters.contains(&id)
        {
            chapters.push(id);
        }
    }
    let mut flags = String::new();
    for (flag, values) in [("--chapter", chapters), ("--engine", engines)] {
        if !values.is_empty() {
            flags.push_str(&format!(" {flag} {}", values.join(",")));
        }
    }
    flags
}

#[cfg(test)]
mod tests;
