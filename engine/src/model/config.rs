//! Our own reading of a Hugging Face `config.json`: what we can run becomes a [`Config`], all else
//! is refused by name.
//!
//! A field that is not read could make answers wrong without a word. So every field is either
//! read, known to change nothing in a forward pass (`super::fields`), neutral in value, or
//! refused. Both spellings are read: the old one (`rope_theta`, `rope_scaling`, `torch_dtype`) and
//! that of transformers 5 (`rope_parameters`, `dtype`). What ends an answer is left to
//! [`crate::text`], what only candle's models can't run to [`super::candle_limits`].

use serde_json::Value;

use super::{
    fields::{self, Fields},
    rope::{self, RopeScaling},
    rope_table::{attention_factor, inverse_frequencies},
};
use crate::error::EngineError;

/// Layers, at most: real models have a few hundred, and the list of all tensors is made before any
/// is looked for, so that a damaged number would fill the memory.
const LAYERS_MAX: usize = 4096;
/// Tokens of context, at most: candle makes a table of rotations of that length.
const CONTEXT_MAX: usize = 1 << 22;
/// transformers' window of a mistral whose config does not name one, in tokens.
const MISTRAL_WINDOW: usize = 4096;

/// Which layers a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama and what shares its layers: SmolLM2, TinyLlama, Mistral.
    Llama,
    /// Qwen2 and Qwen2.5: biases on q, k and v.
    Qwen2,
    /// Qwen3: norms on q and k.
    Qwen3,
}

impl Family {
    /// As in `ModelFacts::family`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }
}

/// All that a forward pass needs to know of a model's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Which layers it has.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward block.
    pub intermediate: usize,
    /// Rows of the embedding; may be more than the tokenizer has.
    pub vocab: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Size of one head; often, and not always, `hidden / heads`.
    pub head_dim: usize,
    /// Epsilon of the RMS norms.
    pub norm_eps: f64,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// How its frequencies are scaled.
    pub rope_scaling: RopeScaling,
    /// Longest sequence, prompt and answer together, in tokens: `max_position_embeddings`, whatever
    /// a scaling could reach.
    pub context: usize,
    /// Whether the output head is the embedding.
    pub tied: bool,
    /// Llama and Qwen3: biases on q, k, v and o. Qwen2 has its own on q, k and v always.
    pub attention_bias: bool,
}

impl Config {
    /// Reads the bytes of a `config.json`; `model` is the name that errors carry.
    pub fn parse(bytes: &[u8], model: &str) -> Result<Self, EngineError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            EngineError::model(model, format!("config.json is not JSON: {error}"))
        })?;
        let Some(map) = value.as_object() else {
            return Err(EngineError::model(
                model,
                "config.json is not a JSON object",
            ));
        };
        let fields = Fields::new(model, map);
        let model_type = fields
            .text("model_type")?
            .ok_or_else(|| fields.missing("model_type"))?;
        let (family, architecture) = match model_type {
            "llama" => (Family::Llama, "LlamaForCausalLM"),
            "mistral" => (Family::Llama, "MistralForCausalLM"),
            "qwen2" => (Family::Qwen2, "Qwen2ForCausalLM"),
            "qwen3" => (Family::Qwen3, "Qwen3ForCausalLM"),
            _ => {
                return Err(
                    fields.unsupported("model_type", "llama, mistral, qwen2 and qwen3 can be run")
                );
            }
        };
        check_architecture(&fields, architecture)?;
        let config = Self::shape(&fields, family)?;
        config.check_shape(&fields)?;
        refuse_what_changes_the_answer(&fields, &config)?;
        fields::refuse_unknown(&fields)?;
        Ok(config)
    }

    fn shape(fields: &Fields<'_>, family: Family) -> Result<Self, EngineError> {
        let hidden = fields.size("hidden_size")?;
        let heads = fields.size("num_attention_heads")?;
        // Llama before grouped heads left these two out; Qwen's defaults are not derived, so they must be given.
        let kv_heads = match fields.size_or_none("num_key_value_heads")? {
            Some(given) => given,
            None if family == Family::Llama => heads,
            None => return Err(fields.missing("num_key_value_heads")),
        };
        let head_dim = match fields.size_or_none("head_dim")? {
            Some(given) => given,
            None if family == Family::Qwen3 => return Err(fields.missing("head_dim")),
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(fields.broken(format!(
                    "hidden_size {hidden} is not a multiple of num_attention_heads {heads}, and there is no head_dim"
                )));
            }
        };
        let context = fields.size("max_position_embeddings")?;
        let rope = rope::read(fields, context)?;
        Ok(Self {
            family,
            hidden,
            intermediate: fields.size("intermediate_size")?,
            vocab: fields.size("vocab_size")?,
            layers: fields.size("num_hidden_layers")?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: fields
                .float("rms_norm_eps")?
                .ok_or_else(|| fields.missing("rms_norm_eps"))?,
            rope_theta: rope.theta,
            rope_scaling: rope.scaling,
            context,
            tied: fields.flag("tie_word_embeddings")?.unwrap_or(false),
            attention_bias: fields.flag("attention_bias")?.unwrap_or(false),
        })
    }

    /// Refuses numbers that no model has, under the names that the file gives them.
    pub(super) fn check_sizes(&self, layers: &str, context: &str) -> Result<(), String> {
        for (name, value, max) in [
            (layers, self.layers, LAYERS_MAX),
            (context, self.context, CONTEXT_MAX),
        ] {
            if value > max {
                return Err(format!("{name} is {value}, more than {max}"));
            }
        }
        Ok(())
    }

    /// Refuses a rotary embedding whose numbers run out of an f32's range.
    pub(super) fn check_rope(&self) -> Result<(), String> {
        let furthest = self.context as f32;
        let mut frequencies = inverse_frequencies(self).into_iter();
        let is_usable = frequencies.all(|frequency| (frequency * furthest).is_finite())
            && (attention_factor(&self.rope_scaling) as f32).is_finite();
        if is_usable {
            return Ok(());
        }
        Err(format!(
            "the rotary embedding of base {} and scaling {} comes to numbers beyond all range",
            self.rope_theta,
            self.rope_scaling.name()
        ))
    }

    /// What would divide by zero or reshape wrongly inside a model.
    fn check_shape(&self, fields: &Fields<'_>) -> Result<(), EngineError> {
        self.check_sizes("num_hidden_layers", "max_position_embeddings")
            .map_err(|message| fields.broken(message))?;
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(fields.broken(format!(
                "num_attention_heads {} is not a multiple of num_key_value_heads {}",
                self.heads, self.kv_heads
            )));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(fields.broken(format!(
                "head_dim {} is odd: a rotary embedding turns pairs",
                self.head_dim
            )));
        }
        self.check_rope()
            .map_err(|message| fields.broken(message))?;
        if !(self.norm_eps > 0.0 && self.norm_eps < 1.0) {
            return Err(fields.broken(format!("rms_norm_eps is {}", self.norm_eps)));
        }
        Ok(())
    }
}

fn check_architecture(fields: &Fields<'_>, expected: &str) -> Result<(), EngineError> {
    let Some(value) = fields.get("architectures") else {
        return Ok(());
    };
    let Some(list) = value.as_array() else {
        return Err(fields.ill_typed("architectures", "a list of names"));
    };
    if list.iter().all(|name| name.as_str() == Some(expected)) {
        return Ok(());
    }
    Err(fields.unsupported(
        "architectures",
        &format!("of this model_type, {expected} can be run"),
    ))
}

/// Each field that the library would ignore and that is not neutral.
fn refuse_what_changes_the_answer(fields: &Fields<'_>, config: &Config) -> Result<(), EngineError> {
    if let Some(act) = fields.text("hidden_act")?
        && act != "silu"
    {
        return Err(fields.unsupported("hidden_act", "only silu can be run"));
    }
    if config.attention_bias && is_mistral(fields)? {
        return Err(fields.unsupported("attention_bias", "a mistral model has no biases"));
    }
    if fields.flag("mlp_bias")? == Some(true) {
        return Err(fields.unsupported("mlp_bias", "biases in the feed-forward block can't be run"));
    }
    if fields.get("quantization_config").is_some() {
        return Err(fields.unsupported(
            "quantization_config",
            "use the unquantised weights, or a .gguf file",
        ));
    }
    refuse_windows(fields, config)
}

fn is_mistral(fields: &Fields<'_>) -> Result<bool, EngineError> {
    Ok(fields.text("model_type")? == Some("mistral"))
}

/// A window at least as long as the context, or one that is switched off, changes nothing.
fn refuse_windows(fields: &Fields<'_>, config: &Config) -> Result<(), EngineError> {
    let layer_types = match fields.get("layer_types") {
        None => &[][..],
        Some(Value::Array(list)) => list,
        Some(_) => return Err(fields.ill_typed("layer_types", "a list of names")),
    };
    if layer_types
        .iter()
        .any(|kind| kind.as_str() != Some("full_attention"))
    {
        return Err(fields.unsupported("layer_types", "only full_attention can be run"));
    }
    let window = match fields.size_or_none("sliding_window")? {
        // `null` is none, and a mistral that says nothing has transformers' default.
        None if is_mistral(fields)? && !fields.has("sliding_window") => Some(MISTRAL_WINDOW),
        window => window,
    };
    // Qwen has a switch, and starts its windows at a layer; the others slide wherever a window is named.
    let slides = match config.family {
        Family::Llama => fields.flag("use_sliding_window")?.unwrap_or(true),
        Family::Qwen2 | Family::Qwen3 => {
            let first = fields.count_or_none("max_window_layers")?.unwrap_or(0);
            fields.flag("use_sliding_window")?.unwrap_or(false) && first < config.layers
        }
    };
    match window {
        Some(window) if slides && window < config.context => Err(fields.unsupported(
            "sliding_window",
            &format!("attention within a window of {window} can't be run"),
        )),
        _ => Ok(()),
    }
}
