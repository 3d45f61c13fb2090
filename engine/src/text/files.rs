//! A model's words from the files of a Hugging Face directory; [`TextFiles`] says which are there.

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use super::{Parts, Text, pieces::Pieces, template::Template};
use crate::error::EngineError;

/// Where the files are that tell a model's words. Only `tokenizer.json` is needed.
#[derive(Debug, Clone, Default)]
pub struct TextFiles {
    /// `tokenizer.json`.
    pub tokenizer: Option<PathBuf>,
    /// `tokenizer_config.json`: names of special tokens, chat template.
    pub tokenizer_config: Option<PathBuf>,
    /// `special_tokens_map.json`: names of special tokens, in older models.
    pub special_tokens_map: Option<PathBuf>,
    /// `chat_template.jinja`, stronger than the template in `tokenizer_config.json`.
    pub chat_template: Option<PathBuf>,
    /// `generation_config.json`: the ids that end an answer.
    pub generation_config: Option<PathBuf>,
    /// `config.json`: likewise, where `generation_config.json` names none.
    pub config: Option<PathBuf>,
}

impl TextFiles {
    /// The files that this directory has.
    pub fn in_dir(dir: &Path) -> Self {
        let there = |name: &str| Some(dir.join(name)).filter(|path| path.is_file());
        Self {
            tokenizer: there("tokenizer.json"),
            tokenizer_config: there("tokenizer_config.json"),
            special_tokens_map: there("special_tokens_map.json"),
            chat_template: there("chat_template.jinja"),
            generation_config: there("generation_config.json"),
            config: there("config.json"),
        }
    }
}

impl Text {
    /// Reads the tokenizer, template and stop ids of a model directory.
    ///
    /// # Errors
    /// As [`Text::from_files`].
    #[cfg(test)]
    pub fn from_dir(dir: &Path) -> Result<Self, EngineError> {
        Self::from_files(&dir.display().to_string(), &TextFiles::in_dir(dir))
    }

    /// Reads the tokenizer, template and stop ids of `model` (a name for errors).
    ///
    /// Truncation and padding that `tokenizer.json` may ask for are switched off. Stop ids are the
    /// `eos_token_id` of `generation_config.json`, else of `config.json`, else the id of the
    /// tokenizer's `eos_token`.
    ///
    /// # Errors
    /// [`EngineError::Model`] naming the file that is missing or damaged,
    /// [`EngineError::Unsupported`] for a tokenizer of a kind that we would decode wrong.
    pub fn from_files(model: &str, files: &TextFiles) -> Result<Self, EngineError> {
        let reader = Reader { model };
        let Some(path) = &files.tokenizer else {
            return Err(EngineError::model(model, "tokenizer.json is missing"));
        };
        let bytes = reader.bytes(path)?;
        let tokenizer = reader.tokenizer(path, &bytes)?;

        let tokenizer_config = reader.json(files.tokenizer_config.as_deref())?;
        let mut names = token_names(&reader.json(files.special_tokens_map.as_deref())?);
        names.extend(token_names(&tokenizer_config));

        let template = match &files.chat_template {
            Some(path) => Some(reader.text(path)?),
            None => default_template(&tokenizer_config).map(str::to_owned),
        };
        let mut stop_ids = Vec::new();
        for path in [&files.generation_config, &files.config] {
            if stop_ids.is_empty() {
                stop_ids = reader.eos_ids(path.as_deref())?;
            }
        }
        if stop_ids.is_empty() {
            stop_ids.extend(
                names
                    .get("eos_token")
                    .and_then(|token| tokenizer.token_to_id(token)),
            );
        }
        Ok(Self::new(
            Parts {
                pieces: Pieces::of(&tokenizer)?,
                tokenizer,
                stop_ids,
                before: Vec::new(),
                after: Vec::new(),
                sha256: hex::encode(Sha256::digest(&bytes)),
            },
            template.map(|source| Template::new(&source, names)),
        ))
    }
}

/// Reads files so that each error names the model and the file.
struct Reader<'a> {
    model: &'a str,
}

impl Reader<'_> {
    fn error(&self, path: &Path, what: impl std::fmt::Display) -> EngineError {
        EngineError::model(self.model, format!("{}: {what}", path.display()))
    }

    fn bytes(&self, path: &Path) -> Result<Vec<u8>, EngineError> {
        fs::read(path).map_err(|error| self.error(path, error))
    }

    fn text(&self, path: &Path) -> Result<String, EngineError> {
        String::from_utf8(self.bytes(path)?).map_err(|_| self.error(path, "not UTF-8"))
    }

    /// Null for a file that isn't there.
    fn json(&self, path: Option<&Path>) -> Result<Value, EngineError> {
        let Some(path) = path else {
            return Ok(Value::Null);
        };
        serde_json::from_slice(&self.bytes(path)?)
            .map_err(|error| self.error(path, format!("not valid JSON: {error}")))
    }

    fn tokenizer(&self, path: &Path, bytes: &[u8]) -> Result<Tokenizer, EngineError> {
        let damaged = |error: &dyn std::fmt::Display| {
            self.error(path, format!("not a tokenizer that can be read: {error}"))
        };
        // The library panics on merges that make a token longer than any in the vocabulary.
        let mut tokenizer = catch_unwind(AssertUnwindSafe(|| Tokenizer::from_bytes(bytes)))
            .map_err(|_| damaged(&"merges and vocabulary do not fit"))?
            .map_err(|error| damaged(&error))?;
        tokenizer
            .with_truncation(None)
            .map_err(|error| damaged(&error))?
            .with_padding(None);

        // The library gives an added token another id when the file's is not free; then every
        // answer would be wrong without a word.
        let declared: Declared = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
        for token in declared.added_tokens {
            let id = tokenizer.token_to_id(&token.content);
            if id != Some(token.id) {
                let got = id.map_or("none".to_owned(), |id| id.to_string());
                return Err(damaged(&format!(
                    "added token {:?} has id {}, but gets {got}",
                    token.content, token.id
                )));
            }
        }
        Ok(tokenizer)
    }

    fn eos_ids(&self, path: Option<&Path>) -> Result<Vec<u32>, EngineError> {
        let config = self.json(path)?;
        let (Some(path), Some(value)) = (path, config.get("eos_token_id")) else {
            return Ok(Vec::new());
        };
        let ids = match value {
            Value::Null => Some(Vec::new()),
            Value::Array(ids) => ids.iter().map(token_id).collect(),
            id => token_id(id).map(|id| vec![id]),
        };
        ids.ok_or_else(|| {
            self.error(
                path,
                format!("eos_token_id must be a token id or a list of them, not {value}"),
            )
        })
    }
}

fn token_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// The part of `tokenizer.json` that is checked against what the library made of it.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<DeclaredToken>,
}

#[derive(Deserialize)]
struct DeclaredToken {
    id: u32,
    content: String,
}

/// `bos_token`, `eos_token` and the like, each a string or an object with `content`.
fn token_names(config: &Value) -> BTreeMap<String, String> {
    let entries = config
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.ends_with("_token"));
    entries
        .filter_map(|(key, value)| {
            let name = value.as_str().or_else(|| value.get("content")?.as_str())?;
            Some((key.clone(), name.to_owned()))
        })
        .collect()
}

/// The template of `tokenizer_config.json`: a string, or the one named `default` of a list.
fn default_template(config: &Value) -> Option<&str> {
    match config.get("chat_template")? {
        Value::String(source) => Some(source),
        Value::Array(named) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))?
            .get("template")?
            .as_str(),
        _ => None,
    }
}
