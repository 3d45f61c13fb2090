//! What a verdict rests on: builds, model, host, seeds, order and rules, so that it can be made again.

use serde::Serialize;

use crate::compare::judge::Rules;
use crate::compare::pairing::Group;
use crate::record::RunRecord;

/// How a build names a tree with changes that are in no commit.
const DIRTY: &str = "-dirty";

/// All of it, in JSON; the text has it in one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// The base's build.
    pub base: Build,
    /// The candidate's.
    pub candidate: Build,
    /// SHA-256 of the base's model.
    pub model_sha256: Option<String>,
    /// Key of the base's workload.
    pub workload_key: String,
    /// Fingerprint of the base's host.
    pub host_fingerprint: String,
    /// Id of the metrics' definitions.
    pub definition: Option<String>,
    /// Builds of the agents that measured, each once.
    pub agent_builds: Vec<String>,
    /// Builds of the controllers that planned, each once.
    pub controller_builds: Vec<String>,
    /// Seed of the sampling.
    pub sampling_seed: u64,
    /// The sessions of the runs, each once.
    pub sessions: Vec<SessionOrder>,
    /// Runs of the base and of the candidate that were used.
    pub runs: (u32, u32),
    /// Alpha, margin and looks.
    pub rules: Rules,
}

/// What was built.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Build {
    /// As the engine reports it.
    pub engine_build: Option<String>,
    /// Whether it was built from a tree with changes; none where its build is not known.
    pub dirty: Option<bool>,
    /// `release` or `debug`.
    pub profile: Option<String>,
    /// SHA-256 of its executable.
    pub binary_sha256: Option<String>,
}

/// In which order a session ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionOrder {
    /// Its id.
    pub session_id: String,
    /// `abba` or `blocked`.
    pub run_order: String,
    /// 0: arms as they were named.
    pub order_seed: u64,
}

/// Of the runs that were used.
pub fn provenance(base: &Group, candidate: &Group, rules: Rules) -> Provenance {
    let both = || base.runs().chain(candidate.runs());
    let newest = base.newest.status.provenance.as_ref();
    let agents = both().filter_map(|run| run.status.provenance.as_ref());
    let count = |group: &Group| u32::try_from(group.runs().count()).unwrap_or(u32::MAX);
    let orders = both().map(|run| SessionOrder {
        session_id: run.session_id.clone(),
        run_order: run.session.run_order.clone(),
        order_seed: run.session.order_seed,
    });
    Provenance {
        base: build(&base.newest),
        candidate: build(&candidate.newest),
        model_sha256: newest.and_then(|p| Some(p.model.as_ref()?.sha256.clone())),
        workload_key: base.newest.workload_key.clone(),
        host_fingerprint: base.newest.host_fingerprint.clone(),
        definition: newest.map(|p| p.definition.clone()),
        agent_builds: each_once(agents.map(|p| p.agent_build.clone())),
        controller_builds: each_once(both().map(|run| run.controller_build.clone())),
        sampling_seed: base.newest.status.spec.workload.sampling.seed,
        sessions: each_once(orders),
        runs: (count(base), count(candidate)),
        rules,
    }
}

fn build(run: &RunRecord) -> Build {
    let provenance = run.status.provenance.as_ref();
    let engine_build = provenance.and_then(|p| p.engine_build.clone());
    Build {
        dirty: engine_build.as_ref().map(|build| build.ends_with(DIRTY)),
        profile: provenance.and_then(|p| p.engine_profile.clone()),
        binary_sha256: provenance.and_then(|p| p.engine_binary_sha256.clone()),
        engine_build,
    }
}

fn each_once<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}
