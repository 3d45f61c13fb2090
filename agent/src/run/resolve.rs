//! Whether *this* host can run a spec: its chapters, its engines, its models. Reads files, starts nothing.

use std::path::{Path, PathBuf};

use contracts::run::{Device, EngineRef, RunSpec};
use engine::error::EngineError;
use engine::model::dummy;
use engine::text::Text;

use super::check::{self, Refusal};
use super::fits;
use crate::config::{EngineEntry, ModelRoots};

/// The one chapter that has no model to look at: it is a clock that speaks.
const CHAPTER_WITHOUT_MODEL: &str = "fake";

/// What to start for a spec.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Another build of ours, or none: this one.
    pub executable: Option<PathBuf>,
    /// The chapter's id.
    pub chapter: String,
    /// The model as the engine will load it: an absolute path, or its name.
    pub model: String,
    /// Bytes of its weight files, where they lie in plain sight.
    pub weights_bytes: Option<u64>,
    /// The tokenizer that the engine uses, where this agent can read it.
    pub text: Option<Text>,
}

/// Checks all that can be known without loading. May read a tokenizer: call it where blocking is fine.
pub fn resolve(
    spec: &RunSpec,
    roots: &ModelRoots,
    engines: &[EngineEntry],
) -> Result<Resolved, Refusal> {
    check::spec(spec)?;
    device(spec.arm.device)?;
    let (executable, chapter) = engine_of(&spec.arm.engine, engines)?;
    let model = model_of(&spec.workload.model, roots)?;
    let mut text = None;
    // Another build may know chapters and models that this one does not: it says so when it loads.
    if executable.is_none() {
        let found = engine::chapters::find(&chapter).map_err(|error| unknown_chapter(&error))?;
        if found.id != CHAPTER_WITHOUT_MODEL {
            let inspection = engine::inspect::inspect_as(&model, spec.arm.dtype);
            let inspection = inspection.map_err(|error| {
                Refusal::new("workload.model", format!("{error} ({})", found.id))
            })?;
            let route = fits::route(&spec.workload, &model, inspection.chat_template)?;
            let context_tokens = Some(inspection.context_tokens);
            fits::check(spec, route, Some(&inspection.text), context_tokens)?;
            text = Some(inspection.text);
        }
    }
    let weights_bytes = weights_bytes(Path::new(&model));
    Ok(Resolved {
        executable,
        chapter,
        model,
        weights_bytes,
        text,
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

fn engine_of(
    engine: &EngineRef,
    engines: &[EngineEntry],
) -> Result<(Option<PathBuf>, String), Refusal> {
    match engine {
        EngineRef::Chapter { id } => {
            let chapter = engine::chapters::find(id).map_err(|error| unknown_chapter(&error))?;
            Ok((None, chapter.id.to_owned()))
        }
        EngineRef::Url { .. } => Err(Refusal::new(
            "arm.engine",
            "servers that run already are not possible yet",
        )),
        EngineRef::Named { name, chapter } => {
            let Some(entry) = engines.iter().find(|entry| entry.name == *name) else {
                let known: Vec<&str> = engines.iter().map(|entry| entry.name.as_str()).collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                let message =
                    format!("{name:?} is not in this agent's engines.toml; it names: {known}");
                return Err(Refusal::new("arm.engine.name", message));
            };
            let chapter = chapter.clone().ok_or_else(|| {
                Refusal::new(
                    "arm.engine.chapter",
                    format!("{name} is a build of ours: name the chapter to run"),
                )
            })?;
            Ok((Some(entry.path.clone()), chapter))
        }
    }
}

fn unknown_chapter(error: &EngineError) -> Refusal {
    let message = match error {
        EngineError::BadInput { message, .. } => message.clone(),
        other => other.to_string(),
    };
    Refusal::new("arm.engine.id", message)
}

/// The model's path, made absolute and checked against the roots, or its name as it is.
fn model_of(name: &str, roots: &ModelRoots) -> Result<String, Refusal> {
    let refuse = |message: String| Err(Refusal::new("workload.model", message));
    let Some(path) = path_of(name, roots) else {
        // The engine takes a name that is a path for one, from its own folder, which is no root.
        if !name.starts_with(dummy::PREFIX) && Path::new(name).exists() {
            return refuse(format!("{name}: not found under this agent's model roots"));
        }
        return Ok(name.to_owned());
    };
    let real = match path.canonicalize() {
        Ok(real) => real,
        // Outside the roots, whether a path exists is nobody's business.
        Err(error) if *roots == ModelRoots::Any => return refuse(format!("{name}: {error}")),
        Err(_) => return refuse(format!("{name}: not found under this agent's model roots")),
    };
    if let ModelRoots::Under(roots) = roots
        && !roots.iter().any(|root| real.starts_with(root))
    {
        return refuse(format!("{name}: not found under this agent's model roots"));
    }
    match real.into_os_string().into_string() {
        Ok(text) => Ok(text),
        Err(_) => refuse(format!("{name}: its path is not UTF-8")),
    }
}

/// None: `name` is a hub id or `dummy:NAME`. A relative path is looked up in each root.
fn path_of(name: &str, roots: &ModelRoots) -> Option<PathBuf> {
    if name.starts_with(dummy::PREFIX) {
        return None;
    }
    let path = Path::new(name);
    if path.is_absolute() {
        return Some(path.to_path_buf());
    }
    let found = match roots {
        ModelRoots::Any => path.exists().then(|| path.to_path_buf()),
        ModelRoots::Under(roots) => roots
            .iter()
            .map(|root| root.join(path))
            .find(|path| path.exists()),
    };
    // What looks like a path and is not there is no hub id.
    let looks_like_a_path =
        name.starts_with('.') || name.ends_with(".gguf") || name.matches('/').count() > 1;
    found.or_else(|| looks_like_a_path.then(|| path.to_path_buf()))
}

/// Sum of the weight files of a path; none for names.
fn weights_bytes(model: &Path) -> Option<u64> {
    let meta = model.metadata().ok()?;
    if meta.is_file() {
        return Some(meta.len());
    }
    let files = std::fs::read_dir(model)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let weights = files.filter(|path| path.extension().is_some_and(|ext| ext == "safetensors"));
    Some(
        weights
            .filter_map(|path| path.metadata().ok())
            .map(|meta| meta.len())
            .sum(),
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_path_from_the_agents_own_folder_is_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let roots = ModelRoots::Under(vec![dir.path().canonicalize().unwrap()]);
        // Tests run in the package's folder, so these are there, and under no root.
        for path in ["src", "src/run"] {
            let refused = model_of(path, &roots).unwrap_err();
            assert_eq!(refused.field, "workload.model");
            assert!(refused.to_string().contains("model roots"), "{refused}");
        }
        for name in ["nobody/has-this", "dummy:tiny-llm"] {
            assert_eq!(model_of(name, &roots).unwrap(), name);
        }
        let under = dir.path().join("mine");
        std::fs::create_dir(&under).unwrap();
        let found = model_of("mine", &roots).unwrap();
        assert_eq!(Path::new(&found), under.canonicalize().unwrap());
    }
}
