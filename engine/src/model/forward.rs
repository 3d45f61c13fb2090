//! One type over candle's models: token ids in, logits of the last position out.
//!
//! It enforces what the models don't: the context (candle's Llama compares the wrong dimension),
//! ids within the vocabulary, and a clean start for each sequence. It counts nothing and times
//! nothing; that is left to the chapters.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Activation, VarBuilder, var_builder::SimpleBackend};
use candle_transformers::models::{llama, quantized_llama, qwen2, qwen3};

use super::{
    config::{Config, Family},
    rope::RopeScaling,
};
use crate::error::EngineError;

/// A loaded model and the keys and values of one sequence.
pub struct Forward {
    model: Model,
    device: Device,
    vocab: usize,
    context: usize,
}

enum Model {
    /// `blank` is the cache of a sequence not yet begun; cloning it is cheap (shared tables).
    Llama {
        model: llama::Llama,
        cache: llama::Cache,
        blank: llama::Cache,
    },
    Qwen2(qwen2::ModelForCausalLM),
    Qwen3(qwen3::ModelForCausalLM),
    /// `blank` is the model before any sequence: only a clone of it forgets its masks.
    Quantized {
        model: Box<quantized_llama::ModelWeights>,
        blank: Box<quantized_llama::ModelWeights>,
    },
}

impl Forward {
    /// Builds candle's model of this shape, which must have passed [`super::candle_limits::check`];
    /// `weights` must hold all of [`super::tensors::expected`].
    pub fn new(
        config: &Config,
        weights: Box<dyn SimpleBackend>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self, EngineError> {
        let builder = VarBuilder::from_backend(weights, dtype, device.clone());
        let model = match config.family {
            Family::Llama => {
                let config = llama_config(config);
                let blank = llama::Cache::new(true, dtype, &config, device)?;
                Model::Llama {
                    model: llama::Llama::load(builder, &config)?,
                    cache: blank.clone(),
                    blank,
                }
            }
            Family::Qwen2 => Model::Qwen2(qwen2::ModelForCausalLM::new(
                &qwen2_config(config),
                builder,
            )?),
            Family::Qwen3 => Model::Qwen3(qwen3::ModelForCausalLM::new(
                &qwen3_config(config),
                builder,
            )?),
        };
        Ok(Self {
            model,
            device: device.clone(),
            vocab: config.vocab,
            context: config.context,
        })
    }

    /// Wraps candle's quantised Llama.
    pub(super) fn quantized(
        model: quantized_llama::ModelWeights,
        config: &Config,
        device: &Device,
    ) -> Self {
        let blank = Box::new(model);
        Self {
            model: Model::Quantized {
                model: blank.clone(),
                blank,
            },
            device: device.clone(),
            vocab: config.vocab,
            context: config.context,
        }
    }

    /// Ids are below this.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Longest sequence, in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Forgets the sequence: the next forward starts at position 0.
    pub fn reset(&mut self) {
        match &mut self.model {
            Model::Llama { cache, blank, .. } => *cache = blank.clone(),
            Model::Qwen2(model) => model.clear_kv_cache(),
            Model::Qwen3(model) => model.clear_kv_cache(),
            Model::Quantized { model, blank } => *model = blank.clone(),
        }
    }

    /// Runs `ids`, which stand at `position` and after, over what the cache holds of the positions
    /// before. Returns the logits of the last of them: `[vocab]`, f32.
    pub fn forward(&mut self, ids: &[u32], position: usize) -> Result<Vec<f32>, EngineError> {
        if ids.is_empty() {
            return Err(EngineError::Internal("a forward of no tokens".to_owned()));
        }
        if position + ids.len() > self.context {
            return Err(EngineError::Internal(format!(
                "a forward to position {}, beyond the context of {}",
                position + ids.len(),
                self.context
            )));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.vocab) {
            return Err(EngineError::Internal(format!(
                "a forward of token id {id}, beyond the vocabulary"
            )));
        }
        let input = Tensor::new(ids, &self.device)?.unsqueeze(0)?; // [1, tokens]
        let logits = match &mut self.model {
            Model::Llama { model, cache, .. } => model.forward(&input, position, cache)?,
            Model::Qwen2(model) => model.forward(&input, position)?,
            Model::Qwen3(model) => model.forward(&input, position)?,
            Model::Quantized { model, .. } => model.forward(&input, position)?,
        };
        // [1, vocab] or [1, 1, vocab] -> [vocab]
        Ok(logits.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?)
    }
}

fn llama_config(config: &Config) -> llama::Config {
    llama::Config {
        hidden_size: config.hidden,
        intermediate_size: config.intermediate,
        vocab_size: config.vocab,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        num_key_value_heads: config.kv_heads,
        use_flash_attn: false,
        rms_norm_eps: config.norm_eps,
        rope_theta: config.rope_theta as f32,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: match &config.rope_scaling {
            RopeScaling::Llama3(rope) => Some(llama::Llama3RopeConfig {
                factor: rope.factor as f32,
                low_freq_factor: rope.low_freq_factor as f32,
                high_freq_factor: rope.high_freq_factor as f32,
                original_max_position_embeddings: rope.original_context,
                rope_type: llama::Llama3RopeType::Llama3,
            }),
            _ => None,
        },
        max_position_embeddings: config.context,
        tie_word_embeddings: config.tied,
    }
}

fn qwen2_config(config: &Config) -> qwen2::Config {
    qwen2::Config {
        vocab_size: config.vocab,
        hidden_size: config.hidden,
        intermediate_size: config.intermediate,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        num_key_value_heads: config.kv_heads,
        max_position_embeddings: config.context,
        // candle applies this window whatever the switch says: as long as the context, it hides nothing.
        sliding_window: config.context,
        max_window_layers: config.layers,
        tie_word_embeddings: config.tied,
        rope_theta: config.rope_theta,
        rms_norm_eps: config.norm_eps,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}

fn qwen3_config(config: &Config) -> qwen3::Config {
    qwen3::Config {
        vocab_size: config.vocab,
        hidden_size: config.hidden,
        intermediate_size: config.intermediate,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        head_dim: config.head_dim,
        attention_bias: config.attention_bias,
        num_key_value_heads: config.kv_heads,
        max_position_embeddings: config.context,
        sliding_window: None,
        max_window_layers: config.layers,
        tie_word_embeddings: config.tied,
        rope_theta: config.rope_theta,
        rms_norm_eps: config.norm_eps,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}
