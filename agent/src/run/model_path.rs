//! Where a model lies: a name as it is, or a path under the agent's roots. Outside of them, whether
//! there is anything is nobody's business.

use std::path::{Path, PathBuf};

use engine::model::dummy;

use super::check::Refusal;
use crate::config::ModelRoots;

/// The path of a model or tokenizer, made absolute and checked against the roots, or its name as it is.
pub(super) fn real(field: &str, name: &str, roots: &ModelRoots) -> Result<String, Refusal> {
    let refuse = |message: String| Err(Refusal::new(field, message));
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
pub(super) fn weights_bytes(model: &str) -> Option<u64> {
    let model = Path::new(model);
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
            let refused = real("workload.model", path, &roots).unwrap_err();
            assert_eq!(refused.field, "workload.model");
            assert!(refused.to_string().contains("model roots"), "{refused}");
        }
        for name in ["nobody/has-this", "dummy:tiny-llm"] {
            assert_eq!(real("workload.model", name, &roots).unwrap(), name);
        }
        let under = dir.path().join("mine");
        std::fs::create_dir(&under).unwrap();
        let found = real("workload.model", "mine", &roots).unwrap();
        assert_eq!(Path::new(&found), under.canonicalize().unwrap());
    }
}
