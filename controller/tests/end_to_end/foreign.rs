//! Engines of others through the whole of it: `llama-cpp-python`'s server as `docs/engines` describes
//! it, against a chapter of ours on the same GGUF file.
//!
//! It runs where `CHAPTERBENCH_LLAMA_CPP_PYTHON` names a python that has the package and
//! `CHAPTERBENCH_SMOLLM2_GGUF` the file that `scripts/fetch-smollm2` fetches; elsewhere the tests say
//! so and check nothing. `CHAPTERBENCH_PYTHON` names a python with the official client.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::lab::Lab;

const PROMPT: &str = "What is the capital of France?";
/// Few: in a debug build on a busy machine each takes its time.
const TOKENS: usize = 8;
const RUNS: usize = 3;

/// A python with llama-cpp-python, and a model.
fn llama_cpp() -> Option<(String, String)> {
    let named = |name: &str| {
        let value = std::env::var(name);
        if value.is_err() {
            eprintln!("not checked: {name} is not set");
        }
        value.ok()
    };
    Some((
        named("CHAPTERBENCH_LLAMA_CPP_PYTHON")?,
        named("CHAPTERBENCH_SMOLLM2_GGUF")?,
    ))
}

/// A lab whose agent has the shipped entries, with `python3` found where the package is.
fn lab(python: &str) -> Lab {
    let lab = Lab::new();
    let config = lab.path("config/chapterbench");
    std::fs::create_dir_all(&config).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/engines/engines.toml");
    let shipped = std::fs::read_to_string(shipped).unwrap();
    let entry = shipped.replacen("\"python3\"", &format!("{python:?}"), 1);
    assert_ne!(entry, shipped, "the first entry is llama-cpp's");
    std::fs::write(config.join("engines.toml"), entry).unwrap();
    lab
}

fn bench<'a>(model: &'a str, engine: [&'a str; 2]) -> Vec<&'a str> {
    let mut words = vec!["run", engine[0], engine[1], "--model", model];
    words.extend(["--prompt", PROMPT, "--max-tokens", "8", "--n-runs", "3"]);
    words.extend(["--warmup", "1", "--threads", "1"]);
    words
}

fn measured(entry: &Value) -> Vec<&Value> {
    let samples = entry["samples"].as_array().unwrap().iter();
    samples.filter(|sample| sample["warmup"] == false).collect()
}

#[test]
fn llama_cpp_is_started_measured_stopped_and_compared() {
    let Some((python, model)) = llama_cpp() else {
        return;
    };
    let lab = lab(&python);
    let model = std::fs::canonicalize(model).unwrap();
    let model = model.to_str().unwrap();
    assert!(
        lab.expect(0, &["chapters"])
            .contains("llama-cpp     server")
    );

    let printed = lab.expect(0, &bench(model, ["--engine", "llama-cpp"]));
    assert!(printed.contains("llama-cpp — online (HTTP)"), "{printed}");
    assert!(
        printed.contains("TTFT") && printed.contains("TPOT"),
        "{printed}"
    );
    lab.expect(0, &bench(model, ["--chapter", "2"]));

    let exported = lab.export();
    let [theirs, ours] = exported.as_slice() else {
        panic!("two runs, not {}", exported.len())
    };
    let provenance = &theirs["run"]["status"]["provenance"];
    assert_eq!(provenance["command"][0], python.as_str());
    assert_eq!(provenance["served_name"], model);
    let lifecycle = &theirs["run"]["status"]["lifecycle"];
    assert_eq!(lifecycle["killed"], false, "{lifecycle}");
    assert!(lifecycle["ready_ms"].as_f64().unwrap() > 0.0, "{lifecycle}");
    let port = provenance["command"].as_array().unwrap();
    let port = port.iter().skip_while(|word| **word != "--port").nth(1);
    let port: u16 = port.unwrap().as_str().unwrap().parse().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());

    for field in ["sha256", "tokenizer_sha256"] {
        let of = |entry: &Value| entry["run"]["status"]["provenance"]["model"][field].clone();
        assert!(of(ours).is_string());
        assert_eq!(of(theirs), of(ours), "{field}");
    }
    assert_eq!(theirs["run"]["workload_key"], ours["run"]["workload_key"]);
    assert_eq!(measured(theirs).len(), RUNS);
    for sample in measured(theirs) {
        assert_eq!(sample["output_tokens"], TOKENS, "{sample}");
        assert!(sample["ttft_ms"].as_f64().unwrap() > 0.0, "{sample}");
    }

    lab.forget_the_neighbours();
    let compared = lab.json(&["compare", "ch02", "engine:llama-cpp"]);
    let cells = compared["steps"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "{compared}");
    assert_eq!(cells[0]["reasons"], serde_json::json!([]), "{compared}");
    let left = lab.processes();
    assert!(left.is_empty(), "left running: {left:?}");
}

#[test]
fn the_official_client_and_ours_get_the_same_answer() {
    let Some((python, model)) = llama_cpp() else {
        return;
    };
    let Ok(client) = std::env::var("CHAPTERBENCH_PYTHON") else {
        eprintln!("not checked: CHAPTERBENCH_PYTHON is not set");
        return;
    };
    let lab = lab(&python);
    // Greedy, and started alike, so that the server gives both the same answer if they ask the same.
    lab.expect(0, &bench(&model, ["--engine", "llama-cpp"]));
    let exported = lab.export();
    let samples = measured(&exported[0]);
    let ours = samples[0]["output_sha256"].as_str().unwrap();
    assert!(samples.iter().all(|sample| sample["output_sha256"] == ours));

    let output = Command::new(client)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/end_to_end/official_client.py"
        ))
        .args([&python, &model, PROMPT, &TOKENS.to_string()])
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
    let theirs: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(theirs, [ours, ours], "streamed and whole: {err}");
}
