//! What a loaded model takes: its weights and its keys and values once, and little more, at any time.
//!
//! Measured in a child, since other tests of this program use memory too.

use std::{fs, path::Path, process::Command};

use contracts::run::Dtype;
use engine::{
    decoder::{self, cache::in_place::InPlace},
    model::{
        ModelRequest,
        config::Config,
        tensors::{self, TensorSpec},
    },
};

use crate::{last, support};

/// Names the model for the child.
const VARIABLE: &str = "CHAPTERBENCH_TEST_RESIDENT";
/// Tokens of the child's prompt.
const PROMPT: usize = 200;

/// Bytes, as a child saw them.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Figures {
    before: usize,
    weights: usize,
    resident: usize,
    peak: usize,
}

/// A field of `/proc/self/status`, in bytes.
fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
#[ignore = "the child of the tests below"]
fn child() {
    let Ok(name) = std::env::var(VARIABLE) else {
        return;
    };
    let before = status("VmRSS:");
    let request = ModelRequest {
        dtype: Some(Dtype::F32),
        ..support::request(name)
    };
    let loaded = decoder::load(&request).unwrap();
    let mut decoder = loaded.decoder;
    let mut cache = InPlace::new(&decoder, decoder.context()).unwrap();
    let slot = cache.reserve(decoder.context()).unwrap();
    last(&mut decoder, &mut cache, slot, &[5; PROMPT], 0);
    let figures = Figures {
        before,
        weights: loaded.facts.parameters as usize * 4,
        resident: status("VmRSS:"),
        peak: status("VmHWM:"),
    };
    eprintln!("figures {}", serde_json::to_string(&figures).unwrap());
}

fn measured(model: &Path) -> Figures {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "memory::child", "--nocapture"])
        .env(VARIABLE, model)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let line = text.lines().find_map(|line| line.split_once("figures "));
    let figures = serde_json::from_str(line.unwrap_or_else(|| unreachable!("{text}")).1).unwrap();
    eprintln!("{}: {figures:?}", model.display());
    figures
}

/// A Llama of some 100 MB in a temporary folder: large enough for its weights to be what counts.
fn made() -> support::Copy {
    let copy = support::Copy::of("tiny-llama").config(|config| {
        for (field, value) in [
            ("hidden_size", 512),
            ("intermediate_size", 1536),
            ("num_hidden_layers", 6),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("vocab_size", 12_000),
            ("head_dim", 64),
        ] {
            config.insert(field.to_owned(), value.into());
        }
        config.insert("tie_word_embeddings".to_owned(), false.into());
    });
    let config = fs::read(copy.file("config.json")).unwrap();
    let config = Config::parse(&config, "made").unwrap();
    let expected = tensors::expected(&config);
    let raw = |spec: TensorSpec| {
        // Any number but 0, of which a file might hold nothing.
        let bytes = 0.01_f32.to_le_bytes().repeat(spec.count());
        let raw = support::Raw {
            dtype: safetensors::Dtype::F32,
            shape: spec.shape,
            bytes,
        };
        (spec.name, raw)
    };
    let weights = expected.into_iter().map(raw).collect();
    support::write_weights(&copy.file("model.safetensors"), weights);
    copy
}

fn check(figures: &Figures) {
    let Figures {
        before,
        weights,
        resident,
        peak,
    } = *figures;
    // Keys and values of so few tokens, and what the program takes by itself, are within the slack.
    let after = (resident - before) as f64 / weights as f64;
    let peak = (peak - before) as f64 / weights as f64;
    assert!((1.0..1.15).contains(&after), "after loading {after}");
    assert!(peak < 1.3, "at the peak {peak}");
}

#[test]
fn mapped_files_are_in_memory_once() {
    check(&measured(made().path()));
}

#[test]
fn made_weights_are_in_memory_once() {
    check(&measured(Path::new("dummy:smollm2-135m")));
}

#[test]
fn dequantised_weights_are_in_memory_once() {
    match std::env::var_os("CHAPTERBENCH_SMOLLM2_GGUF") {
        Some(path) => check(&measured(Path::new(&path))),
        None => eprintln!("not checked: CHAPTERBENCH_SMOLLM2_GGUF names no file"),
    }
}
