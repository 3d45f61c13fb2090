//! From a living child to a server that can be asked, and what is known of an engine by then.

use std::time::{Duration, Instant};

use contracts::host::BuildFacts;
use contracts::run::{EngineRef, ModelFacts, Provenance, RunSpec, Stage};
use contracts::worker::Health;

use super::story::{Failure, Run};
use crate::load::Server;
use crate::process::{self, Child, ReadyError};

/// The name under which our own server serves whatever it has loaded.
const SERVED_NAME: &str = "default";

/// Waits for the server's health, and notes what it says of itself.
pub(super) async fn ready(
    run: &Run,
    child: &Child,
    base_url: &str,
    instance: &str,
    spec: &RunSpec,
    spawned: Instant,
) -> Result<Server, Failure> {
    let timeout = Duration::from_millis(spec.limits.ready_timeout_ms);
    let answer = process::wait_ready(
        child,
        &format!("{base_url}/health"),
        Some(instance),
        timeout,
    )
    .await;
    let answer = answer.map_err(|error| match error {
        ReadyError::Died { .. } => Failure::Gone(Stage::Load),
        other => run.failed(other.to_string()),
    })?;
    let health: Health = serde_json::from_value(answer.health_json)
        .map_err(|error| run.failed(format!("the server's /health: {error}")))?;
    let chat_template = health
        .model
        .as_ref()
        .is_some_and(|model| model.chat_template);
    loaded(run, &health.build, health.model, spawned);
    Ok(Server {
        base_url: base_url.to_owned(),
        model: SERVED_NAME.to_owned(),
        chat_template,
        ours: true,
    })
}

/// What is known before the engine says anything.
pub(super) fn begin_provenance(run: &Run, engine_sha256: String) {
    let provenance = Provenance {
        agent_build: build_word(&engine::cli::build_facts()),
        engine_binary_sha256: Some(engine_sha256),
        host_fingerprint: run.bench.facts.fingerprint.clone(),
        definition: contracts::DEFINITION.to_owned(),
        ..Provenance::default()
    };
    run.active.record.update(|status| {
        let chapter = match &status.spec.arm.engine {
            EngineRef::Chapter { id } => Some(id),
            EngineRef::Named { chapter, .. } => chapter.as_ref(),
            EngineRef::Url { .. } => None,
        };
        let title = chapter.and_then(|id| engine::chapters::find(id).ok());
        status.provenance = Some(Provenance {
            engine_title: title.map(|chapter| chapter.title.to_owned()),
            ..provenance
        });
    });
}

/// What the engine says of itself once it has loaded: on record, and on disk for the case that we die.
pub(super) fn loaded(run: &Run, build: &BuildFacts, model: Option<ModelFacts>, spawned: Instant) {
    let ready_ms = spawned.elapsed().as_secs_f64() * 1e3;
    run.active.record.update(|status| {
        status.lifecycle.ready_ms = Some(ready_ms);
        let provenance = status.provenance.get_or_insert_default();
        provenance.engine_build = Some(build_word(build));
        provenance.engine_profile = Some(build.profile.clone());
        provenance.model = model;
    });
    if let Err(error) = run.folder.save(&run.active.record.status()) {
        tracing::warn!(run = %run.active.id, %error, "the run's status could not be saved");
    }
}

/// `0.1.0+3fa1c2d`; without a commit the version alone.
pub(crate) fn build_word(build: &BuildFacts) -> String {
    if build.commit.is_empty() {
        build.version.clone()
    } else {
        format!("{}+{}", build.version, build.commit)
    }
}
