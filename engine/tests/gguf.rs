//! Llama `.gguf` files: as stored, dequantised, and what is refused. The files are made here from
//! the weights of a model whose logits are known; one test reads the real file that
//! `CHAPTERBENCH_SMOLLM2_GGUF` names (`scripts/fetch-smollm2` fetches it), and without it says so.

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
use contracts::{generate::FinishReason, openai::ChatMessage, run::Dtype};
use engine::{
    chapters::{self, Engine, Setup},
    inspect,
    model::{ModelRequest, forward::Forward, gguf::Gguf},
    text::Input,
};

use support::{TOLERANCE, greedy, largest_difference, one_line, read_weights, vector};

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

/// The tokenizer of the vectors, as a file carries it.
fn add_tokenizer(made: &mut Made) {
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

#[test]
fn chapters_run_a_file_with_its_own_tokenizer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let mut made = made();
    add_tokenizer(&mut made);
    made.write(&path, GgmlDType::F32);
    let seen = inspect::inspect(path.to_str().unwrap()).unwrap();
    assert_eq!(
        (
            seen.context_tokens,
            seen.chat_template,
            seen.family.as_str()
        ),
        (256, false, "llama")
    );
    for (dtype, weights) in [(None, "f32 as stored"), (Some(Dtype::F32), "f32 from f32")] {
        for chapter in ["ch01", "ch02"] {
            let mut engine = built(chapter, &path, dtype);
            assert_eq!(engine.facts().weights, weights);
            assert_eq!(engine.facts().parameters, 119_104);
            for case in &vector("tiny-llama").1.cases {
                let input = Input::Ids(case.input_ids.clone());
                let result = engine.generate(&input, &greedy(48)).unwrap();
                assert_eq!(
                    result.output_ids, case.greedy_ids,
                    "{chapter} {:?}",
                    case.prompt
                );
                assert_eq!(
                    (result.finish_reason, result.text),
                    (case.finish_reason, case.greedy_text.clone())
                );
            }
        }
    }
}

fn built(chapter: &str, path: &Path, dtype: Option<Dtype>) -> Box<dyn Engine> {
    let model = ModelRequest {
        dtype,
        ..support::request(path)
    };
    (chapters::find(chapter).unwrap().build)(Setup {
        model,
        options: BTreeMap::new(),
    })
    .unwrap()
}

#[test]
fn a_context_beyond_candles_tables_is_cut_as_stored_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let mut made = made();
    add_tokenizer(&mut made);
    set(&mut made, "llama.context_length", Value::U32(8192));
    made.write(&path, GgmlDType::F32);
    for (dtype, context) in [(None, 4096), (Some(Dtype::F32), 8192)] {
        assert_eq!(
            inspect::inspect_as(path.to_str().unwrap(), dtype)
                .unwrap()
                .context_tokens,
            context
        );
        assert_eq!(
            built("ch01", &path, dtype).facts().context_tokens as usize,
            context
        );
    }
}

#[test]
fn smollm2_knows_the_capital_of_france() {
    let Some(path) = std::env::var_os("CHAPTERBENCH_SMOLLM2_GGUF") else {
        eprintln!(
            "not checked: CHAPTERBENCH_SMOLLM2_GGUF does not name scripts/fetch-smollm2's file"
        );
        return;
    };
    for dtype in [None, Some(Dtype::F32)] {
        let question = ChatMessage {
            role: "user".to_owned(),
            content: "What is the capital of France?".into(),
        };
        let input = Input::Chat(vec![question]);
        let answer = |chapter| {
            built(chapter, Path::new(&path), dtype)
                .generate(&input, &greedy(24))
                .unwrap()
        };
        let (first, second) = (answer("ch01"), answer("ch02"));
        assert_eq!(first.output_ids, second.output_ids);
        assert_eq!(first.finish_reason, FinishReason::Stop);
        assert!(first.text.contains("Paris"), "{dtype:?}: {}", first.text);
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
