//! OpenAI's documents of an answer: the whole one, and the events of a stream. Pure.

use contracts::{
    generate::{FinishReason, GenerateResult},
    openai::{AnswerMessage, Choice, Completion, Usage},
};
use serde_json::Value;

use super::{logprobs::Logprobs, request::Kind};

/// What is the same in all documents of one answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// Which endpoint.
    pub kind: Kind,
    /// `chatcmpl-…`, `cmpl-…`.
    pub id: String,
    /// Unix seconds.
    pub created: i64,
    /// The served name.
    pub model: String,
    /// Whether the last document carries token ids.
    pub return_token_ids: bool,
}

impl Head {
    fn document(&self, object: &str, choices: Vec<Choice>) -> Completion {
        Completion {
            id: self.id.clone(),
            object: object.to_owned(),
            created: self.created,
            model: self.model.clone(),
            choices,
            usage: None,
            metrics: None,
            prompt_token_ids: None,
            token_ids: None,
        }
    }

    /// The whole answer.
    pub fn whole(&self, mut result: GenerateResult, mut logprobs: Logprobs) -> Completion {
        let finish_reason = Some(result.finish_reason);
        let logprobs = logprobs.write(&result.logprobs.take().unwrap_or_default());
        let text = result.text.clone();
        let (object, choice) = match self.kind {
            Kind::Chat => {
                let message = AnswerMessage {
                    role: Some("assistant".to_owned()),
                    content: Some(text),
                };
                (
                    "chat.completion",
                    Choice {
                        message: Some(message),
                        finish_reason,
                        logprobs,
                        ..Choice::default()
                    },
                )
            }
            Kind::Completions => (
                "text_completion",
                Choice {
                    text: Some(text),
                    finish_reason,
                    logprobs,
                    ..Choice::default()
                },
            ),
        };
        let usage = usage(&result);
        let document = self.document(object, vec![choice]);
        Completion {
            usage: Some(usage),
            ..self.with_measurements(document, result)
        }
    }

    /// First event of a chat: the role, and no content.
    pub fn role_event(&self) -> Option<Completion> {
        (self.kind == Kind::Chat).then(|| {
            let delta = AnswerMessage {
                role: Some("assistant".to_owned()),
                content: Some(String::new()),
            };
            self.event(Choice {
                delta: Some(delta),
                ..Choice::default()
            })
        })
    }

    /// An event with words, and the log probabilities of its tokens.
    pub fn text_event(&self, text: String, logprobs: Option<Value>) -> Completion {
        self.event(Choice {
            logprobs,
            ..self.part(Some(text), None)
        })
    }

    /// The event with the finish reason, and the log probabilities of tokens without text; without
    /// a usage event it is the last.
    pub fn finish_event(&self, finish_reason: FinishReason, logprobs: Option<Value>) -> Completion {
        self.event(Choice {
            logprobs,
            ..self.part(None, Some(finish_reason))
        })
    }

    /// The event that `include_usage` asks for: counts and no choices.
    pub fn usage_event(&self, result: &GenerateResult) -> Completion {
        Completion {
            usage: Some(usage(result)),
            ..self.document(self.event_object(), Vec::new())
        }
    }

    /// Adds what the engine measured, and the token ids if asked.
    pub fn with_measurements(&self, document: Completion, result: GenerateResult) -> Completion {
        let ids = self.return_token_ids;
        Completion {
            metrics: Some(result.metrics),
            prompt_token_ids: ids.then_some(result.input_ids),
            token_ids: ids.then_some(result.output_ids),
            ..document
        }
    }

    fn event(&self, choice: Choice) -> Completion {
        self.document(self.event_object(), vec![choice])
    }

    fn event_object(&self) -> &'static str {
        match self.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Completions => "text_completion",
        }
    }

    fn part(&self, text: Option<String>, finish_reason: Option<FinishReason>) -> Choice {
        match self.kind {
            Kind::Chat => {
                let delta = AnswerMessage {
                    role: None,
                    content: text,
                };
                Choice {
                    delta: Some(delta),
                    finish_reason,
                    ..Choice::default()
                }
            }
            // Completions have `text` in every event.
            Kind::Completions => Choice {
                text: Some(text.unwrap_or_default()),
                finish_reason,
                ..Choice::default()
            },
        }
    }
}

fn usage(result: &GenerateResult) -> Usage {
    let (prompt_tokens, completion_tokens) =
        (result.metrics.input_tokens, result.metrics.output_tokens);
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
    }
}
