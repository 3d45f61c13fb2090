//! From a living child, or an address, to a server that can be asked, and what is known of an engine
//! by then.

use std::os::fd::OwnedFd;
use std::time::Instant;

use contracts::defaults::UNNAMED_MODEL;
use contracts::host::BuildFacts;
use contracts::run::{EngineRef, ModelFacts, Provenance, Stage};
use contracts::worker::Health;
use engine::model::dummy;
use engine::text::Text;

use super::launch::Link;
use super::served::{self, Asker};
use super::story::{Failure, Run};
use crate::load::{OfflineWatch, Server};
use crate::process::{self, Child, ReadyError};

/// The name under which our own server serves whatever it has loaded.
const SERVED_NAME: &str = "default";

/// An engine that can be asked.
pub(super) enum Ready {
    /// Over HTTP.
    Online {
        /// Where, and for what.
        server: Server,
        /// What counts and makes its tokens.
        text: Option<Text>,
    },
    /// It makes its requests itself, and is not loaded yet.
    Offline {
        /// Read end of its report pipe.
        report: OwnedFd,
        /// What is expected of it.
        watch: OfflineWatch,
    },
}

/// Waits until a server can be asked. A worker says itself when it is ready, so that none waits here.
pub(super) async fn ready(
    run: &Run,
    child: &Child,
    link: Link,
    spawned: Instant,
) -> Result<Ready, Failure> {
    match link {
        Link::Online { addr, instance } => {
            let base_url = format!("http://{addr}");
            let health = healthy(run, child, &base_url, "/health", Some(&instance)).await?;
            let health: Health = serde_json::from_value(health)
                .map_err(|error| run.failed(format!("the server's /health: {error}")))?;
            let template = health.model.as_ref().map(|model| model.chat_template);
            loaded(run, &health.build, health.model, spawned);
            let server = Server {
                base_url,
                model: SERVED_NAME.to_owned(),
                chat_template: template.unwrap_or_default(),
                ours: true,
            };
            Ok(Ready::Online {
                server,
                text: run.resolved.text.clone(),
            })
        }
        Link::Server {
            addr,
            health,
            served_name,
        } => {
            let base_url = format!("http://{addr}");
            let said = healthy(run, child, &base_url, &health, None).await?;
            let left = run.resolved.ready_timeout.saturating_sub(spawned.elapsed());
            let name = match served_name {
                Some(name) => name,
                None => {
                    let names = asker(run, &base_url)?.models(left).await;
                    choose(run, names.map_err(|error| run.failed(error))?)?
                }
            };
            let ready_ms = spawned.elapsed().as_secs_f64() * 1e3;
            let said = serde_json::from_value(said).ok();
            noted(run, &name, said, Some(ready_ms));
            Ok(online(run, base_url, name))
        }
        Link::Offline { report, watch } => Ok(Ready::Offline { report, watch }),
    }
}

/// Looks whether a server answers that ought to run already. One that is loading is waited for; one
/// that refuses is not there.
pub(super) async fn running(
    run: &Run,
    url: &str,
    served_name: Option<&str>,
) -> Result<Ready, Failure> {
    let asker = asker(run, url)?;
    // Asked in any case: it shows that the server is there.
    let names = asker.models(run.resolved.ready_timeout).await;
    let names = names.map_err(|error| run.failed(error))?;
    let name = match served_name {
        Some(name) => name.to_owned(),
        None => choose(run, names)?,
    };
    noted(run, &name, asker.health().await, None);
    if served_name.is_none() && !served::means(&name, &run.resolved.model) {
        let message = match run.resolved.model.as_str() {
            UNNAMED_MODEL => format!(
                "the server serves {name}; say with --model what that is, to compare it with other engines"
            ),
            model => format!("the server serves {name}; the run was told that it is {model}"),
        };
        run.active.record.warn("served_model", message);
    }
    Ok(online(run, url.to_owned(), name))
}

/// The page at `path`, once it answers 200.
async fn healthy(
    run: &Run,
    child: &Child,
    base_url: &str,
    path: &str,
    instance: Option<&str>,
) -> Result<serde_json::Value, Failure> {
    let url = format!("{base_url}{path}");
    let answer = process::wait_ready(child, &url, instance, run.resolved.ready_timeout).await;
    let answer = answer.map_err(|error| match error {
        ReadyError::Died { .. } => Failure::Gone(Stage::Load),
        other => run.failed(other.to_string()),
    })?;
    Ok(answer.health_json)
}

fn asker<'a>(run: &'a Run, url: &str) -> Result<Asker<'a>, Failure> {
    Asker::new(url, &run.active.secrets.headers).map_err(|error| run.failed(error))
}

/// A server that lists no models is asked for the one that the run declares.
fn choose(run: &Run, names: Option<Vec<String>>) -> Result<String, Failure> {
    let chosen = served::choose(&names.unwrap_or_default(), &run.resolved.model);
    chosen.map_err(|error| run.failed(error))
}

/// A server of others by the name it serves. Whether its model has a chat template is known by the
/// tokenizer, if there is one; most models that are served have one.
fn online(run: &Run, base_url: String, name: String) -> Ready {
    let text = run.resolved.text.clone();
    // Nobody else has our made models: under another name it is another model, with another tokenizer.
    let made_by_us = run.resolved.model.starts_with(dummy::PREFIX)
        && run.active.record.status().spec.workload.tokenizer.is_none();
    let text = text.filter(|_| !made_by_us || name == run.resolved.model);
    let server = Server {
        base_url,
        model: name,
        chat_template: text.as_ref().is_none_or(Text::has_template),
        ours: false,
    };
    run.active.record.update(|status| {
        let provenance = status.provenance.get_or_insert_default();
        provenance.tokenizer_sha256 = text.as_ref().map(|text| text.sha256().to_owned());
    });
    Ready::Online { server, text }
}

/// What is known before the engine says anything: `known`, and what is the same for each run.
pub(super) fn begin_provenance(run: &Run, known: Provenance) {
    let text = run.resolved.text.as_ref();
    run.active.record.update(|status| {
        let chapter = match &status.spec.arm.engine {
            EngineRef::Chapter { id } => Some(id),
            EngineRef::Named { chapter, .. } => chapter.as_ref(),
            EngineRef::Url { .. } => None,
        };
        let title = chapter.and_then(|id| engine::chapters::find(id).ok());
        status.provenance = Some(Provenance {
            agent_build: build_word(&engine::cli::build_facts()),
            engine_title: title.map(|chapter| chapter.title.to_owned()),
            host_fingerprint: run.bench.facts.fingerprint.clone(),
            definition: contracts::DEFINITION.to_owned(),
            tokenizer_sha256: text.map(|text| text.sha256().to_owned()),
            ..known
        });
    });
}

/// What an engine of ours says of itself once it has loaded.
pub(super) fn loaded(run: &Run, build: &BuildFacts, model: Option<ModelFacts>, spawned: Instant) {
    let ready_ms = spawned.elapsed().as_secs_f64() * 1e3;
    run.active.record.update(|status| {
        status.lifecycle.ready_ms = Some(ready_ms);
        told(status.provenance.get_or_insert_default(), build, model);
    });
    save(run);
}

/// What is known of a server of others once it answers. `said`: it is one of ours after all.
fn noted(run: &Run, name: &str, said: Option<Health>, ready_ms: Option<f64>) {
    run.active.record.update(|status| {
        status.lifecycle.ready_ms = ready_ms;
        let provenance = status.provenance.get_or_insert_default();
        provenance.served_name = Some(name.to_owned());
        if let Some(health) = said {
            told(provenance, &health.build, health.model);
        }
    });
    save(run);
}

fn told(provenance: &mut Provenance, build: &BuildFacts, model: Option<ModelFacts>) {
    provenance.engine_build = Some(build_word(build));
    provenance.engine_profile = Some(build.profile.clone());
    provenance.model = model.or_else(|| provenance.model.take());
}

/// On disk, for the case that this agent dies.
fn save(run: &Run) {
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
