//! Whether *this* host can run a spec: its chapters, its engines, its models. Reads files, starts nothing.

use std::path::PathBuf;
use std::time::Duration;

use contracts::openai::ChatMessage;
use contracts::run::{Device, Dtype, Endpoint, EngineRef, PromptSource, RunSpec, Workload};
use engine::chapters::Chapter;
use engine::error::EngineError;
use engine::inspect::Inspection;
use engine::text::{Input, Text};

use super::check::{self, Refusal};
use super::foreign::{self, ServerCommand};
use super::model_path;
use crate::config::engines::EngineKind;
use crate::config::engines::server::ServerEntry;
use crate::config::{EngineEntry, ModelRoots};

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
    let (engine, ready_timeout, grace) = match wanted {
        Wanted::Chapter(executable, chapter) => {
            let engine = ours(spec, executable, chapter, &model)?;
            (engine, Duration::ZERO, Duration::ZERO)
        }
        Wanted::Server(name, entry) => {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            let cores = u32::try_from(cores).unwrap_or(u32::MAX);
            let command = foreign::server(name, entry, &spec.arm, &model, cores)?;
            let engine = Engine::Server(Box::new(command));
            (engine, entry.ready_timeout, entry.grace)
        }
    };
    let of_model = match &engine {
        Engine::Ours { chapter, .. } if chapter == CHAPTER_WITHOUT_MODEL => None,
        _ => Some(model.as_str()),
    };
    Ok(Resolved {
        text: text(spec, roots, of_model)?,
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
    Ok(Resolved {
        engine: Engine::Url {
            url: url.to_owned(),
            served_name,
        },
        text: text(spec, roots, model.as_deref())?,
        model: model.unwrap_or_else(|| spec.workload.model.clone()),
        weights_bytes: None,
        ready_timeout: Duration::from_millis(spec.limits.ready_timeout_ms),
        grace: Duration::ZERO,
    })
}

/// A tokenizer that is asked for must be there; that of the model is a help where it can be read.
fn text(spec: &RunSpec, roots: &ModelRoots, model: Option<&str>) -> Result<Option<Text>, Refusal> {
    let field = "workload.tokenizer";
    let Some(name) = &spec.workload.tokenizer else {
        return Ok(model.and_then(|model| engine::inspect::text(model).ok()));
    };
    let path = model_path::real(field, name, roots)?;
    let text = engine::inspect::text(&path);
    text.map(Some)
        .map_err(|error| Refusal::new(field, error.to_string()))
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
        (EngineKind::Server(_), Some(_)) => refuse(format!(
            "{name} is an engine of others and has no chapters; bench chapters in a run of their own"
        )),
    }
}

/// A chapter of this build or of another one.
fn ours(
    spec: &RunSpec,
    executable: Option<PathBuf>,
    chapter: String,
    model: &str,
) -> Result<Engine, Refusal> {
    device(spec.arm.device)?;
    // Another build may know chapters and models that this one does not: it says so when it loads.
    if executable.is_none() {
        let found = engine::chapters::find(&chapter).map_err(|error| unknown_chapter(&error))?;
        if found.id != CHAPTER_WITHOUT_MODEL {
            workload(&spec.workload, model, spec.arm.dtype, found)?;
        }
    }
    Ok(Engine::Ours {
        executable,
        chapter,
    })
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

/// Template and context, by the model's own tokenizer.
fn workload(
    workload: &Workload,
    model: &str,
    dtype: Option<Dtype>,
    chapter: &Chapter,
) -> Result<(), Refusal> {
    let inspection = engine::inspect::inspect_as(model, dtype)
        .map_err(|error| Refusal::new("workload.model", format!("{error} ({})", chapter.id)))?;
    let chat = match workload.endpoint {
        Endpoint::Chat if !inspection.chat_template => {
            return Err(Refusal::new(
                "workload.endpoint",
                format!("{model} has no chat template; use completions"),
            ));
        }
        Endpoint::Auto => inspection.chat_template,
        endpoint => endpoint == Endpoint::Chat,
    };
    let PromptSource::Texts { texts } = &workload.prompts else {
        return Ok(());
    };
    for (index, text) in texts.iter().enumerate() {
        fits(&inspection, index, text, chat, workload.sampling.max_tokens)?;
    }
    Ok(())
}

fn fits(
    inspection: &Inspection,
    index: usize,
    text: &str,
    chat: bool,
    max_tokens: u32,
) -> Result<(), Refusal> {
    let input = if chat {
        Input::Chat(vec![ChatMessage {
            role: "user".to_owned(),
            content: text.into(),
        }])
    } else {
        Input::Text(text.to_owned())
    };
    let ids = inspection.text.encode(&input);
    let ids = ids.map_err(|error| {
        Refusal::new("workload.prompts.texts", format!("prompt {index}: {error}"))
    })?;
    if ids.is_empty() {
        return Err(Refusal::new(
            "workload.prompts.texts",
            format!("prompt {index} has no tokens"),
        ));
    }
    let max_tokens = max_tokens as usize;
    if ids.len() + max_tokens > inspection.context_tokens {
        let error = EngineError::ContextTooLong {
            input_tokens: ids.len(),
            max_tokens,
            context_tokens: inspection.context_tokens,
        };
        return Err(Refusal::new(
            "workload.sampling.max_tokens",
            format!("prompt {index}: {error}"),
        ));
    }
    Ok(())
}
