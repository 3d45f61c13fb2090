//! Loading models: both forms of config, all types on disk, shards, and what the facts say of them.

use std::{collections::BTreeMap, fs};

use contracts::run::Dtype as WeightDtype;
use engine::{inspect, model};
use safetensors::Dtype;
use serde_json::{Map, Value, json};

use crate::support::{
    Copy, Raw, TOLERANCE, first_logits, largest_difference, load, load_error, one_line,
    read_weights, request, vector, write_weights,
};

const MODELS: [&str; 3] = ["tiny-llama", "tiny-qwen2", "tiny-qwen3"];

/// transformers 4's spelling of the same config.
pub fn old_form(config: &mut Map<String, Value>) {
    let rope = config.remove("rope_parameters").unwrap();
    config.insert("rope_theta".to_owned(), rope["rope_theta"].clone());
    config.insert("rope_scaling".to_owned(), Value::Null);
    let dtype = config.remove("dtype").unwrap();
    config.insert("torch_dtype".to_owned(), dtype);
    config.remove("layer_types");
}

#[test]
fn both_forms_of_config_give_the_same_logits() {
    for name in MODELS {
        let copy = Copy::of(name).config(old_form);
        assert_eq!(
            first_logits(vector(name).0),
            first_logits(copy.path()),
            "{name}"
        );
    }
}

#[test]
fn an_old_llama_may_leave_out_what_follows_from_the_rest() {
    let copy = Copy::of("tiny-llama").config(|config| {
        old_form(config);
        for field in [
            "head_dim",
            "rope_scaling",
            "attention_bias",
            "mlp_bias",
            "hidden_act",
            "architectures",
        ] {
            config.remove(field);
        }
        config.insert("rope_interleaved".to_owned(), json!(false));
        config.insert("_name_or_path".to_owned(), json!("somewhere"));
        config.insert("eos_token_id".to_owned(), json!([2, 3]));
    });
    assert_eq!(
        first_logits(vector("tiny-llama").0),
        first_logits(copy.path())
    );
    assert!(load(copy.path()).text.is_stop(3), "a list of stop tokens");
}

/// The same model under Mistral's name.
pub fn as_mistral(config: &mut Map<String, Value>) {
    config.insert("model_type".to_owned(), json!("mistral"));
    config.insert("architectures".to_owned(), json!(["MistralForCausalLM"]));
}

#[test]
fn mistral_is_a_llama_while_no_window_is_in_effect() {
    let mistral = |window: Value| {
        Copy::of("tiny-llama").config(|config| {
            as_mistral(config);
            config.insert("sliding_window".to_owned(), window);
        })
    };
    for neutral in [Value::Null, json!(256), json!(4096)] {
        assert_eq!(
            first_logits(vector("tiny-llama").0),
            first_logits(mistral(neutral).path())
        );
    }
    assert!(load_error(mistral(json!(255)).path()).contains("sliding_window = 255"));
    // transformers' window of a mistral that names none is 4096.
    let silent = Copy::of("tiny-llama").config(|config| {
        as_mistral(config);
        config.insert("max_position_embeddings".to_owned(), json!(4097));
    });
    assert!(load_error(silent.path()).contains("a window of 4096"));
}

#[test]
fn llama_3_scaling_is_applied_as_its_formula_says() {
    let scaled = |factor: f64| {
        Copy::of("tiny-llama").config(|config| {
            config.insert(
                "rope_parameters".to_owned(),
                json!({"rope_type": "llama3", "rope_theta": 10000.0, "factor": factor, "low_freq_factor": 1.0,
                       "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
            );
        })
    };
    let plain = first_logits(vector("tiny-llama").0);
    assert!(
        largest_difference(&plain, &first_logits(scaled(1.0).path())) < 1e-5,
        "factor 1 changes nothing"
    );
    assert!(
        largest_difference(&plain, &first_logits(scaled(8.0).path())) > 0.01,
        "factor 8 does"
    );
}

/// All weights rounded to 16 bits, once as such and once widened again.
fn rounded(name: &str, dtype: Dtype) -> (Copy, Copy) {
    let narrow = |value: f32| match dtype {
        Dtype::F16 => half::f16::from_f32(value).to_le_bytes(),
        _ => half::bf16::from_f32(value).to_le_bytes(),
    };
    let widen = |bytes: [u8; 2]| match dtype {
        Dtype::F16 => half::f16::from_le_bytes(bytes).to_f32(),
        _ => half::bf16::from_le_bytes(bytes).to_f32(),
    };
    let each = |tensors: &mut BTreeMap<String, Raw>, edit: &dyn Fn(&Raw) -> Raw| {
        tensors
            .values_mut()
            .for_each(|tensor| *tensor = edit(tensor));
    };
    let stored = Copy::of(name).weights(|tensors| {
        each(tensors, &|tensor| {
            tensor.with(
                dtype,
                tensor.floats().into_iter().flat_map(narrow).collect(),
            )
        });
    });
    let wide = Copy::of(name).weights(|tensors| {
        each(tensors, &|tensor| {
            let bytes = tensor
                .floats()
                .into_iter()
                .flat_map(|value| widen(narrow(value)).to_le_bytes());
            tensor.with(Dtype::F32, bytes.collect())
        });
    });
    (stored, wide)
}

#[test]
fn sixteen_bits_on_disk_are_computed_in_f32() {
    for name in MODELS {
        for dtype in [Dtype::F16, Dtype::BF16] {
            let (stored, wide) = rounded(name, dtype);
            assert_eq!(
                first_logits(stored.path()),
                first_logits(wide.path()),
                "{name} {dtype:?}"
            );
            assert_eq!(load(stored.path()).facts.weights, "f32");
        }
    }
}

#[test]
fn sixteen_bits_in_memory_come_near_where_they_can_be_run() {
    for name in MODELS {
        for dtype in [WeightDtype::F16, WeightDtype::Bf16] {
            let mut request = request(vector(name).0);
            request.dtype = Some(dtype);
            let loaded = model::load(&request);
            if name == "tiny-qwen2" {
                let error = one_line(&loaded.err().unwrap());
                assert!(
                    error.contains("qwen2")
                        && error.contains("use f32")
                        && error.ends_with("chapter 3 and later can"),
                    "{error}"
                );
                continue;
            }
            let mut loaded = loaded.unwrap();
            let logits = loaded
                .forward
                .forward(&vector("tiny-llama").1.cases[0].input_ids, 0)
                .unwrap();
            let difference = largest_difference(&logits, &first_logits(vector(name).0));
            assert!(
                difference > 0.0 && difference < 1.0,
                "{name} {dtype:?}: {difference}"
            );
            assert_eq!(
                loaded.facts.weights,
                if dtype == WeightDtype::F16 {
                    "f16"
                } else {
                    "bf16"
                }
            );
        }
    }
}

/// A copy with its weights in two files and an index.
fn sharded(name: &str) -> Copy {
    let copy = Copy::of(name);
    let tensors = read_weights(&copy.file("model.safetensors"));
    fs::remove_file(copy.file("model.safetensors")).unwrap();
    let (mut map, mut shards) = (Map::new(), [BTreeMap::new(), BTreeMap::new()]);
    for (index, (name, tensor)) in tensors.into_iter().enumerate() {
        map.insert(name.clone(), json!(shard(index % 2)));
        shards[index % 2].insert(name, tensor);
    }
    for (index, tensors) in shards.into_iter().enumerate() {
        write_weights(&copy.file(&shard(index)), tensors);
    }
    fs::write(
        copy.file("model.safetensors.index.json"),
        json!({"metadata": {}, "weight_map": map}).to_string(),
    )
    .unwrap();
    copy
}

fn shard(index: usize) -> String {
    format!("model-0000{}-of-00002.safetensors", index + 1)
}

#[test]
fn shards_are_one_model() {
    for name in MODELS {
        assert_eq!(
            first_logits(sharded(name).path()),
            first_logits(vector(name).0),
            "{name}"
        );
    }
    let missing = sharded("tiny-llama");
    fs::remove_file(missing.file(&shard(1))).unwrap();
    assert!(
        load_error(missing.path())
            .contains("names model-00002-of-00002.safetensors, which is missing")
    );
    let outside = sharded("tiny-llama");
    let index = outside.file("model.safetensors.index.json");
    let text = fs::read_to_string(&index)
        .unwrap()
        .replace(&shard(1), "../evil.safetensors");
    fs::write(&index, text).unwrap();
    assert!(load_error(outside.path()).contains("not in a safetensors file"));
    fs::write(&index, "{").unwrap();
    assert!(load_error(outside.path()).contains("model.safetensors.index.json: not JSON"));
}

#[test]
fn a_tied_model_ignores_a_head_of_its_own() {
    for name in ["tiny-llama", "tiny-qwen3"] {
        let copy = Copy::of(name).weights(|tensors| {
            let mut head = tensors["model.embed_tokens.weight"].clone();
            head.bytes.fill(0);
            tensors.insert("lm_head.weight".to_owned(), head);
        });
        assert_eq!(
            first_logits(copy.path()),
            first_logits(vector(name).0),
            "{name}"
        );
    }
    // candle's Qwen2 takes a head wherever there is one: tied, it must not.
    let tied = Copy::of("tiny-qwen2").config(|config| {
        config.insert("tie_word_embeddings".to_owned(), json!(true));
    });
    let same = Copy::of("tiny-qwen2").weights(|tensors| {
        let embedding = tensors["model.embed_tokens.weight"].clone();
        tensors.insert("lm_head.weight".to_owned(), embedding);
    });
    assert_eq!(first_logits(tied.path()), first_logits(same.path()));
}

#[test]
fn a_larger_vocabulary_than_the_tokenizers_is_normal() {
    let padded = Copy::of("tiny-llama").config(|config| {
        config.insert("vocab_size".to_owned(), json!(520));
    });
    let padded = padded.weights(|tensors| {
        let embedding = tensors.get_mut("model.embed_tokens.weight").unwrap();
        embedding.shape[0] = 520;
        embedding.bytes.resize(520 * 64 * 4, 0);
    });
    let logits = first_logits(padded.path());
    assert_eq!(logits.len(), 520);
    assert!(largest_difference(&logits[..512], &first_logits(vector("tiny-llama").0)) <= TOLERANCE);

    let small = Copy::of("tiny-llama").config(|config| {
        config.insert("vocab_size".to_owned(), json!(400));
    });
    let error = load_error(small.path());
    assert!(
        error.contains("vocab_size = 400") && error.contains("434 tokens"),
        "{error}"
    );
}

#[test]
fn facts_say_what_was_loaded() {
    let facts = load(vector("tiny-llama").0).facts;
    assert_eq!(
        (facts.family.as_str(), facts.weights.as_str()),
        ("llama", "f32")
    );
    assert_eq!((facts.context_tokens, facts.chat_template), (256, false));
    assert_eq!(facts.parameters, 119_104);
    assert!(facts.threads >= 1 && facts.sha256.len() == 64 && facts.tokenizer_sha256.len() == 64);
    // A copy is the same model; one weight more or less is another.
    let copy = Copy::of("tiny-llama");
    assert_eq!(load(copy.path()).facts.sha256, facts.sha256);
    let changed =
        copy.weights(|tensors| tensors.get_mut("model.norm.weight").unwrap().bytes[0] ^= 1);
    assert_ne!(load(changed.path()).facts.sha256, facts.sha256);
    let reshaped = Copy::of("tiny-llama").config(|config| {
        config.insert("max_position_embeddings".to_owned(), json!(128));
    });
    assert_ne!(load(reshaped.path()).facts.sha256, facts.sha256);
}

#[test]
fn an_inspection_agrees_with_what_is_loaded() {
    let models = [
        vector("tiny-qwen3").0.to_str().unwrap().to_owned(),
        "dummy:tiny-llm".to_owned(),
    ];
    for name in models {
        let (seen, loaded) = (inspect::inspect(&name).unwrap(), load(&name));
        assert_eq!(seen.context_tokens, loaded.facts.context_tokens as usize);
        assert_eq!(
            (seen.family, seen.chat_template),
            (loaded.facts.family, loaded.facts.chat_template)
        );
        assert_eq!(seen.text.sha256(), loaded.facts.tokenizer_sha256);
        assert_eq!(seen.model, name);
    }
    let copy = Copy::of("tiny-llama");
    let relative = copy
        .path()
        .join("../")
        .join(copy.path().file_name().unwrap());
    let seen = inspect::inspect(relative.to_str().unwrap()).unwrap();
    assert_eq!(
        seen.model,
        copy.path().canonicalize().unwrap().to_str().unwrap()
    );
    fs::remove_file(copy.file("model.safetensors")).unwrap();
    let error = inspect::inspect(copy.path().to_str().unwrap())
        .err()
        .unwrap();
    assert!(
        one_line(&error).contains("has neither model.safetensors nor"),
        "{error}"
    );
}
