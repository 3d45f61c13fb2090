//! Typed reading of `config.json`'s fields with errors that name file and field, and the lists of
//! fields that may be there without being read.
//!
//! What a field means is left to [`super::config`] and [`super::rope`].

use serde_json::{Map, Value};

use crate::error::EngineError;

/// No dimension of a model that fits a machine is larger; keeps products from overflowing.
const SIZE_MAX: u64 = 1 << 24;

/// Fields that [`super::config`] and [`super::rope`] read.
const READ: &[&str] = &[
    "architectures",
    "attention_bias",
    "dtype",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "partial_rotary_factor",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "torch_dtype",
    "use_sliding_window",
    "vocab_size",
];

/// Fields that change nothing in a forward pass: training, bookkeeping, and generation defaults
/// that old transformers wrote here.
const HARMLESS: &[&str] = &[
    "attention_dropout",
    "attn_dropout",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_max_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

/// The fields of one JSON object; `null` counts as absent.
pub(super) struct Fields<'a> {
    model: &'a str,
    within: &'static str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The object at the top of `config.json`.
    pub fn new(model: &'a str, map: &'a Map<String, Value>) -> Self {
        Self {
            model,
            within: "",
            map,
        }
    }

    /// An object inside it; errors name its fields as `within` + field.
    pub fn inner(&self, within: &'static str, map: &'a Map<String, Value>) -> Self {
        Self {
            model: self.model,
            within,
            map,
        }
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Whether the field is there at all, be it `null`.
    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub fn text(&self, name: &str) -> Result<Option<&'a str>, EngineError> {
        self.typed(name, "a string", Value::as_str)
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, EngineError> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub fn float(&self, name: &str) -> Result<Option<f64>, EngineError> {
        self.typed(name, "a finite number", |value| {
            value.as_f64().filter(|number| number.is_finite())
        })
    }

    /// A size that must be there and be at least 1.
    pub fn size(&self, name: &str) -> Result<usize, EngineError> {
        self.size_or_none(name)?.ok_or_else(|| self.missing(name))
    }

    pub fn size_or_none(&self, name: &str) -> Result<Option<usize>, EngineError> {
        self.typed(name, "a whole number from 1 to 16777216", |value| {
            value
                .as_u64()
                .filter(|number| (1..=SIZE_MAX).contains(number))
                .map(|number| number as usize)
        })
    }

    /// A count that may be 0.
    pub fn count_or_none(&self, name: &str) -> Result<Option<usize>, EngineError> {
        self.typed(name, "a whole number up to 16777216", |value| {
            value
                .as_u64()
                .filter(|number| *number <= SIZE_MAX)
                .map(|number| number as usize)
        })
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, _)| name.as_str())
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, EngineError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| self.ill_typed(name, expected)),
        }
    }

    pub fn missing(&self, name: &str) -> EngineError {
        self.broken(format!("field {}{name} is missing", self.within))
    }

    pub fn ill_typed(&self, name: &str, expected: &str) -> EngineError {
        self.broken(format!(
            "field {}{name} is {}, not {expected}",
            self.within,
            self.shown(name)
        ))
    }

    pub fn broken(&self, message: String) -> EngineError {
        EngineError::model(self.model, format!("config.json: {message}"))
    }

    pub fn unsupported(&self, name: &str, why: &str) -> EngineError {
        EngineError::Unsupported {
            what: format!(
                "model {}: config.json has {}{name} = {}",
                self.model,
                self.within,
                self.shown(name)
            ),
            why: why.to_owned(),
        }
    }

    /// The value on one short line.
    fn shown(&self, name: &str) -> String {
        const CHARS_MAX: usize = 120;
        let text = self
            .map
            .get(name)
            .map_or_else(|| "absent".to_owned(), Value::to_string);
        match text.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }
}

/// Refuses a field that is neither read, nor harmless, nor neutral: without knowing it, the
/// answers might be wrong.
pub(super) fn refuse_unknown(fields: &Fields<'_>) -> Result<(), EngineError> {
    for name in fields.keys() {
        let known = READ.contains(&name) || HARMLESS.contains(&name) || name.starts_with('_');
        if !known && !fields.get(name).is_none_or(is_neutral) {
            return Err(fields.unsupported(
                name,
                "this field is not known here, and without it answers might be wrong",
            ));
        }
    }
    Ok(())
}

fn is_neutral(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
