//! What our decoder runs and candle's models can't: every scaling, bias and head size, from every
//! source, and Qwen2 in 16 bits.

use std::{collections::BTreeMap, path::Path};

use candle_core::{Device, Tensor, quantized::GgmlDType};
use contracts::run::Dtype;
use engine::{
    chapters::{self, Setup},
    decoder::{self, Span, Wanted, cache::growing::Growing},
    model::{ModelRequest, config::Config, rope::RopeScaling, rope_table::inverse_frequencies},
    text::Input,
};

use crate::{
    gguf_file::{Made, add_tokenizer, made, scale},
    support::{Expected, TOLERANCE, greedy, largest_difference, request, vector, vectors},
};

/// Logits of the last of `ids`, in a sequence of nothing else.
fn last_logits(name: &Path, dtype: Option<Dtype>, ids: &[u32]) -> Vec<f32> {
    let request = ModelRequest {
        dtype,
        ..request(name)
    };
    let mut loaded = decoder::load(&request).unwrap();
    let mut cache = Growing::new(&loaded.decoder);
    let span = Span {
        slot: 0,
        ids,
        start: 0,
        wanted: Wanted::Last,
    };
    loaded.decoder.forward(&mut cache, &[span]).unwrap()
}

#[test]
fn logits_of_every_vector_are_those_of_transformers() {
    for (dir, expected) in vectors() {
        for case in &expected.cases {
            let whole = [case.input_ids.as_slice(), &case.greedy_ids].concat();
            for (ids, logits) in [
                (&case.input_ids, &case.logits_after_prompt),
                (&whole, &case.logits_at_end),
            ] {
                let difference = largest_difference(&last_logits(&dir, None, ids), logits);
                assert!(
                    difference <= TOLERANCE,
                    "{} {:?}: {difference}",
                    dir.display(),
                    case.prompt
                );
            }
        }
    }
}

#[test]
fn sixteen_bits_come_near_in_every_family() {
    for name in ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen2-yarn"] {
        let (dir, expected) = vector(name);
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let case = &expected.cases[0];
            let logits = last_logits(&dir, Some(dtype), &case.input_ids);
            let difference = largest_difference(&logits, &case.logits_after_prompt);
            assert!(
                difference > 0.0 && difference < 1.0,
                "{name} {dtype:?}: {difference}"
            );
        }
    }
}

#[test]
fn a_scaled_gguf_file_answers_as_the_model_it_was_made_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let write = |edit: &dyn Fn(&mut Made)| {
        let mut made = made();
        add_tokenizer(&mut made);
        edit(&mut made);
        made.write(&path, GgmlDType::F32);
    };
    write(&|made| scale(made, "linear", 4.0));
    check_answers(&path, &vector("tiny-llama-linear").1);
    let divisors = llama3_divisors();
    write(&|made| {
        let tensor = Tensor::new(divisors.as_slice(), &Device::Cpu).unwrap();
        made.tensors.insert("rope_freqs.weight".to_owned(), tensor);
    });
    check_answers(&path, &vector("tiny-llama-llama3").1);
}

/// As the converter of llama.cpp writes them: plain frequencies over scaled ones.
pub fn llama3_divisors() -> Vec<f32> {
    let scaled = llama3_config();
    let plain = Config {
        rope_scaling: RopeScaling::None,
        ..scaled.clone()
    };
    let pairs = inverse_frequencies(&plain).into_iter();
    pairs
        .zip(inverse_frequencies(&scaled))
        .map(|(plain, scaled)| plain / scaled)
        .collect()
}

/// The config that [`llama3_divisors`] stand for.
pub fn llama3_config() -> Config {
    let path = vector("tiny-llama-llama3").0.join("config.json");
    Config::parse(&std::fs::read(path).unwrap(), "tiny").unwrap()
}

fn check_answers(path: &Path, expected: &Expected) {
    let model = ModelRequest {
        dtype: Some(Dtype::F32),
        ..request(path)
    };
    let options = BTreeMap::new();
    let mut engine = (chapters::find("ch03").unwrap().build)(Setup { model, options }).unwrap();
    for case in &expected.cases {
        let input = Input::Ids(case.input_ids.clone());
        let result = engine
            .generate(&input, &greedy(expected.max_new_tokens))
            .unwrap();
        assert_eq!(result.output_ids, case.greedy_ids, "{:?}", case.prompt);
    }
}
