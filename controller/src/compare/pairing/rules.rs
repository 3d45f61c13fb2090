//! The rules that leave a run out of its side, fixed before anyone looked at a figure.
//!
//! None of them looks at what a run measured: a run is never left out because it was slow.

use contracts::host::HostState;
use contracts::run::{Arm, Device, RunState};

use crate::record::RunRecord;
use crate::show::words;

/// Share of the machine's CPU that others may use while a run measures. A warning is given long
/// before; at a quarter of the machine an engine that uses all cores has lost some of them for much
/// of its time, and its figures are those of another machine.
pub const FOREIGN_CPU_CONTAMINATED: f64 = 0.25;

/// Marks in the names of the reasons for which a GPU holds down its clock: heat and power. A clock
/// that its owner set is no disturbance, nor is idling.
const THROTTLED: [&str; 3] = ["thermal", "power", "hw_slowdown"];

/// Why a run is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// It failed: `(load): no such model`.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// Something else was measured with it.
    Contaminated(String),
    /// It is not of the same build or spec as the side's newest run.
    Unlike(String),
}

impl Fault {
    /// In words that go on from `it` or `the base's run 01A`.
    pub fn words(&self) -> String {
        match self {
            Self::Failed(why) => format!("failed{why}"),
            Self::Cancelled => "was cancelled".to_owned(),
            Self::Contaminated(why) => format!("is contaminated: {why}"),
            Self::Unlike(why) => format!("is not pooled with the newest run: {why}"),
        }
    }

    /// As short as it can be told, of its block's other run.
    pub fn short(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Cancelled => "was cancelled",
            Self::Contaminated(_) => "is contaminated",
            Self::Unlike(_) => "is of another build or spec",
        }
    }
}

/// What is wrong with a run whose figures nobody may use.
pub(super) fn broken(run: &RunRecord) -> Option<Fault> {
    match run.status.state {
        RunState::Cancelled => Some(Fault::Cancelled),
        RunState::Failed => {
            let failure = run.status.failure.as_ref();
            let why = failure.map(|f| format!(" ({}): {}", words::snake(&f.stage), f.message));
            Some(Fault::Failed(why.unwrap_or_default()))
        }
        _ => None,
    }
}

/// What disturbed a run: others on the CPU, others on its GPU, a GPU that had to slow down.
pub(crate) fn contaminated(run: &RunRecord) -> Option<String> {
    let validity = &run.status.validity;
    let foreign = validity.foreign_cpu_during;
    if let Some(share) = foreign.filter(|share| *share > FOREIGN_CPU_CONTAMINATED) {
        return Some(format!(
            "others used {} of the CPU while it measured, more than {}",
            words::percent(share),
            words::percent(FOREIGN_CPU_CONTAMINATED)
        ));
    }
    let Device::Cuda { index } = run.status.spec.arm.device else {
        return None;
    };
    let states = [
        ("before", &validity.host_before),
        ("after", &validity.host_after),
    ];
    let mut states = states
        .iter()
        .filter_map(|(when, state)| Some((*when, state.as_ref()?)));
    states.find_map(|(when, state)| on_gpu(state, index, when))
}

fn on_gpu(state: &HostState, index: u32, when: &str) -> Option<String> {
    let gpu = state.gpus.iter().find(|gpu| gpu.index == index)?;
    if let Some(process) = gpu.foreign_processes.first() {
        return Some(format!("{process} was on its GPU {when} it"));
    }
    let held = |reason: &&String| THROTTLED.iter().any(|mark| reason.contains(mark));
    let reasons: Vec<&str> = gpu.throttled_by.iter().filter(held).map(|r| &**r).collect();
    (!reasons.is_empty())
        .then(|| format!("its GPU was throttled {when} it ({})", reasons.join(", ")))
}

/// Why nobody may use a run's figures, whatever it stands against, in words that go on from `the run`.
pub fn unusable(run: &RunRecord) -> Option<String> {
    let disturbed = || contaminated(run).map(Fault::Contaminated);
    Some(broken(run).or_else(disturbed)?.words())
}

/// A run's arm without the name that a user gave it, which says nothing of what it does.
pub fn unnamed(run: &RunRecord) -> Arm {
    Arm {
        name: None,
        ..run.status.spec.arm.clone()
    }
}

/// What keeps a run from being pooled with the side's newest: another build, model, definition or
/// spec. What a run does not know of itself keeps it from nothing.
pub(super) fn unlike(run: &RunRecord, newest: &RunRecord) -> Option<String> {
    if unnamed(run) != unnamed(newest) {
        return Some("other options of its engine".to_owned());
    }
    let provenance = run.status.provenance.as_ref()?;
    let of_newest = newest.status.provenance.as_ref()?;
    let model = |p: &contracts::run::Provenance| Some(p.model.as_ref()?.sha256.clone());
    let pairs = [
        (
            "another build of its engine",
            provenance.engine_build.clone(),
            of_newest.engine_build.clone(),
        ),
        (
            "another binary of its engine",
            provenance.engine_binary_sha256.clone(),
            of_newest.engine_binary_sha256.clone(),
        ),
        ("another model", model(provenance), model(of_newest)),
        (
            "another definition of the metrics",
            Some(provenance.definition.clone()),
            Some(of_newest.definition.clone()),
        ),
    ];
    pairs.into_iter().find_map(|(what, own, other)| {
        let (own, other) = own.zip(other)?;
        let short = |text: &str| text.chars().take(SHOWN).collect::<String>();
        (own != other).then(|| format!("{what} ({})", short(&own)))
    })
}

/// Characters of a build or hash that are shown: enough for a version with its commit.
const SHOWN: usize = 24;

#[cfg(test)]
mod tests;
