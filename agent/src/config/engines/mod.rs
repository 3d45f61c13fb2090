//! `engines.toml`: the engines that a spec may name, so that no spec ever carries a command or a path.
//!
//! ```toml
//! [engine.before-my-commit]
//! kind = "chapterbench"            # another build of this program
//! path = "/opt/chapterbench-3fa1c2d/controller"
//!
//! [engine.llama-cpp]
//! kind = "server"                  # an engine of others, see [`server`]
//! command = ["python3", "-m", "llama_cpp.server", "--model", "{model}", "--port", "{port}"]
//! ```
//! Relative paths are taken from the folder of the file. Unknown keys, kinds and placeholders are
//! errors. `docs/engines/engines.toml` has entries for engines that people use.

pub mod command;
pub mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::server::ServerEntry;
use super::ConfigError;

/// `kind` of another build of this program.
pub const KIND_CHAPTERBENCH: &str = "chapterbench";
/// `kind` of an engine of others.
pub const KIND_SERVER: &str = "server";

/// One engine that the agent's config names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineEntry {
    /// What a spec calls it.
    pub name: String,
    /// What it is.
    pub kind: EngineKind,
}

/// What an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineKind {
    /// Another build of ours.
    Chapterbench {
        /// Its executable.
        path: PathBuf,
    },
    /// An engine of others.
    Server(Box<ServerEntry>),
}

impl EngineEntry {
    /// The `kind` as it is written.
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            EngineKind::Chapterbench { .. } => KIND_CHAPTERBENCH,
            EngineKind::Server(_) => KIND_SERVER,
        }
    }
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

/// Reads `path`. Another build of ours must be there; the program of a server need not.
pub fn read(path: &Path) -> Result<Vec<EngineEntry>, ConfigError> {
    let io = |error| ConfigError::Read {
        path: path.to_path_buf(),
        error,
    };
    let text = std::fs::read_to_string(path).map_err(io)?;
    let folder = std::path::absolute(path).map_err(io)?;
    let folder = folder.parent().unwrap_or(Path::new("/"));
    parse(&text, folder).map_err(|message| ConfigError::File {
        path: path.to_path_buf(),
        message,
    })
}

/// The text's entries in order of name, or one line that names the key at fault.
fn parse(text: &str, folder: &Path) -> Result<Vec<EngineEntry>, String> {
    let file: File =
        toml::from_str(text).map_err(|error| super::settings::toml_line(text, &error))?;
    file.engine
        .into_iter()
        .map(|(name, table)| entry(name, table, folder))
        .collect()
}

fn entry(name: String, table: toml::Table, folder: &Path) -> Result<EngineEntry, String> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || !name.bytes().all(known) {
        return Err(format!(
            "engine.{name:?}: a name has letters, digits, '-', '_' and '.' only"
        ));
    }
    let kind = match table.get("kind").map(|kind| kind.as_str()) {
        Some(Some(KIND_CHAPTERBENCH)) => chapterbench(&name, table, folder)?,
        Some(Some(KIND_SERVER)) => {
            let entry = ServerEntry::parse(table, folder);
            EngineKind::Server(Box::new(
                entry.map_err(|error| format!("engine.{name}{error}"))?,
            ))
        }
        Some(kind) => {
            let kind = kind.unwrap_or("not a string");
            return Err(format!(
                "engine.{name}.kind: {kind:?} is not known to this build; it knows {KIND_CHAPTERBENCH:?} and {KIND_SERVER:?}"
            ));
        }
        None => {
            return Err(format!(
                "engine.{name}.kind is missing ({KIND_CHAPTERBENCH:?} or {KIND_SERVER:?})"
            ));
        }
    };
    Ok(EngineEntry { name, kind })
}

fn chapterbench(name: &str, table: toml::Table, folder: &Path) -> Result<EngineKind, String> {
    let known: Chapterbench = toml::Value::Table(table)
        .try_into()
        .map_err(|error| format!("engine.{name}: {}", error.message()))?;
    let path = folder.join(known.path);
    if !path.is_file() {
        return Err(format!(
            "engine.{name}.path: {} is not a file",
            path.display()
        ));
    }
    Ok(EngineKind::Chapterbench { path })
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
        let path = dir.path().join("old");
        assert_eq!(entries[0].kind, EngineKind::Chapterbench { path });
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
                "[engine.x]\nkind='sever'\ncommand=['vllm']\n",
                "engine.x.kind: \"sever\" is not known",
            ),
            (
                "[engine.x]\nkind='server'\ncommand=['vllm']\n",
                "engine.x.command: neither it nor env has {port}",
            ),
            (
                "[engine.x]\nkind='server'\ncommand=['{port}']\nport=1\n",
                "engine.x: unknown field `port`",
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
    #[test]
    fn a_servers_program_need_not_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("engines.toml");
        std::fs::write(
            &file,
            "[engine.x]\nkind='server'\ncommand=['./gone', '{port}']\n",
        )
        .unwrap();
        let entries = read(&file).unwrap();
        assert_eq!(entries[0].kind_word(), "server");
        let EngineKind::Server(entry) = &entries[0].kind else {
            unreachable!("{entries:?}")
        };
        assert_eq!(entry.program, dir.path().join("./gone"));
    }

    #[test]
    fn every_shipped_entry_can_be_read() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/engines/engines.toml");
        let names: Vec<String> = read(&file).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(
            names,
            [
                "llama-cpp",
                "llama-server",
                "ollama",
                "sglang",
                "tgi",
                "vllm"
            ]
        );
    }
}
