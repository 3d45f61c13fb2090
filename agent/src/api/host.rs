//! `GET /health` and `GET /v1/host`: that the agent lives, and who it is.

use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use contracts::PROTOCOL;
use contracts::host::{EngineFacts, HostInfo};
use serde_json::{Value, json};

use super::error::Problem;
use crate::config::EngineEntry;
use crate::config::engines::EngineKind;
use crate::run::Bench;

/// Open to all, and says nothing else.
pub async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Who answers, what it can run, what it is busy with.
pub async fn host(State(bench): State<Arc<Bench>>) -> Result<Json<HostInfo>, Problem> {
    // Hashes executables when they are new: not on a thread that serves others.
    let info = tokio::task::spawn_blocking(move || info(&bench));
    info.await
        .map(Json)
        .map_err(|error| Problem::internal(error.to_string()))
}

fn info(bench: &Bench) -> HostInfo {
    HostInfo {
        protocol: PROTOCOL,
        agent_id: bench.state.agent_id().to_owned(),
        boot_id: bench.state.boot_id().to_owned(),
        build: engine::cli::build_facts(),
        host: bench.facts.clone(),
        state: crate::host::state(),
        chapters: crate::chapters(),
        engines: engines(bench),
        busy_with: bench.busy_with(),
        quarantine: bench.state.quarantine(),
    }
}

fn engines(bench: &Bench) -> Vec<EngineFacts> {
    let facts = |entry: &EngineEntry| EngineFacts {
        name: entry.name.clone(),
        kind: entry.kind_word().to_owned(),
        binary_sha256: match &entry.kind {
            // None while the file cannot be read: a run that names it will say why.
            EngineKind::Chapterbench { path } => binary_sha256(bench, path).ok(),
            EngineKind::Server(_) => None,
        },
    };
    bench.config.engines.iter().map(facts).collect()
}

fn binary_sha256(bench: &Bench, path: &Path) -> anyhow::Result<String> {
    let program = bench.builds.open(Some(path))?;
    Ok(bench.builds.sha256(&program)?)
}
