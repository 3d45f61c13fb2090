//! Llama `.gguf` files: as stored, dequantised, and what is refused. The files are made here from
//! the weights of a model whose logits are known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{collections::BTreeMap, fs, path::Path};

use candle_core::{
    DType, Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};
use engine::model::{forward::Forward, gguf::Gguf};

use support::{TOLERANCE, largest_difference, one_line, read_weights, vector};

/// A file before it is written.
struct Made {
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Tensor>,
}

/// The tiny Llama as llama.cpp's converter would write it.
fn made() -> Made {
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
    fn write(&self, path: &Path, kind: GgmlDType) {
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

fn dequantised(gguf: Gguf) -> Forward {
    let config = gguf.config().clone();
    Forward::new(
        &config,
        Box::new(gguf.dequantised().unwrap()),
        DType::F32,
        &Device::Cpu,
    )
    .unwrap()
}

#[test]
fn both_ways_give_the_logits_of_the_safetensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    made().write(&path, GgmlDType::F32);
    let open = || Gguf::open(&path, "tiny").unwrap();
    assert_eq!(
        (open().config().context, open().stored_type().as_str()),
        (256, "f32")
    );
    for case in &vector("tiny-llama").1.cases {
        for mut forward in [open().as_stored(&Device::Cpu).unwrap(), dequantised(open())] {
            let after_prompt = forward.forward(&case.input_ids, 0).unwrap();
            assert!(
                largest_difference(&after_prompt, &case.logits_after_prompt) <= TOLERANCE,
                "{:?}",
                case.prompt
            );
            let mut logits = after_prompt;
            for (step, id) in case.greedy_ids.iter().enumerate() {
                logits = forward
                    .forward(&[*id], case.input_ids.len() + step)
                    .unwrap();
            }
            assert!(
                largest_difference(&logits, &case.logits_at_end) <= TOLERANCE,
                "{:?}",
                case.prompt
            );
            // A sequence begun anew knows nothing of the last one.
            forward.reset();
            let again = forward.forward(&case.input_ids, 0).unwrap();
            assert!(largest_difference(&again, &case.logits_after_prompt) <= TOLERANCE);
        }
    }
}

#[test]
fn quantised_weights_give_nearly_the_same_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    made().write(&path, GgmlDType::Q8_0);
    let open = || Gguf::open(&path, "tiny").unwrap();
    assert_eq!(open().stored_type(), "q8_0");
    let case = &vector("tiny-llama").1.cases[0];
    let stored = open()
        .as_stored(&Device::Cpu)
        .unwrap()
        .forward(&case.input_ids, 0)
        .unwrap();
    let plain = dequantised(open()).forward(&case.input_ids, 0).unwrap();
    // As stored, activations are quantised too: near, not equal.
    assert!(
        largest_difference(&stored, &plain) < 0.5,
        "{}",
        largest_difference(&stored, &plain)
    );
    assert!(largest_difference(&plain, &case.logits_after_prompt) < 0.5);
}

#[test]
fn an_untied_head_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let mut made = made();
    let doubled = (made.tensors["token_embd.weight"].clone() * 2.0).unwrap();
    made.tensors.insert("output.weight".to_owned(), doubled);
    made.write(&path, GgmlDType::F32);
    let case = &vector("tiny-llama").1.cases[0];
    let expected: Vec<f32> = case
        .logits_after_prompt
        .iter()
        .map(|logit| logit * 2.0)
        .collect();
    let open = || Gguf::open(&path, "tiny").unwrap();
    for mut forward in [open().as_stored(&Device::Cpu).unwrap(), dequantised(open())] {
        let logits = forward.forward(&case.input_ids, 0).unwrap();
        assert!(largest_difference(&logits, &expected) <= 2.0 * TOLERANCE);
    }
}

#[test]
fn what_cannot_be_run_right_is_refused_by_name() {
    type Edit = fn(&mut Made);
    let cases: [(Edit, &str); 14] = [
        (
            |made| {
                set(
                    made,
                    "general.architecture",
                    Value::String("qwen2".to_owned()),
                )
            },
            "general.architecture = qwen2",
        ),
        (
            |made| _ = made.metadata.remove("general.architecture"),
            "general.architecture is missing",
        ),
        (
            |made| _ = made.metadata.remove("llama.block_count"),
            "llama.block_count is missing",
        ),
        (
            |made| set(made, "llama.block_count", Value::U32(3)),
            "tensor blk.2.",
        ),
        (
            |made| set(made, "llama.block_count", Value::U32(1)),
            "tensor blk.1.",
        ),
        (
            |made| set(made, "llama.expert_count", Value::U32(8)),
            "llama.expert_count = 8",
        ),
        (
            |made| set(made, "llama.attention.key_length", Value::U32(32)),
            "llama.attention.key_length = 32",
        ),
        (
            |made| {
                set(
                    made,
                    "llama.rope.scaling.type",
                    Value::String("yarn".to_owned()),
                )
            },
            "llama.rope.scaling.type = yarn",
        ),
        (
            |made| set(made, "llama.rope.dimension_count", Value::U32(8)),
            "llama.rope.dimension_count = 8",
        ),
        (
            |made| set(made, "llama.attention.sliding_window", Value::U32(64)),
            "llama.attention.sliding_window = 64",
        ),
        (
            |made| set(made, "llama.embedding_scale", Value::F32(12.0)),
            "llama.embedding_scale = 12",
        ),
        (
            |made| set(made, "llama.attention.head_count_kv", Value::U32(3)),
            "do not divide each other",
        ),
        (
            |made| add(made, "rope_freqs.weight", 8),
            "tensor rope_freqs.weight: scaled rotary",
        ),
        (
            |made| add(made, "blk.0.attn_q.bias", 64),
            "tensor blk.0.attn_q.bias",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    for (edit, message) in cases {
        let mut made = made();
        edit(&mut made);
        made.write(&path, GgmlDType::F32);
        let error = one_line(&Gguf::open(&path, "tiny").err().unwrap());
        assert!(error.contains(message), "{error}");
    }
}

fn set(made: &mut Made, key: &str, value: Value) {
    made.metadata.insert(key.to_owned(), value);
}

fn add(made: &mut Made, name: &str, length: usize) {
    made.tensors.insert(
        name.to_owned(),
        Tensor::ones(length, DType::F32, &Device::Cpu).unwrap(),
    );
}

#[test]
fn a_damaged_file_is_one_clear_line_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    made().write(&path, GgmlDType::F32);
    let bytes = fs::read(&path).unwrap();
    let damaged: [&[u8]; 6] = [
        &[],
        &bytes[..3],
        &bytes[..200],
        b"GGUF but not really, is it?",
        &bytes[..bytes.len() / 2],
        &bytes[..bytes.len() - 33],
    ];
    for damaged in damaged {
        fs::write(&path, damaged).unwrap();
        let error = one_line(&Gguf::open(&path, "m").err().unwrap());
        assert!(
            error.starts_with("model m: tiny.gguf: corrupt or truncated gguf file"),
            "{error}"
        );
    }
}
