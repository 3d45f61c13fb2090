//! What is refused when a model is loaded: damage, misfits, and all that we could not run right,
//! each by name on one line.

use std::fs;

use engine::inspect;
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::{
    loading::{as_mistral, old_form},
    support::{Copy, first_logits, load_error, vector},
};

#[test]
fn a_damaged_model_is_one_clear_line_that_names_the_file() {
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let cases: [(&str, Damage, &str); 8] = [
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
            json!({"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0}),
        ),
        (
            "tiny-llama",
            "mscale",
            json!({"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0, "mscale": 1.0}),
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
        (
            "tiny-qwen2",
            "rope_type",
            json!({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}),
        ),
        ("tiny-qwen2", "hidden_act", json!("relu")),
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
            json!({"type": "dynamic", "factor": 2.0}),
        );
    });
    let error = load_error(old.path());
    assert!(error.contains("rope_scaling.type = \"dynamic\""), "{error}");
    // transformers' Mistral has none, whatever its config says.
    let biased = Copy::of("tiny-llama").config(|config| {
        as_mistral(config);
        config.insert("attention_bias".to_owned(), json!(true));
    });
    let error = load_error(biased.path());
    assert!(error.contains("attention_bias = true"), "{error}");
}

#[test]
fn what_only_candles_models_cannot_run_is_refused_there_and_says_what_can() {
    let scaled = |kind: &str| json!({"rope_type": kind, "rope_theta": 1e4, "factor": 4.0});
    let cases = [
        ("tiny-llama", "head_dim", json!(32)),
        ("tiny-llama", "attention_bias", json!(true)),
        ("tiny-llama", "rope_type", scaled("yarn")),
        ("tiny-llama", "rope_type", scaled("linear")),
        ("tiny-qwen2", "rope_type", llama3()),
        ("tiny-qwen2", "rope_type", scaled("yarn")),
        ("tiny-qwen2", "head_dim", json!(32)),
        ("tiny-qwen3", "rope_type", llama3()),
        ("tiny-qwen3", "rope_type", scaled("yarn")),
    ];
    for (name, field, value) in cases {
        let placed = if value.is_object() {
            "rope_parameters"
        } else {
            field
        };
        let copy = Copy::of(name).config(|config| {
            config.insert(placed.to_owned(), value.clone());
        });
        let error = load_error(copy.path());
        assert!(
            error.starts_with("cannot run model")
                && error.contains(&format!("{field} = "))
                && error.ends_with("candle's own model can't; chapter 3 and later can"),
            "{name} {value}: {error}"
        );
        // A look at the model does not know the chapter, and lets pass what some chapter can run.
        inspect::inspect(copy.path().to_str().unwrap()).unwrap();
    }
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
    let cases: [(&str, &str, Option<Value>, &str); 16] = [
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
            "num_hidden_layers",
            Some(json!(16_000_000)),
            "num_hidden_layers is 16000000, more than 4096",
        ),
        (
            "tiny-llama",
            "max_position_embeddings",
            Some(json!(16_000_000)),
            "max_position_embeddings is 16000000, more than 4194304",
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
            "tiny-qwen2",
            "num_attention_heads",
            Some(json!(5)),
            "hidden_size 64 is not a multiple of num_attention_heads 5, and there is no head_dim",
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
    let ropes: [(Value, &str); 9] = [
        (
            json!({"rope_type": "linear"}),
            "field rope_parameters.factor is missing",
        ),
        (
            json!({"rope_type": "linear", "factor": 0}),
            "field rope_parameters.factor is 0, not a positive number",
        ),
        (
            json!({"rope_type": "yarn"}),
            "field rope_parameters.factor is missing",
        ),
        (
            json!({"rope_type": "yarn", "factor": 2.0, "beta_fast": 1.0, "beta_slow": 2.0}),
            "yarn's beta_fast is 1, below its beta_slow of 2",
        ),
        (
            json!({"rope_type": "yarn", "factor": 2.0, "mscale": -1.0, "mscale_all_dim": 1.0}),
            "field rope_parameters.mscale is -1.0, not 0 or a positive number",
        ),
        (
            json!({"rope_type": "yarn", "factor": 2.0, "truncate": 1}),
            "field rope_parameters.truncate is 1, not true or false",
        ),
        (
            json!({"rope_type": "yarn", "factor": 2.0, "rope_theta": 1.0}),
            "yarn needs a rope_theta above 1, not 1",
        ),
        (
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}),
            "field rope_parameters.high_freq_factor is 4.0, not more than low_freq_factor",
        ),
        (
            json!({"rope_theta": -1.0}),
            "field rope_parameters.rope_theta is -1.0, not a positive number",
        ),
    ];
    for (value, message) in ropes {
        let copy = Copy::of("tiny-llama").config(|config| {
            config.insert("rope_parameters".to_owned(), value);
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
    let two_spellings = |factor: f64| {
        Copy::of("tiny-llama").config(|config| {
            config.insert("rope_parameters".to_owned(), llama3());
            let mut old = llama3();
            old["factor"] = json!(factor);
            config.insert("rope_scaling".to_owned(), old);
        })
    };
    first_logits(two_spellings(8.0).path());
    assert!(
        load_error(two_spellings(4.0).path())
            .contains("rope_parameters and rope_scaling do not say the same")
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
