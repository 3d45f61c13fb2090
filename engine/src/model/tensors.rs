//! Which tensors a model of a given shape has, under the names that Hugging Face gives them.
//!
//! One list serves the check of files before loading (candle's Llama panics on a missing tensor),
//! the made weights of dummies, and the count of parameters.

use super::config::{Config, Family};

/// The output head; absent where it is the embedding.
pub const HEAD: &str = "lm_head.weight";
/// The embedding.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// The norm before the output head.
pub const FINAL_NORM: &str = "model.norm.weight";

/// One tensor: its name and its dimensions, rows (outputs) first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// As in the file.
    pub name: String,
    /// Rows first.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// All tensors of a model of this shape.
pub fn expected(config: &Config) -> Vec<TensorSpec> {
    let mut list = vec![spec(EMBEDDING, &[config.vocab, config.hidden])];
    for layer in 0..config.layers {
        list.extend(layer_tensors(config, layer));
    }
    list.push(spec(FINAL_NORM, &[config.hidden]));
    if !config.tied {
        list.push(spec(HEAD, &[config.vocab, config.hidden]));
    }
    list
}

/// Number of parameters.
pub fn parameters(config: &Config) -> u64 {
    expected(config)
        .iter()
        .map(|tensor| tensor.count() as u64)
        .sum()
}

/// Whether a projection of attention (`q_proj`, `k_proj`, `v_proj`, `o_proj`) has a bias.
pub fn is_biased(config: &Config, projection: &str) -> bool {
    match config.family {
        Family::Llama | Family::Qwen3 => config.attention_bias,
        Family::Qwen2 => projection != "o_proj",
    }
}

fn layer_tensors(config: &Config, layer: usize) -> Vec<TensorSpec> {
    let (hidden, wide) = (config.hidden, config.intermediate);
    let (q, kv) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let mut list = Vec::new();
    let mut add = |name: &str, shape: &[usize]| {
        list.push(spec(&format!("model.layers.{layer}.{name}"), shape))
    };
    add("input_layernorm.weight", &[hidden]);
    for (name, rows, columns) in [
        ("q_proj", q, hidden),
        ("k_proj", kv, hidden),
        ("v_proj", kv, hidden),
        ("o_proj", hidden, q),
    ] {
        add(&format!("self_attn.{name}.weight"), &[rows, columns]);
        if is_biased(config, name) {
            add(&format!("self_attn.{name}.bias"), &[rows]);
        }
    }
    if config.family == Family::Qwen3 {
        add("self_attn.q_norm.weight", &[config.head_dim]);
        add("self_attn.k_norm.weight", &[config.head_dim]);
    }
    add("post_attention_layernorm.weight", &[hidden]);
    add("mlp.gate_proj.weight", &[wide, hidden]);
    add("mlp.up_proj.weight", &[wide, hidden]);
    add("mlp.down_proj.weight", &[hidden, wide]);
    list
}

fn spec(name: &str, shape: &[usize]) -> TensorSpec {
    TensorSpec {
        name: name.to_owned(),
        shape: shape.to_vec(),
    }
}
