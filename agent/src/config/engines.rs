//! `engines.toml`: the engines that a spec may name, so that no spec ever carries a command or a path.
//!
//! ```toml
//! [engine.before-my-commit]
//! kind = "chapterbench"            # another build of this program
//! path = "/opt/chapterbench-3fa1c2d/controller"
//! ```
//! Relative paths are taken from the folder of the file. Unknown keys and kinds are errors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;

/// `kind` of another build of this program.
pub const KIND_CHAPTERBENCH: &str = "chapterbench";

/// One engine that the agent's config names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineEntry {
    /// What a spec calls it.
    pub name: String,
    /// Executable of another build of ours.
    pub path: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    engine: BTreeMap<String, toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chapterbench {
    #[serde(rename = "kind")]
    _kind: String,
    path: PathBuf,
}

/// Reads `path`; every executable it names must be there.
pub fn read(path: &Path) -> Result<Vec<EngineEntry>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
        path: path.to_path_buf(),
        error,
    })?;
    let fail = |message| ConfigError::File {
        path: path.to_path_buf(),
        message,
    };
    let mut entries = parse(&text).map_err(fail)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    for entry in &mut entries {
        entry.path = folder.join(&entry.path);
        if !entry.path.is_file() {
            return Err(fail(format!(
                "engine.{}.path: {} is not a file",
                entry.name,
                entry.path.display()
            )));
        }
    }
    Ok(entries)
}

/// The text's entries in order of name, or one line that names the key at fault.
fn parse(text: &str) -> Result<Vec<EngineEntry>, String> {
    let file: File =
        toml::from_str(text).map_err(|error| super::settings::toml_line(text, &error))?;
    file.engine
        .into_iter()
        .map(|(name, table)| entry(name, table))
        .collect()
}

fn entry(name: String, table: toml::Table) -> Result<EngineEntry, String> {
    if name.is_empty()
        || !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    {
        return Err(format!(
            "engine.{name:?}: a name has letters, digits, '-', '_' and '.' only"
        ));
    }
    match table.get("kind").map(|kind| kind.as_str()) {
        Some(Some(KIND_CHAPTERBENCH)) => {}
        Some(kind) => {
            let kind = kind.unwrap_or("not a string");
            return Err(format!(
                "engine.{name}.kind: {kind:?} is not known to this build; it knows \"chapterbench\""
            ));
        }
        None => return Err(format!("engine.{name}.kind is missing (\"chapterbench\")")),
    }
    let known: Chapterbench = toml::Value::Table(table)
        .try_into()
        .map_err(|error| format!("engine.{name}: {}", error.message()))?;
    Ok(EngineEntry {
        name,
        path: known.path,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn reads_entries_in_order_of_name_with_paths_from_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("old"), "").unwrap();
        let file = dir.path().join("engines.toml");
        let text = "[engine.b]\nkind='chapterbench'\npath='old'\n[engine.a]\nkind='chapterbench'\npath='old'\n";
        std::fs::write(&file, text).unwrap();
        let entries = read(&file).unwrap();
        assert_eq!(
            entries.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(entries[0].path, dir.path().join("old"));
    }

    #[test]
    fn every_error_names_the_file_and_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("engines.toml");
        for (text, key) in [
            (
                "[engine.x]\nkind='chapterbench'\npath='gone'\n",
                "engine.x.path: ",
            ),
            ("[engine.x]\nkind='chapterbench'\n", "missing field `path`"),
            (
                "[engine.x]\nkind='chapterbench'\npath='a'\nargs=[]\n",
                "engine.x: unknown field `args`",
            ),
            (
                "[engine.x]\nkind='server'\ncommand=['vllm']\n",
                "engine.x.kind: \"server\" is not known",
            ),
            ("[engine.x]\npath='a'\n", "engine.x.kind is missing"),
            (
                "[engine.\"a/b\"]\nkind='chapterbench'\npath='a'\n",
                "engine.\"a/b\"",
            ),
            ("[engines.x]\n", "unknown field `engines`"),
            ("[engine.x\n", "line 1"),
        ] {
            std::fs::write(&file, text).unwrap();
            let message = read(&file).unwrap_err().to_string();
            assert!(
                message.contains("engines.toml") && message.contains(key),
                "{text:?} gave {message:?}"
            );
            assert!(!message.contains('\n'), "one line: {message:?}");
        }
    }
}
