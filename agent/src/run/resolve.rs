//! Whether *this* host can run a spec: its chapters, its engines, its models. Reads files, starts nothing.

use std::path::PathBuf;
use std::time::Duration;

use contracts::run::{Device, EngineRef, RunSpec};
use engine::error::EngineError;
use engine::text::Text;

use super::check::{self, Refusal};
use super::fits;
use super::foreign::{self, ServerCommand};
use super::model_path;
use crate::config::engines::EngineKind;
use crate::config::engines::server::ServerEntry;
use crate::config::{EngineEntry, ModelRoots};
use crate::load::{Route, Target};

/// The one chapter that has no model to look at: it is a clock that speaks.
const CHAPTER_WITHOUT_MODEL: &str = "fake";

/// What a spec comes to on this host.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What to start, or to ask.
    pub engine: Engine,
    /// The model as the engine will load it: an absolute path, or its name.
    pub model: String,
    /// Bytes of its weight files, where they lie in plain sight and are loaded here.
    pub weights_bytes: Option<u64>,
    /// What counts and makes tokens here: of the spec's tokenizer, else of its model, where this
    /// agent can read it.
    pub text: Option<Text>,
    /// Start to ready.
    pub ready_timeout: Duration,
    /// SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// What to start, or to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// Ours.
    Ours {
        /// Another build of ours, or none: this one.
        executable: Option<PathBuf>,
        /// The chapter's id.
        chapter: String,
    },
    /// A server of others that is started for this run.
    Server(Box<ServerCommand>),
    /// A server that runs already.
    Url {
        /// Where.
        url: String,
        /// The model's name there, if the spec says it.
        served_name: Option<String>,
    },
}

impl Engine {
    /// Whether a server computes on this host that this agent has not started, so that its use of the
    /// CPU cannot be told from that of strangers.
    pub fn runs_beside_us(&self) -> bool {
        let Self::Url { url, .. } = self else {
            return false;
        };
        Target::parse(url).is_ok_and(|target| {
            let address = target.host.parse::<std::net::IpAddr>();
            target.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        })
    }
}

/// Checks all that can be known without loading. May read a tokenizer: call it where blocking is fine.
pub fn resolve(
    spec: &RunSpec,
    roots: &ModelRoots,
    engines: &[EngineEntry],
) -> Result<Resolved, Refusal> {
    check::spec(spec)?;
    if let EngineRef::Url { url, served_name } = &spec.arm.engine {
        return running(spec, roots, url, served_name.clone());
    }
    let wanted = wanted(&spec.arm.engine, engines)?;
    let model = model_path::real("workload.model", &spec.workload.model, roots)?;
    let given = given_tokenizer(spec, roots)?;
    let (engine, text, ready_timeout, grace) = match wanted {
        Wanted::Chapter(executable, chapter) => {
            let (engine, text) = ours(spec, executable, chapter, &model, given)?;
            (engine, text, Duration::ZERO, Duration::ZERO)
        }
        Wanted::Server(name, entry) => {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            let cores = u32::try_from(cores).unwrap_or(u32::MAX);
            let command = foreign::server(name, entry, &spec.arm, &model, cores)?;
            let engine = Engine::Server(Box::new(command));
            let text = of_others(spec, given, Some(&model))?;
            (engine, text, entry.ready_timeout, entry.grace)
        }
    };
    Ok(Resolved {
        text,
        engine,
        weights_bytes: model_path::weights_bytes(&model),
        model,
        // An entry knows how slow its engine is, and the spec how patient its user: both are met.
        ready_timeout: Duration::from_millis(spec.limits.ready_timeout_ms).max(ready_timeout),
        grace: Duration::from_millis(spec.limits.stop_grace_ms).max(grace),
    })
}

/// A server that runs already, here or elsewhere: its model may lie out of this host's sight.
fn running(
    spec: &RunSpec,
    roots: &ModelRoots,
    url: &str,
    served_name: Option<String>,
) -> Result<Resolved, Refusal> {
    foreign::url(url, &spec.arm)?;
    let model = model_path::real("workload.model", &spec.workload.model, roots).ok();
    let given = given_tokenizer(spec, roots)?;
    Ok(Resolved {
        engine: Engine::Url {
            url: url.to_owned(),
            served_name,
        },
        text: of_others(spec, given, model.as_deref())?,
        model: model.unwrap_or_else(|| spec.workload.model.clone()),
        weights_bytes: None,
        ready_timeout: Duration::from_millis(spec.limits.ready_timeout_ms),
        grace: Duration::ZERO,
    })
}

/// A tokenizer that is asked for must be there.
fn given_tokenizer(spec: &RunSpec, roots: &ModelRoots) -> Result<Option<Text>, Refusal> {
    let field = "workload.tokenizer";
    let Some(name) = &spec.workload.tokenizer else {
        return Ok(None);
    };
    let path = model_path::real(field, name, roots)?;
    let text = engine::inspect::text(&path);
    text.map(Some)
        .map_err(|error| Refusal::new(field, error.to_string()))
}

/// What counts and makes the tokens of an engine of others: what is asked for, else the model's own
/// where it can be read here. Its context is not known.
fn of_others(
    spec: &RunSpec,
    given: Option<Text>,
    model: Option<&str>,
) -> Result<Option<Text>, Refusal> {
    let text = given.or_else(|| engine::inspect::text(model?).ok());
    let template = text.as_ref().is_none_or(Text::has_template);
    let route = Route::resolve(spec.workload.endpoint, template);
    fits::check(spec, route, text.as_ref(), None)?;
    Ok(text)
}

/// An engine as it was found by its name.
enum Wanted<'a> {
    /// Another build of ours or none, and the chapter's id.
    Chapter(Option<PathBuf>, String),
    /// Name and entry.
    Server(&'a str, &'a ServerEntry),
}

fn wanted<'a>(engine: &'a EngineRef, engines: &'a [EngineEntry]) -> Result<Wanted<'a>, Refusal> {
    let (name, chapter) = match engine {
        EngineRef::Chapter { id } => {
            let chapter = engine::chapters::find(id).map_err(|error| unknown_chapter(&error))?;
            return Ok(Wanted::Chapter(None, chapter.id.to_owned()));
        }
        EngineRef::Url { .. } => {
            return Err(Refusal::new("arm.engine", "a URL names no engine to start"));
        }
        EngineRef::Named { name, chapter } => (name, chapter),
    };
    let Some(entry) = engines.iter().find(|entry| entry.name == *name) else {
        let known: Vec<&str> = engines.iter().map(|entry| entry.name.as_str()).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        let message = format!("{name:?} is not in this agent's engines.toml; it names: {known}");
        return Err(Refusal::new("arm.engine.name", message));
    };
    let refuse = |message: String| Err(Refusal::new("arm.engine.chapter", message));
    match (&entry.kind, chapter) {
        (EngineKind::Chapterbench { path }, Some(chapter)) => {
            Ok(Wanted::Chapter(Some(path.clone()), chapter.clone()))
        }
        (EngineKind::Chapterbench { .. }, None) => refuse(format!(
            "{name} is a build of ours: name the chapter to run"
        )),
        (EngineKind::Server(entry), None) => Ok(Wanted::Server(name, entry)),
        (EngineKind::Server(_), Some(chapter)) => refuse(format!(
            "{name} is an engine of others and has no chapters; to bench it beside one give `--chapter {chapter} --arm '{name}: --engine {name}'`"
        )),
    }
}

/// A chapter of this build or of another one, and what makes its prompts.
fn ours(
    spec: &RunSpec,
    executable: Option<PathBuf>,
    chapter: String,
    model: &str,
    given: Option<Text>,
) -> Result<(Engine, Option<Text>), Refusal> {
    device(spec.arm.device)?;
    // Another build may know chapters and models that this one does not: it says so when it loads.
    let text = if executable.is_some() {
        given.or_else(|| engine::inspect::text(model).ok())
    } else {
        let found = engine::chapters::find(&chapter).map_err(|error| unknown_chapter(&error))?;
        if found.id == CHAPTER_WITHOUT_MODEL {
            let route = Route::resolve(spec.workload.endpoint, true);
            fits::check(spec, route, given.as_ref(), None)?;
            given
        } else {
            let inspection = engine::inspect::inspect_as(model, spec.arm.dtype, found.runner);
            let inspection = inspection.map_err(|error| {
                Refusal::new("workload.model", format!("{error} ({})", found.id))
            })?;
            let route = fits::route(&spec.workload, model, inspection.chat_template)?;
            let text = given.unwrap_or(inspection.text);
            fits::check(spec, route, Some(&text), Some(inspection.context_tokens))?;
            Some(text)
        }
    };
    let engine = Engine::Ours {
        executable,
        chapter,
    };
    Ok((engine, text))
}

fn device(device: Device) -> Result<(), Refusal> {
    let (built_in, feature) = match device {
        Device::Cpu => return Ok(()),
        Device::Cuda { .. } => (cfg!(feature = "cuda"), "cuda"),
        Device::Metal { .. } => (cfg!(feature = "metal"), "metal"),
    };
    if built_in {
        return Ok(());
    }
    Err(Refusal::new(
        "arm.device",
        format!("this agent is built without the feature `{feature}`; use the cpu"),
    ))
}

fn unknown_chapter(error: &EngineError) -> Refusal {
    let message = match error {
        EngineError::BadInput { message, .. } => message.clone(),
        other => other.to_string(),
    };
    Refusal::new("arm.engine.id", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_host_is_known_by_its_address() {
        let beside = |url: &str| {
            let engine = Engine::Url {
                url: url.to_owned(),
                served_name: None,
            };
            engine.runs_beside_us()
        };
        assert!(
            beside("http://localhost:1") && beside("http://127.0.0.2") && beside("http://[::1]:1")
        );
        assert!(!beside("http://gpu:1") && !beside("http://10.0.0.1"));
    }
}
