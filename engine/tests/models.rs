//! Loading models: both forms of config, all types on disk, shards, and what is refused by name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{collections::BTreeMap, fs};

use contracts::run::Dtype as WeightDtype;
use engine::{inspect, model};
use safetensors::Dtype;
use serde_json::{Map, Value, json};

use support::{
    Copy, Raw, TOLERANCE, first_logits, largest_difference, load, load_error, one_line,
    read_weights, request, vector, write_weights,
};

const MODELS: [&str; 3] = ["tiny-llama", "tiny-qwen2", "tiny-qwen3"];

/// transformers 4's spelling of the same config.
fn old_form(config: &mut Map<String, Value>) {
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

#[test]
fn mistral_is_a_llama_while_no_window_is_in_effect() {
    let mistral = |window: Value| {
        Copy::of("tiny-llama").config(|config| {
            config.insert("model_type".to_owned(), json!("mistral"));
            config.insert("architectures".to_owned(), json!(["MistralForCausalLM"]));
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
                    error.contains("qwen2") && error.contains("use f32"),
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

#[test]
fn a_damaged_model_is_one_clear_line_that_names_the_file() {
    let cases: [(&str, fn(Vec<u8>) -> Vec<u8>, &str); 8] = [
        (
            "model.safetensors",
            |_| Vec::new(),
            "model.safetensors: corrupt or truncated",
        ),
        (
            "model.safetensors",
            |bytes| bytes[..bytes.len() - 1].to_vec(),
            "model.safetensors: corrupt or truncated",
        ),
        (
            "model.safetensors",
            |bytes| bytes[..100].to_vec(),
            "model.safetensors: corrupt or truncated",
        ),
        (
            "model.safetensors",
            |_| b"no safetensors at all, just text".to_vec(),
            "model.safetensors: corrupt",
        ),
        ("config.json", |_| b"{".to_vec(), "config.json is not JSON"),
        (
            "config.json",
            |_| b"[]".to_vec(),
            "config.json is not a JSON object",
        ),
        (
            "config.json",
            |_| b"{}".to_vec(),
            "field model_type is missing",
        ),
        (
            "tokenizer.json",
            |bytes| bytes[..100].to_vec(),
            "tokenizer.json",
        ),
    ];
    for (file, damage, message) in cases {
        let copy = Copy::of("tiny-llama");
        fs::write(copy.file(file), damage(fs::read(copy.file(file)).unwrap())).unwrap();
        let error = load_error(copy.path());
        assert!(error.contains(message), "{error}");
    }
    for (file, message) in [
        ("config.json", "config.json: No such file"),
        ("tokenizer.json", "tokenizer.json"),
        (
            "model.safetensors",
            "has neither model.safetensors nor model.safetensors.index.json",
        ),
    ] {
        let copy = Copy::of("tiny-llama");
        fs::remove_file(copy.file(file)).unwrap();
        let error = load_error(copy.path());
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn tensors_that_do_not_fit_the_config_are_named() {
    let norm = "model.layers.1.post_attention_layernorm.weight";
    let missing = Copy::of("tiny-llama").weights(|tensors| assert!(tensors.remove(norm).is_some()));
    assert!(
        load_error(missing.path()).ends_with(&format!("tensor {norm} is missing from the weights"))
    );

    let shorter = Copy::of("tiny-llama").config(|config| {
        config.insert("intermediate_size".to_owned(), json!(100));
    });
    let error = load_error(shorter.path());
    assert!(
        error.contains("mlp.gate_proj.weight has shape [160, 64], and config.json says [100, 64]"),
        "{error}"
    );

    // A bias that the config does not speak of would be left out of the sum.
    let biased = Copy::of("tiny-llama").weights(|tensors| {
        let norm = tensors["model.norm.weight"].clone();
        tensors.insert("model.layers.0.self_attn.q_proj.bias".to_owned(), norm);
    });
    assert!(load_error(biased.path()).contains("tensor model.layers.0.self_attn.q_proj.bias"));

    let fewer = Copy::of("tiny-qwen3").config(|config| {
        config.insert("num_hidden_layers".to_owned(), json!(1));
        config.remove("layer_types");
    });
    assert!(
        load_error(fewer.path()).contains("tensor model.layers.1."),
        "a layer is never left out"
    );

    let headless = Copy::of("tiny-qwen2")
        .weights(|tensors| assert!(tensors.remove("lm_head.weight").is_some()));
    assert!(load_error(headless.path()).contains("tensor lm_head.weight is missing"));

    let integer = Copy::of("tiny-llama").weights(|tensors| {
        let norm = tensors.get_mut("model.norm.weight").unwrap();
        norm.dtype = Dtype::I32;
    });
    assert!(load_error(integer.path()).contains("tensor model.norm.weight of type I32"));
}

#[test]
fn what_cannot_be_run_right_is_refused_by_name() {
    let cases = [
        ("tiny-llama", "head_dim", json!(32)),
        ("tiny-llama", "attention_bias", json!(true)),
        ("tiny-llama", "mlp_bias", json!(true)),
        ("tiny-llama", "hidden_act", json!("gelu")),
        ("tiny-llama", "model_type", json!("gemma2")),
        (
            "tiny-llama",
            "architectures",
            json!(["LlamaForSequenceClassification"]),
        ),
        ("tiny-llama", "sliding_window", json!(128)),
        (
            "tiny-llama",
            "layer_types",
            json!(["full_attention", "sliding_attention"]),
        ),
        ("tiny-llama", "partial_rotary_factor", json!(0.5)),
        (
            "tiny-llama",
            "quantization_config",
            json!({"quant_method": "gptq"}),
        ),
        ("tiny-llama", "final_logit_softcapping", json!(30.0)),
        ("tiny-llama", "embedding_multiplier", json!(12)),
        (
            "tiny-llama",
            "auto_map",
            json!({"AutoModel": "modeling.py"}),
        ),
        (
            "tiny-llama",
            "rope_type",
            json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}),
        ),
        (
            "tiny-llama",
            "rope_type",
            json!({"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}),
        ),
        (
            "tiny-llama",
            "partial_rotary_factor",
            json!({"rope_theta": 1e4, "partial_rotary_factor": 0.25}),
        ),
        (
            "tiny-llama",
            "full_attention",
            json!({"full_attention": {"rope_theta": 1e4}}),
        ),
        (
            "tiny-llama",
            "attention_factor",
            json!({"rope_type": "default", "rope_theta": 1e4, "attention_factor": 2.0}),
        ),
        ("tiny-qwen2", "rope_parameters", llama3()),
        (
            "tiny-qwen2",
            "rope_type",
            json!({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}),
        ),
        ("tiny-qwen2", "head_dim", json!(32)),
        ("tiny-qwen2", "hidden_act", json!("relu")),
        ("tiny-qwen3", "rope_parameters", llama3()),
        (
            "tiny-qwen3",
            "rope_type",
            json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}),
        ),
        (
            "tiny-qwen3",
            "layer_types",
            json!(["full_attention", "sliding_attention"]),
        ),
        ("tiny-qwen3", "num_experts", json!(8)),
    ];
    for (name, field, value) in cases {
        let is_rope = value.is_object() && !["quantization_config", "auto_map"].contains(&field);
        let placed = if is_rope { "rope_parameters" } else { field };
        let copy = Copy::of(name).config(|config| {
            config.insert(placed.to_owned(), value.clone());
        });
        let error = load_error(copy.path());
        assert!(
            error.starts_with("cannot run model") && error.contains(field),
            "{name} {value}: {error}"
        );
    }
    // The old spelling of the same.
    let old = Copy::of("tiny-llama").config(|config| {
        old_form(config);
        config.insert(
            "rope_scaling".to_owned(),
            json!({"type": "linear", "factor": 2.0}),
        );
    });
    let error = load_error(old.path());
    assert!(error.contains("rope_scaling.type = \"linear\""), "{error}");
}

fn llama3() -> Value {
    json!({"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0, "original_max_position_embeddings": 64})
}

#[test]
fn qwen_windows_count_only_where_they_are_in_effect() {
    let window = |switch: bool, first: usize, window: usize| {
        Copy::of("tiny-qwen2").config(|config| {
            config.remove("layer_types");
            config.insert("use_sliding_window".to_owned(), json!(switch));
            config.insert("max_window_layers".to_owned(), json!(first));
            config.insert("sliding_window".to_owned(), json!(window));
        })
    };
    let plain = first_logits(vector("tiny-qwen2").0);
    for neutral in [
        window(false, 0, 4),
        window(true, 2, 4),
        window(true, 0, 256),
    ] {
        assert_eq!(first_logits(neutral.path()), plain);
    }
    for sliding in [window(true, 0, 4), window(true, 1, 255)] {
        assert!(load_error(sliding.path()).contains("sliding_window = "));
    }
}

#[test]
fn a_missing_or_ill_typed_field_is_named_with_its_file() {
    let cases: [(&str, &str, Option<Value>, &str); 14] = [
        (
            "tiny-llama",
            "hidden_size",
            None,
            "config.json: field hidden_size is missing",
        ),
        (
            "tiny-llama",
            "vocab_size",
            None,
            "config.json: field vocab_size is missing",
        ),
        (
            "tiny-llama",
            "rms_norm_eps",
            None,
            "config.json: field rms_norm_eps is missing",
        ),
        (
            "tiny-llama",
            "max_position_embeddings",
            None,
            "config.json: field max_position_embeddings is missing",
        ),
        (
            "tiny-qwen3",
            "head_dim",
            None,
            "config.json: field head_dim is missing",
        ),
        (
            "tiny-qwen2",
            "num_key_value_heads",
            None,
            "config.json: field num_key_value_heads is missing",
        ),
        (
            "tiny-llama",
            "hidden_size",
            Some(json!("64")),
            "field hidden_size is \"64\", not a whole number",
        ),
        (
            "tiny-llama",
            "num_hidden_layers",
            Some(json!(0)),
            "field num_hidden_layers is 0, not a whole number",
        ),
        (
            "tiny-llama",
            "vocab_size",
            Some(json!(1e30)),
            "field vocab_size is 1e+30, not a whole number",
        ),
        (
            "tiny-llama",
            "rms_norm_eps",
            Some(json!("tiny")),
            "field rms_norm_eps is \"tiny\", not a finite number",
        ),
        (
            "tiny-llama",
            "tie_word_embeddings",
            Some(json!(1)),
            "field tie_word_embeddings is 1, not true or false",
        ),
        (
            "tiny-llama",
            "rope_parameters",
            Some(json!(3)),
            "field rope_parameters is 3, not an object",
        ),
        (
            "tiny-llama",
            "num_key_value_heads",
            Some(json!(3)),
            "4 is not a multiple of num_key_value_heads 3",
        ),
        (
            "tiny-llama",
            "num_attention_heads",
            Some(json!(5)),
            "hidden_size 64 is not a multiple",
        ),
    ];
    for (name, field, value, message) in cases {
        let copy = Copy::of(name).config(|config| {
            match value {
                Some(value) => config.insert(field.to_owned(), value),
                None => config.remove(field),
            };
        });
        let error = load_error(copy.path());
        assert!(error.contains(message), "{error}");
    }
    let two_bases = Copy::of("tiny-llama").config(|config| {
        config.insert("rope_theta".to_owned(), json!(500_000.0));
    });
    assert!(
        load_error(two_bases.path()).contains("rope_theta is 500000, and 10000 in rope_parameters")
    );
}

#[test]
fn a_name_that_is_no_model_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, "text").unwrap();
    assert!(load_error(&file).ends_with("is neither a directory nor a .gguf file"));
    for name in [
        "/no/such/directory",
        "nowhere.gguf",
        "",
        "nothing",
        "./a/b",
        "dummy:gpt-5",
    ] {
        let error = load_error(name);
        assert!(
            error.contains("no such directory or file") || error.contains("no such dummy"),
            "{error}"
        );
    }
}
