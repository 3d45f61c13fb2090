//! Before an engine is started: its program is opened, and what is loaded gets its name by hash.
//!
//! Hashing a large model takes minutes the first time, so it is done before the clock of the engine's
//! start, and known hashes are kept.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use contracts::run::{ModelFacts, Provenance};

use super::Bench;
use super::resolve::Engine;
use super::story::{Failure, Run};
use crate::config::engines::command::Placeholder;
use crate::process::Program;

/// An engine that can be started.
pub(super) struct Prepared {
    /// What to start.
    pub program: Program,
    /// What is known of it.
    pub provenance: Provenance,
}

/// Opens and hashes, on a thread where that may take its time.
pub(super) async fn prepare(run: &Run) -> Result<Prepared, Failure> {
    let bench = Arc::clone(&run.bench);
    let (engine, model) = (run.resolved.engine.clone(), run.resolved.model.clone());
    let work = tokio::task::spawn_blocking(move || {
        let program = open(&bench, &engine)?;
        let sha256 = bench.builds.sha256(&program);
        let sha256 = sha256.context("hash the engine's executable")?;
        anyhow::Ok((program, sha256, identify(&engine, &model)))
    });
    let done = work.await.map_err(|error| run.failed(error.to_string()))?;
    let (program, sha256, model) = done.map_err(|error| run.failed(format!("{error:#}")))?;
    if let Some(Err(why)) = &model {
        let message = format!("whether other runs load the same model cannot be known: {why}");
        run.active.record.warn("model_not_identified", message);
    }
    Ok(Prepared {
        program,
        provenance: Provenance {
            engine_binary_sha256: Some(sha256),
            model: model.and_then(Result::ok),
            ..Provenance::default()
        },
    })
}

/// SHA-256 (hex) of the executable that would be started; none where none is, or it cannot be read.
/// Blocks while it reads a file that it does not know yet.
pub fn binary_sha256(bench: &Bench, engine: &Engine) -> Option<String> {
    let program = open(bench, engine).ok()?;
    bench.builds.sha256(&program).ok()
}

fn open(bench: &Bench, engine: &Engine) -> anyhow::Result<Program> {
    match engine {
        Engine::Ours { executable, .. } => bench.builds.open(executable.as_deref()),
        Engine::Server(command) => Ok(Program::open_by_name(&command.program)?),
        Engine::Url { .. } => anyhow::bail!("a server that runs already is not started"),
    }
}

/// An engine of others does not say what it loads; what lies at the path that it is given does.
fn identify(engine: &Engine, model: &str) -> Option<Result<ModelFacts, String>> {
    let Engine::Server(command) = engine else {
        return None;
    };
    let is_given_a_path = command.entry.uses(Placeholder::Model) && Path::new(model).is_absolute();
    is_given_a_path.then(|| engine::inspect::identify(model).map_err(|error| error.to_string()))
}
