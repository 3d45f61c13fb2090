//! Real input: the chapters over SmolLM2-135M-Instruct, from the GGUF file that
//! `scripts/fetch-smollm2` fetches, as stored and dequantised.
//!
//! The tests read the file that `CHAPTERBENCH_SMOLLM2_GGUF` names; without it they say so and
//! check nothing. CI sets it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use contracts::{
    generate::{FinishReason, GenerateResult, SamplingParams},
    openai::ChatMessage,
    run::{Device, Dtype},
};
use engine::{
    chapters::{Setup, TABLE},
    model::ModelRequest,
    text::Input,
};

const VARIABLE: &str = "CHAPTERBENCH_SMOLLM2_GGUF";

fn chat(words: &str) -> Input {
    Input::Chat(vec![ChatMessage {
        role: "user".to_owned(),
        content: words.into(),
    }])
}

fn inputs() -> [Input; 2] {
    [
        chat("What is the capital of France?"),
        Input::Text("Why is the sky blue? Because in 1871".to_owned()),
    ]
}

/// Greedy answers of every chapter that promises the same tokens, by chapter.
fn answers(dtype: Option<Dtype>) -> Option<Vec<(&'static str, Vec<GenerateResult>)>> {
    let Ok(name) = std::env::var(VARIABLE) else {
        eprintln!(
            "not checked: {VARIABLE} does not name the file that scripts/fetch-smollm2 fetches"
        );
        return None;
    };
    let params = SamplingParams {
        max_tokens: 32,
        ..SamplingParams::default()
    };
    let rows = TABLE.iter().filter(|row| !row.hidden && row.same_tokens);
    let all = rows.map(|row| {
        let model = ModelRequest {
            name: name.clone(),
            dtype,
            device: Device::Cpu,
            threads: None,
        };
        let options = BTreeMap::new();
        let mut engine = (row.build)(Setup { model, options }).unwrap();
        let made = inputs().map(|input| engine.generate(&input, &params).unwrap());
        (row.id, made.to_vec())
    });
    Some(all.collect())
}

/// All chapters answer alike; gives the first answer to the question about France.
fn agreed(dtype: Option<Dtype>) -> Option<GenerateResult> {
    let all = answers(dtype)?;
    assert!(all.len() >= 2, "chapters 1 and 2 at least");
    let (_, reference) = &all[0];
    for (id, made) in &all {
        for (ours, theirs) in made.iter().zip(reference) {
            assert_eq!(ours.input_ids, theirs.input_ids, "{id}");
            assert_eq!(ours.output_ids, theirs.output_ids, "{id}");
            assert_eq!(ours.text, theirs.text, "{id}");
        }
        assert!(!made[1].text.trim().is_empty(), "{id}");
    }
    Some(reference[0].clone())
}

#[test]
fn chapters_agree_with_weights_as_stored() {
    // No more than that: on this question candle's Q4_1 arithmetic turns a near tie of the f32
    // logits (0.08) and wanders off.
    agreed(None);
}

#[test]
fn chapters_agree_and_know_paris_with_weights_in_f32() {
    let Some(answer) = agreed(Some(Dtype::F32)) else {
        return;
    };
    assert_eq!(answer.text, "The capital of France is Paris.");
    assert_eq!(answer.finish_reason, FinishReason::Stop);
}
