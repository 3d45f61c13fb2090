//! What each request of a run says: from the spec's source of prompts, the seed and the salt to
//! the words of request `i`. Pure once opened; where a tokenizer is needed it is read by the caller.
//! How a prompt becomes an HTTP body is `load::workload`'s matter.

use contracts::openai::ChatMessage;
use contracts::run::{PromptSource, RunSpec};
use engine::text::Text;

use crate::load::Route;

/// The requests of a run. The same spec gives the same requests, online and offline, in every arm.
pub struct Prompts {
    texts: Vec<String>,
    max_tokens: u32,
}

/// What one request says.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The words.
    pub content: Content,
    /// Ceiling of the answer.
    pub max_tokens: u32,
    /// Tokens that the prompt was made to have, as the engine counts, where it was made.
    pub planned_input_tokens: Option<u32>,
}

/// The words of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// One user message, or a plain prompt.
    Text(String),
    /// A conversation so far.
    Chat(Vec<ChatMessage>),
}

/// A source that gives no requests; `message` says why, and `field` is its place in the spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct PromptError {
    /// Path of the field.
    pub field: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl Prompts {
    /// Readies the source of `spec`. `route` says whether the chat template will be applied; `text`
    /// is the tokenizer that the engine uses, if it is at hand.
    pub fn open(spec: &RunSpec, _route: Route, _text: Option<Text>) -> Result<Self, PromptError> {
        let refuse = |message: &str| PromptError {
            field: "workload.prompts",
            message: message.to_owned(),
        };
        let PromptSource::Texts { texts } = &spec.workload.prompts else {
            return Err(refuse("only texts are possible yet"));
        };
        if texts.is_empty() {
            return Err(refuse("at least one prompt is needed"));
        }
        Ok(Self::texts(
            texts.clone(),
            spec.workload.sampling.max_tokens,
        ))
    }

    /// Words as they are, whatever the endpoint.
    pub fn texts(texts: Vec<String>, max_tokens: u32) -> Self {
        Self { texts, max_tokens }
    }

    /// How many requests from `index` on belong together: they go out one after another in one slot,
    /// each when the one before has been answered. 1, but for conversations.
    pub fn together(&self, _index: u32) -> u32 {
        1
    }

    /// Whether request `index` depends on the answers before it in its conversation, so that it
    /// cannot be made beforehand.
    pub fn needs_answers(&self, _index: u32) -> bool {
        false
    }

    /// Request `index` of a phase; `said` are the answers so far of the requests that it belongs
    /// together with.
    pub fn prompt(
        &self,
        _warmup: bool,
        index: u32,
        _said: &[String],
    ) -> Result<Prompt, PromptError> {
        let at = (index as usize).checked_rem(self.texts.len()).unwrap_or(0);
        Ok(Prompt {
            content: Content::Text(self.texts.get(at).cloned().unwrap_or_default()),
            max_tokens: self.max_tokens,
            planned_input_tokens: None,
        })
    }
}
