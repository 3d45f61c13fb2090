//! `.gguf` files made from the weights of a model whose logits are known.

use std::{collections::BTreeMap, fs, path::Path};

use candle_core::{
    DType, Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};

use crate::support::{read_weights, vector};

/// A file before it is written.
pub struct Made {
    pub metadata: BTreeMap<String, Value>,
    pub tensors: BTreeMap<String, Tensor>,
}

/// The tiny Llama as llama.cpp's converter would write it.
pub fn made() -> Made {
    let weights = read_weights(&vector("tiny-llama").0.join("model.safetensors"));
    let tensors = weights.into_iter().map(|(name, raw)| {
        let tensor = Tensor::from_vec(raw.floats(), raw.shape.as_slice(), &Device::Cpu).unwrap();
        let tensor = match name.as_str() {
            name if name.ends_with("q_proj.weight") => permute(&tensor, 4),
            name if name.ends_with("k_proj.weight") => permute(&tensor, 2),
            _ => tensor,
        };
        (converted(&name), tensor)
    });
    let metadata = [
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.block_count", Value::U32(2)),
        ("llama.context_length", Value::U32(256)),
        ("llama.embedding_length", Value::U32(64)),
        ("llama.feed_forward_length", Value::U32(160)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.dimension_count", Value::U32(16)),
        ("llama.rope.freq_base", Value::F32(10_000.0)),
        ("llama.vocab_size", Value::U32(512)),
    ];
    Made {
        metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
        tensors: tensors.collect(),
    }
}

/// `[heads, 2, half, in]` -> `[heads, half, 2, in]`: a rotary pair side by side.
fn permute(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, columns) = weight.dims2().unwrap();
    let split = weight
        .reshape((heads, 2, rows / heads / 2, columns))
        .unwrap();
    split
        .transpose(1, 2)
        .unwrap()
        .contiguous()
        .unwrap()
        .reshape((rows, columns))
        .unwrap()
}

fn converted(name: &str) -> String {
    let name = name
        .replace("model.layers.", "blk.")
        .replace("model.embed_tokens", "token_embd");
    let parts = [
        ("model.norm", "output_norm"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    parts
        .iter()
        .fold(name, |name, (from, to)| name.replace(from, to))
}

impl Made {
    /// Matrices are stored in `kind`, norms in f32, as converters do.
    pub fn write(&self, path: &Path, kind: GgmlDType) {
        let quantised: BTreeMap<_, _> = self
            .tensors
            .iter()
            .map(|(name, tensor)| {
                let kind = if tensor.rank() == 2 {
                    kind
                } else {
                    GgmlDType::F32
                };
                (name.as_str(), QTensor::quantize(tensor, kind).unwrap())
            })
            .collect();
        let metadata: Vec<_> = self
            .metadata
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        let tensors: Vec<_> = quantised
            .iter()
            .map(|(name, tensor)| (*name, tensor))
            .collect();
        gguf_file::write(&mut fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
    }
}

/// The tokenizer of the vectors, as a file carries it.
pub fn add_tokenizer(made: &mut Made) {
    let json = fs::read(vector("tiny-llama").0.join("tokenizer.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let mut tokens = vec![String::new(); vocab.len()];
    for (token, id) in vocab {
        tokens[id.as_u64().unwrap() as usize] = token.clone();
    }
    let kinds = (0..tokens.len()).map(|id| Value::I32(if id < 3 { 3 } else { 1 }));
    let merges = json["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|pair| {
        format!(
            "{} {}",
            pair[0].as_str().unwrap(),
            pair[1].as_str().unwrap()
        )
    });
    set(
        made,
        "tokenizer.ggml.model",
        Value::String("gpt2".to_owned()),
    );
    set(
        made,
        "tokenizer.ggml.pre",
        Value::String("smollm".to_owned()),
    );
    set(
        made,
        "tokenizer.ggml.token_type",
        Value::Array(kinds.collect()),
    );
    set(
        made,
        "tokenizer.ggml.merges",
        Value::Array(merges.map(Value::String).collect()),
    );
    set(made, "tokenizer.ggml.eos_token_id", Value::U32(2));
    set(
        made,
        "tokenizer.ggml.tokens",
        Value::Array(tokens.into_iter().map(Value::String).collect()),
    );
}

/// A scaling of the rotary embedding.
pub fn scale(made: &mut Made, kind: &str, factor: f32) {
    let kind = Value::String(kind.to_owned());
    set(made, "llama.rope.scaling.type", kind);
    set(made, "llama.rope.scaling.factor", Value::F32(factor));
}

pub fn set(made: &mut Made, key: &str, value: Value) {
    made.metadata.insert(key.to_owned(), value);
}

pub fn add(made: &mut Made, name: &str, length: usize) {
    made.tensors.insert(
        name.to_owned(),
        Tensor::ones(length, DType::F32, &Device::Cpu).unwrap(),
    );
}
