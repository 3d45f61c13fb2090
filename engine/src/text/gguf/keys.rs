//! Typed reading of a GGUF file's tokenizer keys, with errors that name the key.

use std::collections::{HashMap, HashSet};

use candle_core::quantized::gguf_file::Value;
use sha2::{Digest, Sha256};

use super::Tokens;
use crate::error::EngineError;

/// The metadata of a file.
pub(super) struct Keys<'a> {
    model: &'a str,
    values: &'a HashMap<String, Value>,
}

impl<'a> Keys<'a> {
    /// `model` is the name that errors carry.
    pub(super) fn new(model: &'a str, values: &'a HashMap<String, Value>) -> Self {
        Self { model, values }
    }

    /// An error about the file's tokenizer.
    pub(super) fn damaged(&self, what: &str) -> EngineError {
        EngineError::model(
            self.model,
            format!("the tokenizer inside the file is damaged: {what}"),
        )
    }

    /// An error about a kind of tokenizer that we would split differently.
    pub(super) fn unsupported(&self, key: &str, value: &str, known: &str) -> EngineError {
        EngineError::Unsupported {
            what: format!("model {}: {key} = {value:?}", self.model),
            why: format!("known are {known}"),
        }
    }

    fn get<T>(
        &self,
        key: &str,
        kind: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, EngineError> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.damaged(&format!("{key} is no {kind}")))
    }

    fn list<T>(
        &self,
        key: &str,
        kind: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, EngineError> {
        self.get(key, kind, |value| match value {
            Value::Array(items) => items.iter().map(&read).collect(),
            _ => None,
        })?
        .ok_or_else(|| self.damaged(&format!("{key} is missing")))
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, EngineError> {
        self.get(key, "string", text)
    }

    pub(super) fn required_string(&self, key: &str) -> Result<&'a str, EngineError> {
        self.string(key)?
            .ok_or_else(|| self.damaged(&format!("{key} is missing")))
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, EngineError> {
        self.get(key, "boolean", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn strings(&self, key: &str) -> Result<Vec<&'a str>, EngineError> {
        self.list(key, "list of strings", text)
    }

    pub(super) fn floats(&self, key: &str) -> Result<Vec<f32>, EngineError> {
        self.list(key, "list of 32-bit floats", |value| match value {
            Value::F32(value) => Some(*value),
            _ => None,
        })
    }

    /// The id under a key, which must be one of the file's tokens.
    pub(super) fn token_id(&self, key: &str, tokens: &Tokens) -> Result<Option<u32>, EngineError> {
        let id = self.get(key, "integer", integer)?;
        id.map(|id| {
            u32::try_from(id)
                .ok()
                .filter(|id| (*id as usize) < tokens.names.len())
                .ok_or_else(|| {
                    self.damaged(&format!(
                        "{key} is {id}, but there are {} tokens",
                        tokens.names.len()
                    ))
                })
        })
        .transpose()
    }

    /// The vocabulary, in which no two tokens may have one name.
    pub(super) fn tokens(&self) -> Result<Tokens, EngineError> {
        let names = self.strings("tokenizer.ggml.tokens")?;
        let types = self.list("tokenizer.ggml.token_type", "list of integers", integer)?;
        if types.len() != names.len() {
            let what = format!("{} tokens, but {} token types", names.len(), types.len());
            return Err(self.damaged(&what));
        }
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(self.damaged(&format!("token {name:?} is there twice")));
        }
        Ok(Tokens {
            names: names.into_iter().map(str::to_owned).collect(),
            types,
        })
    }

    /// SHA-256 (hex) over all keys that make the tokenizer, in the order of their names.
    pub(super) fn tokenizer_sha256(&self) -> String {
        let mut keys: Vec<_> = self
            .values
            .iter()
            .filter(|(key, _)| key.starts_with("tokenizer.ggml."))
            .collect();
        keys.sort_by_key(|(key, _)| key.as_str());
        let mut hasher = Sha256::new();
        for (key, value) in keys {
            hasher.update(key);
            digest(value, &mut hasher);
        }
        hex::encode(hasher.finalize())
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::U8(value) => Some((*value).into()),
        Value::I8(value) => Some((*value).into()),
        Value::U16(value) => Some((*value).into()),
        Value::I16(value) => Some((*value).into()),
        Value::U32(value) => Some((*value).into()),
        Value::I32(value) => Some((*value).into()),
        Value::U64(value) => i64::try_from(*value).ok(),
        Value::I64(value) => Some(*value),
        Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// Each value behind a mark of its kind, lists and strings behind their length.
fn digest(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::String(text) => {
            hasher.update(format!("s{}:", text.len()));
            hasher.update(text);
        }
        Value::Array(items) => {
            hasher.update(format!("a{}:", items.len()));
            items.iter().for_each(|item| digest(item, hasher));
        }
        Value::F32(value) => hasher.update(format!("f{};", value.to_bits())),
        Value::F64(value) => hasher.update(format!("f{};", value.to_bits())),
        Value::Bool(value) => hasher.update(format!("b{value};")),
        number => hasher.update(format!("i{};", integer(number).unwrap_or(-1))),
    }
}
