//! Every row of the chapters' table: transformers' answers, and what all rows have in common.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod company;
mod distribution;
mod requests;
mod sampling;
#[path = "../support/mod.rs"]
mod support;

use contracts::generate::GenerateResult;
use engine::{
    chapters::{Chapter, Engine, StepEvent, TABLE},
    error::EngineError,
};

fn rows() -> impl Iterator<Item = &'static Chapter> {
    TABLE.iter().filter(|chapter| !chapter.hidden)
}

/// Chapters whose requests run together, and the options of each: the first says how many may.
const TOGETHER: [(&str, &[&str]); 2] = [
    ("ch05", &["max_batch", "kv_tokens"]),
    ("ch09", &["max_seqs", "max_step_tokens", "kv_tokens"]),
];

/// The options of a chapter whose requests run together; none where they run one after another.
fn options(chapter: &str) -> &'static [&'static str] {
    let found = TOGETHER.iter().find(|(id, _)| *id == chapter);
    found.map_or(&[], |(_, options)| options)
}

/// Steps until nothing is left; the events in order.
fn run(engine: &mut dyn Engine) -> Vec<StepEvent> {
    const STEPS_MAX: usize = 10_000;
    let mut events = Vec::new();
    for _ in 0..STEPS_MAX {
        if engine.is_idle() {
            return events;
        }
        events.extend(engine.step());
    }
    unreachable!("{STEPS_MAX} steps and not idle")
}

/// Texts of a request's tokens, and its result.
fn of_request(
    events: Vec<StepEvent>,
    wanted: u64,
) -> (Vec<String>, Vec<Result<GenerateResult, EngineError>>) {
    let (mut texts, mut results) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            StepEvent::Token { id, text, .. } if id == wanted => {
                assert!(results.is_empty(), "a token after the end");
                texts.push(text);
            }
            StepEvent::Finished { id, result } if id == wanted => results.push(result),
            _ => {}
        }
    }
    (texts, results)
}
