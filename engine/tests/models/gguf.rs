//! Llama `.gguf` files: as stored, dequantised, and what is refused.

use std::{collections::BTreeMap, fs, path::Path};

use candle_core::{
    DType, Device,
    quantized::{GgmlDType, gguf_file::Value},
};
use contracts::run::Dtype;
use engine::{
    chapters::{Chapter, Engine, Setup, TABLE},
    error::EngineError,
    inspect,
    model::{ModelRequest, forward::Forward, gguf::Gguf, open::Runner},
    text::Input,
};

use crate::{
    gguf_file::{Made, add, add_tokenizer, made, scale, set},
    support::{self, TOLERANCE, greedy, largest_difference, one_line, vector},
};

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
fn every_row_runs_a_file_with_its_own_tokenizer() {
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
        for row in TABLE.iter().filter(|row| row.same_tokens) {
            if dtype.is_none() && row.runner == Some(Runner::Decoder) {
                let error = built(row, &path, dtype).err().unwrap();
                assert!(one_line(&error).ends_with("add --dtype f32"), "{error}");
                continue;
            }
            let mut engine = built(row, &path, dtype).unwrap();
            assert_eq!(engine.facts().weights, weights);
            assert_eq!(engine.facts().parameters, 119_104);
            for case in &vector("tiny-llama").1.cases {
                let input = Input::Ids(case.input_ids.clone());
                let result = engine.generate(&input, &greedy(48)).unwrap();
                assert_eq!(
                    result.output_ids, case.greedy_ids,
                    "{} {:?}",
                    row.id, case.prompt
                );
                assert_eq!(
                    (result.finish_reason, result.text),
                    (case.finish_reason, case.greedy_text.clone())
                );
            }
        }
    }
}

fn built(row: &Chapter, path: &Path, dtype: Option<Dtype>) -> Result<Box<dyn Engine>, EngineError> {
    let model = ModelRequest {
        dtype,
        ..support::request(path)
    };
    let options = BTreeMap::new();
    (row.build)(Setup { model, options })
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
            inspect::inspect_as(path.to_str().unwrap(), dtype, Some(Runner::Candle))
                .unwrap()
                .context_tokens,
            context
        );
        assert_eq!(
            built(&TABLE[0], &path, dtype)
                .unwrap()
                .facts()
                .context_tokens as usize,
            context
        );
    }
}

#[test]
fn what_cannot_be_run_right_is_refused_by_name() {
    type Edit = fn(&mut Made);
    let cases: [(Edit, &str); 19] = [
        (
            |made| set(made, "llama.block_count", Value::U32(10_000_000)),
            "llama.block_count is 10000000, more than 4096",
        ),
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
            |made| set(made, "llama.attention.value_length", Value::U32(32)),
            "llama.attention.value_length = 32",
        ),
        (
            |made| set(made, "llama.attention.key_length", Value::U32(32)),
            "llama.rope.dimension_count = 16",
        ),
        (
            |made| scale(made, "longrope", 4.0),
            "llama.rope.scaling.type = longrope",
        ),
        (
            |made| scale(made, "yarn", 0.5),
            "llama.rope.scaling.type = yarn",
        ),
        (
            |made| set(made, "llama.rope.scaling.yarn_ext_factor", Value::F32(0.0)),
            "llama.rope.scaling.yarn_ext_factor = 0",
        ),
        (
            |made| set(made, "llama.rope.scaling.factor", Value::F32(-1.0)),
            "llama.rope.scaling.factor is not a positive number",
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
            "heads cannot be shared out: head_count 4, head_count_kv 3, of size 16",
        ),
        (
            |made| add(made, "rope_freqs.weight", 16),
            "tensor rope_freqs.weight has shape [16], not [8]",
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
    // The library divides by it.
    let mut made = made();
    set(&mut made, "general.alignment", Value::U32(0));
    made.write(&path, GgmlDType::F32);
    let error = one_line(&Gguf::open(&path, "m").err().unwrap());
    assert!(error.contains("its head makes no sense"), "{error}");
}
