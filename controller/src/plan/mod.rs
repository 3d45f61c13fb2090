//! What is asked, multiplied out: arms, loads, their order, and the spec of each run. Pure.
//!
//! Nothing here knows agents or the database; ids are given out when a run is about to be sent.
//! How a sweep goes on from what it has measured is [`sweep`]'s; what is asked again of a session
//! that is extended is [`extend`]'s.

pub mod extend;
mod key;
mod order;
pub mod sweep;

use std::time::Duration;

use contracts::defaults;
use contracts::run::{Arm, EngineRef, Limits, Load, Mode, RunSpec, Slo, Workload};
use serde::Serialize;

use order::{arranged, letter, sequence};
use sweep::Range;

pub use key::workload_key;
pub use order::Order;

/// Passes over the arms of one session, at most.
pub const REPEAT_MAX: u32 = 1_000;
/// Runs of one session, at most: beyond it, something was mistyped.
pub const RUNS_MAX: usize = 10_000;
/// How often a session may be extended, at most: each look costs every one of them confidence.
pub const EXTEND_MAX: u32 = 2;
/// Pause between two runs, at most: a machine that needs longer to cool is not fit to measure on.
pub const COOLDOWN_MAX: Duration = Duration::from_secs(3_600);
/// One request at a time: how an offline engine is asked where the load is one of arrivals.
const ONE_AT_A_TIME: Load = Load::Closed { concurrency: 1 };

/// What a user asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is judged, in the order of the letters; twice the same are two arms.
    pub arms: Vec<Arm>,
    /// The work. Its load is that of one run at a time, its `n_runs` what is asked of runs that
    /// count their requests; `duration_ms` is for online runs.
    pub workload: Workload,
    /// Each online arm runs under each of these; at least one.
    pub loads: Vec<Load>,
    /// What a good request is.
    pub slo: Option<Slo>,
    /// The waits.
    pub limits: Limits,
    /// Passes over the arms, 1 or more.
    pub repeat: u32,
    /// Their order.
    pub order: Order,
    /// What the first block is shuffled by; 0 leaves the arms as they were named.
    pub order_seed: u64,
    /// How often the session may be extended.
    pub max_extend: u32,
    /// Pause between two runs on a host.
    pub cooldown: Duration,
    /// What the session had before; nothing where it is new.
    pub before: Before,
}

/// What a session that is extended had before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    /// Passes over the arms, under each load.
    pub passes: u32,
    /// Blocks, counted on from load to load.
    pub blocks: u32,
    /// Runs.
    pub runs: u32,
}

impl Request {
    /// Whether anything goes over HTTP.
    pub fn online(&self) -> bool {
        self.arms.iter().any(|arm| arm.mode == Mode::Online)
    }

    /// What an arm is asked to do under a load, with `n_runs` requests where they are counted. An
    /// offline one has slots and no arrivals, and counts them.
    fn spec(&self, arm: &Arm, load: &Load, n_runs: u32) -> RunSpec {
        let mut workload = self.workload.clone();
        workload.n_runs = n_runs;
        if arm.mode == Mode::Offline {
            workload.load = offline_load(load);
            workload.duration_ms = None;
        } else {
            workload.load = load.clone();
            if workload.duration_ms.is_some() {
                workload.n_runs = defaults::N_RUNS_MAX;
            }
        }
        RunSpec {
            arm: arm.clone(),
            workload,
            limits: self.limits.clone(),
            salt: String::new(),
            slo: self.slo.clone(),
        }
    }

    /// The arms with their letters.
    fn lettered(&self) -> Vec<PlannedArm> {
        let letters = (0..).map(letter);
        let arms = self.arms.iter().cloned().zip(letters);
        arms.map(|(arm, letter)| PlannedArm { letter, arm })
            .collect()
    }
}

/// What is judged, with its letter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedArm {
    /// `a`, `b`, … `z`, `aa`, …
    pub letter: String,
    /// The arm.
    pub arm: Arm,
}

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedRun {
    /// Letter of its arm.
    pub letter: String,
    /// What is judged.
    pub arm: Arm,
    /// How requests are offered.
    pub load: Load,
    /// Measured requests, where they are counted.
    pub n_runs: u32,
    /// Which pass over the arms, from 0, counted on from load to load.
    pub block: u32,
    /// Place in the order, from 0.
    pub position: u32,
    /// SHA-256 (hex) of its work.
    pub workload_key: String,
}

/// A session's runs in order. The same on each agent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What they are made from.
    pub request: Request,
    /// The arms.
    pub arms: Vec<PlannedArm>,
    /// The runs in order.
    pub runs: Vec<PlannedRun>,
}

impl Plan {
    /// What the agent is asked to do. Made when it is needed: a spec holds all its prompts.
    pub fn spec(&self, run: &PlannedRun) -> RunSpec {
        self.request.spec(&run.arm, &run.load, run.n_runs)
    }

    /// The run of an arm at one level of a sweep; `place` counts the sweep's runs from 0.
    pub fn point(&self, range: &Range, arm: &PlannedArm, level: f64, place: u32) -> PlannedRun {
        let load = range.load(level);
        let n_runs = range.requests(level, self.request.workload.n_runs);
        let spec = self.request.spec(&arm.arm, &load, n_runs);
        PlannedRun {
            letter: arm.letter.clone(),
            arm: arm.arm.clone(),
            load,
            n_runs,
            // Each point is a pass of its own: no two get the same cold prompts.
            block: place,
            position: place,
            workload_key: workload_key(&spec.workload),
        }
    }
}

/// Name of an engine as results show it: `ch01`, or its name in the agent's config.
pub fn engine_name(engine: &EngineRef) -> &str {
    match engine {
        EngineRef::Chapter { id } => id,
        EngineRef::Named { name, .. } => name,
        EngineRef::Url { url, .. } => url,
    }
}

/// Warm-up requests of a run: those asked for, and at least one for each slot.
pub fn warmup(asked: u32, load: &Load) -> u32 {
    asked.max(slots(load).unwrap_or(0))
}

/// Slots of a closed loop, or the cap of an open one.
pub fn slots(load: &Load) -> Option<u32> {
    match load {
        Load::Closed { concurrency } => Some(*concurrency),
        Load::Open { max_in_flight, .. }
        | Load::Burst { max_in_flight }
        | Load::Trace { max_in_flight } => *max_in_flight,
    }
}

/// Multiplies a request out: load by load, in each the passes over the arms that run under it.
/// Offline arms share the slots of a closed loop with the online ones. What they cannot share they run
/// once, before all others: an open loop, or a time instead of a count.
pub fn plan(request: Request) -> Plan {
    let arms = request.lettered();
    let order = arranged(arms.len(), request.order_seed);
    let order: Vec<&PlannedArm> = order.iter().filter_map(|place| arms.get(*place)).collect();
    let before = request.before;
    let passes = before.passes..before.passes.saturating_add(request.repeat);
    let mut runs = Vec::new();
    for (cell, (load, members)) in (0..).zip(cells(&request, &order)) {
        let n_runs = request.workload.n_runs;
        let keys: Vec<String> = members
            .iter()
            .map(|arm| workload_key(&request.spec(&arm.arm, &load, n_runs).workload))
            .collect();
        for (place, pass) in sequence(members.len(), passes.clone(), request.order) {
            let (Some(arm), Some(key)) = (members.get(place), keys.get(place)) else {
                continue;
            };
            let made = u32::try_from(runs.len()).unwrap_or(u32::MAX);
            runs.push(PlannedRun {
                letter: arm.letter.clone(),
                arm: arm.arm.clone(),
                load: load.clone(),
                n_runs,
                block: before
                    .blocks
                    .saturating_add(cell * request.repeat + (pass - before.passes)),
                position: before.runs.saturating_add(made),
                workload_key: key.clone(),
            });
        }
    }
    Plan {
        request,
        arms,
        runs,
    }
}

/// What a load is to an offline arm.
fn offline_load(load: &Load) -> Load {
    match load {
        Load::Closed { .. } => load.clone(),
        Load::Open { .. } | Load::Burst { .. } | Load::Trace { .. } => ONE_AT_A_TIME,
    }
}

/// The loads in their order, each with the arms that run under it.
fn cells<'a>(request: &Request, arms: &[&'a PlannedArm]) -> Vec<(Load, Vec<&'a PlannedArm>)> {
    let of = |mode: Mode| arms.iter().copied().filter(move |arm| arm.arm.mode == mode);
    let (online, offline) = (
        of(Mode::Online).next().is_some(),
        of(Mode::Offline).next().is_some(),
    );
    let counted = request.workload.duration_ms.is_none();
    let shared = |load: &Load| counted && online && offline_load(load) == *load;
    let mut cells: Vec<(Load, Vec<&PlannedArm>)> = Vec::new();
    for load in request.loads.iter().map(offline_load) {
        let is_known = cells.iter().any(|(known, _)| *known == load);
        let comes_later = shared(&load) && request.loads.contains(&load);
        if offline && !is_known && !comes_later {
            cells.push((load, of(Mode::Offline).collect()));
        }
    }
    for load in request.loads.iter().filter(|_| online) {
        let members = match shared(load) {
            true => arms.to_vec(),
            false => of(Mode::Online).collect(),
        };
        cells.push((load.clone(), members));
    }
    cells
}

#[cfg(test)]
mod tests;
