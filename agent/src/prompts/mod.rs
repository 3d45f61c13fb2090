//! What each request of a run says: from the spec's source of prompts, the seed and the salt to
//! the words of request `i`. Pure once opened; where a tokenizer is needed it is read by the caller.
//! How a prompt becomes an HTTP body is `load::workload`'s matter; the rules are told in
//! `docs/workloads.md`.

mod conversations;
mod draw;
mod given;
mod synthetic;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trace;
mod words;

use contracts::openai::ChatMessage;
use contracts::run::{CacheState, Length, PromptSource, RunSpec};
use engine::text::{Input, Text};

use self::conversations::Conversations;
pub(crate) use self::conversations::without_answer;
use self::draw::Draws;
use self::given::{Pairs, Texts};
use self::synthetic::Synthetic;
use self::trace::Trace;
use self::words::Words;
use crate::load::Route;

/// The requests of a run. The same spec gives the same requests, online and offline, in every arm.
pub struct Prompts {
    source: Source,
}

enum Source {
    Texts(Texts),
    Pairs(Pairs),
    Synthetic(Box<Synthetic>),
    Conversations(Conversations),
    Trace(Box<Trace>),
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

impl Content {
    /// What an engine encodes for it.
    pub(crate) fn into_input(self, route: Route) -> Input {
        match (self, route) {
            (Self::Chat(messages), _) => Input::Chat(messages),
            (Self::Text(text), Route::Completions) => Input::Text(text),
            (Self::Text(text), Route::Chat) => Input::Chat(vec![ChatMessage {
                role: "user".to_owned(),
                content: text.into(),
            }]),
        }
    }
}

/// The lengths of a request whose prompt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Tokens of the prompt, as the engine counts.
    pub input_tokens: u32,
    /// Ceiling of the answer.
    pub max_tokens: u32,
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
    /// is the tokenizer that the engine uses, if it is at hand. With one, takes some 10 ms where
    /// prompts are made.
    ///
    /// # Errors
    /// [`PromptError`]: a source without prompts, a tokenizer that is missing or cannot make
    /// prompts of exact length, a length below what template and nonce need, a conversation that
    /// is to go to an endpoint without roles.
    pub fn open(spec: &RunSpec, route: Route, text: Option<Text>) -> Result<Self, PromptError> {
        let max_tokens = spec.workload.sampling.max_tokens;
        let draws = Draws::of(spec);
        let source = match &spec.workload.prompts {
            PromptSource::Texts { texts } => {
                some(texts)?;
                Source::Texts(Texts {
                    texts: texts.clone(),
                    max_tokens,
                    draws: Some(draws),
                })
            }
            PromptSource::Pairs { pairs } => {
                some(pairs)?;
                let why = "the answers of a data set are ceilings, which a tokenizer must count: \
                           give --tokenizer, or one ceiling for all by --max-tokens";
                Source::Pairs(Pairs::new(pairs.clone(), needed(text, why)?, draws)?)
            }
            PromptSource::Synthetic {
                input,
                output,
                prefix,
            } => {
                let output = output.unwrap_or(Length::Fixed { tokens: max_tokens });
                let words = Words::of(needed(text, EXACT)?, route)?;
                let made = Synthetic::new(words, draws, *input, output, *prefix)?;
                Source::Synthetic(Box::new(made))
            }
            PromptSource::Conversations { .. } if route == Route::Completions => {
                return Err(PromptError {
                    field: "workload.endpoint",
                    message: "conversations need the chat endpoint and a model with a template"
                        .to_owned(),
                });
            }
            PromptSource::Conversations { conversations } => {
                let conversations = conversations.clone();
                Source::Conversations(Conversations::new(conversations, max_tokens, draws)?)
            }
            PromptSource::Trace { requests } => {
                some(requests)?;
                let words = Words::of(needed(text, EXACT)?, route)?;
                Source::Trace(Box::new(Trace::new(words, draws, requests.clone())?))
            }
        };
        Ok(Self { source })
    }

    /// Words as they are, whatever the endpoint.
    pub fn texts(texts: Vec<String>, max_tokens: u32) -> Self {
        Self {
            source: Source::Texts(Texts {
                texts,
                max_tokens,
                draws: None,
            }),
        }
    }

    /// How many requests from `index` on belong together: they go out one after another in one slot,
    /// each when the one before has been answered. 1, but for conversations.
    pub fn together(&self, index: u32) -> u32 {
        match &self.source {
            Source::Conversations(source) => source.together(index),
            _ => 1,
        }
    }

    /// Whether request `index` depends on the answers before it in its conversation, so that it
    /// cannot be made beforehand.
    pub fn needs_answers(&self, index: u32) -> bool {
        self.answers_needed(index) > 0
    }

    /// How many answers to the turns before `index` in its conversation are not recorded.
    pub(crate) fn answers_needed(&self, index: u32) -> u32 {
        match &self.source {
            Source::Conversations(source) => source.answers_needed(index),
            _ => 0,
        }
    }

    /// Request `index` of a phase; `said` are the answers so far of the requests that it belongs
    /// together with, from the first turn of its conversation on.
    ///
    /// # Errors
    /// [`PromptError`]: no prompt of that length could be made, or an answer is missing from `said`.
    pub fn prompt(&self, warmup: bool, index: u32, said: &[String]) -> Result<Prompt, PromptError> {
        match &self.source {
            Source::Texts(source) => Ok(source.prompt(warmup, index)),
            Source::Pairs(source) => source.prompt(warmup, index),
            Source::Synthetic(source) => source.prompt(warmup, index),
            Source::Conversations(source) => source.prompt(warmup, index, said),
            Source::Trace(source) => source.prompt(warmup, index),
        }
    }

    /// The lengths of request `index`, where its prompt is made: known without making it.
    pub(crate) fn planned(&self, warmup: bool, index: u32) -> Option<Planned> {
        match &self.source {
            Source::Synthetic(source) => Some(source.planned(warmup, index)),
            Source::Trace(source) => Some(source.planned(index)),
            _ => None,
        }
    }
}

/// Whether every request is a given text as it is, so that nothing needs to be made.
pub(crate) fn as_given(spec: &RunSpec) -> bool {
    matches!(spec.workload.prompts, PromptSource::Texts { .. })
        && spec.workload.cache != CacheState::Cold
}

const EXACT: &str = "prompts of exact length need the model's tokenizer, which this agent cannot \
                     read: give --tokenizer";

fn needed(text: Option<Text>, why: &str) -> Result<Text, PromptError> {
    text.ok_or_else(|| PromptError {
        field: "workload.tokenizer",
        message: why.to_owned(),
    })
}

fn some<T>(items: &[T]) -> Result<(), PromptError> {
    if items.is_empty() {
        return Err(PromptError {
            field: "workload.prompts",
            message: "at least one is needed".to_owned(),
        });
    }
    Ok(())
}
