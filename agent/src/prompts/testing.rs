//! Specs and tokenizers for the tests of this room.

use std::sync::LazyLock;

use contracts::run::{CacheState, Length, PromptSource, RunSpec, SharedPrefix};
use engine::text::Text;

use crate::load::Route;
use crate::prompts::{PromptError, Prompts};
use crate::run::testing::fake_spec;

/// A spec of cold synthetic prompts of 64 tokens.
pub(super) fn spec() -> RunSpec {
    let mut spec = fake_spec();
    spec.workload.prompts = synthetic(Length::Fixed { tokens: 64 }, None);
    spec.workload.cache = CacheState::Cold;
    spec.salt = "session/0".to_owned();
    spec
}

pub(super) fn synthetic(input: Length, prefix: Option<SharedPrefix>) -> PromptSource {
    PromptSource::Synthetic {
        input,
        output: None,
        prefix,
    }
}

pub(super) fn open(spec: &RunSpec, route: Route) -> Result<Prompts, PromptError> {
    Prompts::open(spec, route, Some(MADE.clone()))
}

/// The tokenizer of `dummy:tiny-llm`.
pub(super) static MADE: LazyLock<Text> = LazyLock::new(|| model("dummy:tiny-llm"));

/// A tokenizer of byte-level BPE with few words and no template.
pub(super) static TINY: LazyLock<Text> = LazyLock::new(|| {
    model(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../engine/tests/vectors/tiny-llama"
    ))
});

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn model(name: &str) -> Text {
    engine::inspect::inspect(name).unwrap().text
}
