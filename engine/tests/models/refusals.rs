//! What is refused when a model is loaded: damage and misfits, each by name on one line. Fields of a
//! config that cannot be run are in [`crate::refused_configs`].

use std::fs;

use safetensors::Dtype;
use serde_json::json;

use crate::support::{Copy, load_error};

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
