//! The metadata of a Llama `.gguf` file: its shape as a [`Config`], and each key that we could not
//! run right refused by name.
//!
//! Tensors are left to [`super::gguf`], the tokenizer's keys to [`crate::text`].

use std::collections::HashMap;

use candle_core::quantized::gguf_file::{Content, Value};

use super::{
    config::{Config, Family},
    rope::RopeScaling,
};
use crate::error::EngineError;

/// The only architecture that can be run.
const ARCHITECTURE: &str = "llama";

/// Typed reading of the metadata, with errors that name the key.
pub(super) struct Metadata<'a> {
    pub model: &'a str,
    pub values: &'a HashMap<String, Value>,
}

impl Metadata<'_> {
    /// The shape that the keys and the embedding's dimensions give.
    pub fn config(&self, content: &Content) -> Result<Config, EngineError> {
        match self.values.get("general.architecture") {
            Some(Value::String(name)) if name == ARCHITECTURE => {}
            Some(value) => {
                return Err(self.unsupported(
                    "general.architecture",
                    value,
                    "only llama can be run",
                ));
            }
            None => return Err(self.broken("general.architecture is missing".to_owned())),
        }
        let embedding = content
            .tensor_infos
            .get("token_embd.weight")
            .map(|info| info.shape.dims());
        let Some([vocab, _]) = embedding else {
            return Err(self.broken(
                "tensor token_embd.weight is missing or has not two dimensions".to_owned(),
            ));
        };
        let (hidden, heads) = (
            self.size("embedding_length")?,
            self.size("attention.head_count")?,
        );
        let config = Config {
            family: Family::Llama,
            hidden,
            intermediate: self.size("feed_forward_length")?,
            vocab: *vocab,
            layers: self.size("block_count")?,
            heads,
            kv_heads: self.size("attention.head_count_kv")?,
            head_dim: hidden / heads,
            norm_eps: self
                .float("attention.layer_norm_rms_epsilon")?
                .unwrap_or(1e-5),
            rope_theta: self.float("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: RopeScaling::None,
            context: self.size("context_length")?,
            tied: !content.tensor_infos.contains_key("output.weight"),
            attention_bias: false,
        };
        config
            .check_sizes("llama.block_count", "llama.context_length")
            .map_err(|message| self.broken(message))?;
        if !hidden.is_multiple_of(heads)
            || !heads.is_multiple_of(config.kv_heads)
            || !config.head_dim.is_multiple_of(2)
            || config.head_dim == 0
        {
            return Err(self.broken(format!(
                "embedding_length {hidden}, head_count {heads} and head_count_kv {} do not divide each other",
                config.kv_heads
            )));
        }
        self.refuse_unknown(&config)?;
        Ok(config)
    }

    /// Each `llama.` key that is neither read nor neutral.
    fn refuse_unknown(&self, config: &Config) -> Result<(), EngineError> {
        const READ: &[&str] = &[
            "embedding_length",
            "attention.head_count",
            "feed_forward_length",
            "block_count",
            "attention.head_count_kv",
            "attention.layer_norm_rms_epsilon",
            "rope.freq_base",
            "context_length",
        ];
        let mut keys: Vec<_> = self.values.iter().collect();
        keys.sort_by_key(|(key, _)| key.as_str());
        for (key, value) in keys {
            let Some(name) = key.strip_prefix("llama.") else {
                continue;
            };
            let number = number(value);
            let is_neutral = READ.contains(&name)
                || match name {
                    "vocab_size" => number == Some(config.vocab as f64),
                    "rope.dimension_count" | "attention.key_length" | "attention.value_length" => {
                        number == Some(config.head_dim as f64)
                    }
                    "rope.scaling.type" => matches!(value, Value::String(kind) if kind == "none"),
                    "rope.scaling.factor" | "rope.scale_linear" => number == Some(1.0),
                    "attention.sliding_window" => number
                        .is_some_and(|window| window == 0.0 || window >= config.context as f64),
                    "attention.causal" => matches!(value, Value::Bool(true)),
                    // Says nothing without the scaling's own keys.
                    "rope.scaling.original_context_length" | "tensor_data_layout" => true,
                    _ => number == Some(0.0) || matches!(value, Value::Bool(false)),
                };
            if !is_neutral {
                return Err(self.unsupported(
                    key,
                    value,
                    "without it, or with this value, answers might be wrong",
                ));
            }
        }
        // candle needs this key, and has no default for it.
        self.size("rope.dimension_count").map(|_| ())
    }

    fn size(&self, name: &str) -> Result<usize, EngineError> {
        const SIZE_MAX: f64 = (1 << 24) as f64;
        let key = format!("llama.{name}");
        let value = self
            .values
            .get(&key)
            .ok_or_else(|| self.broken(format!("{key} is missing")))?;
        match number(value) {
            Some(size) if (1.0..=SIZE_MAX).contains(&size) && size.fract() == 0.0 => {
                Ok(size as usize)
            }
            _ => Err(self.broken(format!("{key} is not a whole number from 1 to {SIZE_MAX}"))),
        }
    }

    fn float(&self, name: &str) -> Result<Option<f64>, EngineError> {
        let key = format!("llama.{name}");
        let Some(value) = self.values.get(&key) else {
            return Ok(None);
        };
        match number(value) {
            Some(float) if float.is_finite() && float > 0.0 => Ok(Some(float)),
            _ => Err(self.broken(format!("{key} is not a positive number"))),
        }
    }

    fn broken(&self, message: String) -> EngineError {
        EngineError::model(self.model, message)
    }

    fn unsupported(&self, key: &str, value: &Value, why: &str) -> EngineError {
        let shown = match value {
            Value::String(text) => text.clone(),
            Value::Array(list) => format!("a list of {}", list.len()),
            other => {
                number(other).map_or_else(|| format!("{other:?}"), |number| number.to_string())
            }
        };
        EngineError::Unsupported {
            what: format!("model {}: {key} = {shown}", self.model),
            why: why.to_owned(),
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::U8(number) => Some(f64::from(*number)),
        Value::I8(number) => Some(f64::from(*number)),
        Value::U16(number) => Some(f64::from(*number)),
        Value::I16(number) => Some(f64::from(*number)),
        Value::U32(number) => Some(f64::from(*number)),
        Value::I32(number) => Some(f64::from(*number)),
        Value::U64(number) => Some(*number as f64),
        Value::I64(number) => Some(*number as f64),
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
    }
}
