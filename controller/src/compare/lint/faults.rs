//! What is wrong with the used runs themselves: failed requests, nothing measured, a client that was
//! the bottleneck, and answers that part where they must not.

use contracts::run::{Device, Dtype, EngineRef, RunState, Soundness};

use super::{Reason, ReasonCode};
use crate::compare::Measured;
use crate::compare::outputs::Outputs;
use crate::record::RunRecord;
use crate::show::{validity, words};

/// What is wrong with the runs of a side that ended as they should, each kind once: of runs with the
/// same fault the first is told, and how many more there are. `rerun` says how to measure both sides
/// again.
pub fn faults(side: &str, runs: &[Measured<'_>], rerun: &str) -> Vec<Reason> {
    let mut kinds: Vec<(Reason, u64)> = Vec::new();
    let requests = runs.iter().filter_map(|run| requests(side, run, rerun));
    let bound = runs
        .iter()
        .filter_map(|run| client_bound(side, run.run, rerun));
    for reason in requests.chain(bound) {
        match kinds
            .iter_mut()
            .find(|(known, _)| known.code == reason.code)
        {
            Some((_, more)) => *more += 1,
            None => kinds.push((reason, 0)),
        }
    }
    let told = kinds.into_iter().map(|(reason, more)| Reason {
        message: words::likewise(reason.message, more),
        ..reason
    });
    told.collect()
}

/// What is wrong with a run's measured requests.
fn requests(side: &str, run: &Measured<'_>, rerun: &str) -> Option<Reason> {
    let record = run.run;
    if record.status.state != RunState::Done {
        return None;
    }
    let id = &record.run_id;
    let (code, what) = if run.input.succeeded == 0 {
        (
            ReasonCode::NothingMeasured,
            "no successful request".to_owned(),
        )
    } else if run.input.failed > 0 {
        (
            ReasonCode::FailedRequests,
            words::count(run.input.failed, "failed request"),
        )
    } else {
        return None;
    };
    Some(Reason {
        code,
        message: format!("the {side}'s run {id} has {what}"),
        todo: format!("`controller runs show {id}` says why; then {rerun}"),
    })
}

/// A run in which the client may be what was measured.
fn client_bound(side: &str, record: &RunRecord, rerun: &str) -> Option<Reason> {
    let validity = &record.status.validity;
    if validity.verdict != Soundness::ClientBound {
        return None;
    }
    let verdict = validity::verdict(validity);
    let id = &record.run_id;
    Some(Reason {
        code: ReasonCode::ClientBound,
        message: format!("the {side}'s run {id} is {verdict}"),
        todo: format!(
            "offer fewer requests at a time or fewer a second, or free CPU on {} (`controller calibrate --client` measures its floor); then {rerun}",
            record.hostname,
        ),
    })
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
    pub fn outputs_differ(
        outputs: &Outputs,
        base: &RunRecord,
        candidate: &RunRecord,
        rerun: &str,
    ) -> Self {
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
                "find out which of {} and {} is wrong: fast and wrong does not win; then {rerun}",
                base.engine, candidate.engine
            ),
        }
    }
}
