//! What a chapter's model code cannot run is refused before anything starts, and by those chapters
//! only: candle's models and our decoder have limits of their own.

use std::path::PathBuf;

use contracts::api::{CheckRequest, ErrorCode};
use contracts::run::{Dtype, Mode};
use reqwest::StatusCode;

use crate::fixture::{Agent, Home, error_of, spec};

/// Folder of the engine's tiny models.
fn models() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../engine/tests/vectors"
    ))
}

async fn check(
    agent: &Agent,
    chapter: &str,
    model: &str,
    dtype: Option<Dtype>,
) -> reqwest::Response {
    let mut spec = spec(chapter, Mode::Offline);
    spec.workload.model = model.to_owned();
    spec.arm.dtype = dtype;
    let request = CheckRequest {
        spec,
        with_binary: false,
    };
    agent.post("/v1/check").json(&request).send().await.unwrap()
}

#[tokio::test]
async fn a_model_is_refused_by_the_chapters_that_cannot_run_it() {
    let home = Home::new();
    // Refused by its name, before a byte of it is read.
    let stored = home.path("models/stored.gguf");
    std::fs::create_dir_all(stored.parent().unwrap()).unwrap();
    std::fs::write(&stored, "").unwrap();
    let (ours, theirs) = (models(), home.path("models"));
    let roots = [&ours, &theirs].map(|root| ["--model-root", root.to_str().unwrap()]);
    let agent = home.agent(roots.as_flattened());
    let tiny = |name: &str| ours.join(name).to_str().unwrap().to_owned();
    let (linear, qwen2) = (tiny("tiny-llama-linear"), tiny("tiny-qwen2"));
    let stored = stored.to_str().unwrap();
    for (chapter, model, dtype, words) in [
        ("ch01", &*linear, None, "rope_type = linear"),
        ("ch02", &linear, None, "rope_type = linear"),
        ("ch02", &qwen2, Some(Dtype::Bf16), "dtype bf16"),
        ("ch03", stored, None, "--dtype f32"),
        ("ch09", stored, None, "--dtype f32"),
    ] {
        let error = error_of(check(&agent, chapter, model, dtype).await, 422).await;
        assert_eq!(
            (error.code, error.field.as_deref()),
            (ErrorCode::CannotRun, Some("workload.model"))
        );
        let told = &error.message;
        assert!(told.contains(words) && told.contains(chapter), "{told}");
    }
    for (chapter, model, dtype) in [
        ("ch03", &linear, None),
        ("ch09", &linear, None),
        ("ch04", &qwen2, Some(Dtype::Bf16)),
        ("ch02", &qwen2, None),
    ] {
        let answer = check(&agent, chapter, model, dtype).await;
        let status = answer.status();
        let told = answer.text().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{chapter} {model}: {told}");
    }
}
