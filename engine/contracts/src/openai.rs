//! The subset of OpenAI's HTTP API that our server speaks and our client reads.
//!
//! Requests are read leniently (unknown fields are ignored, as every OpenAI-compatible server
//! does) and checked by the server field by field.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::generate::{FinishReason, RequestMetrics};

/// Body of `POST /v1/chat/completions` (with `messages`) and of `POST /v1/completions` (with
/// `prompt`). One flat struct for both, so that an error can name the field it lies in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationRequest {
    /// The served name or `default`; none is the served one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Chat: the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<ChatMessage>>,
    /// Completions: a string, or a list of token ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Value>,
    /// Ceiling of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<i64>,
    /// Chat: newer name of `max_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<i64>,
    /// See [`SamplingParams`](crate::generate::SamplingParams); none is 0 (greedy), not OpenAI's 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// An extension that most servers share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<i64>,
    /// An extension that most servers share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f64>,
    /// An extension that most servers share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f64>,
    /// See [`SamplingParams`](crate::generate::SamplingParams).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Bias by token id (as a string).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// A string or a list of strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    /// A boolean (chat) or a number (completions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Value>,
    /// Chat: with `logprobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<i64>,
    /// Answers per prompt; we give one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<i64>,
    /// Completions: refused unless it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_of: Option<i64>,
    /// Completions: refused unless it is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<bool>,
    /// Completions: refused unless it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// Chat: refused unless it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Value>>,
    /// Chat: refused unless it is `{"type":"text"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// Seed of the draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// An extension that most servers share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_eos: Option<bool>,
    /// Server-sent events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// What the stream carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
    /// An extension that vLLM has too: give `prompt_token_ids` and `token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_token_ids: Option<bool>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`.
    pub role: String,
    /// A string, or a list of `{"type":"text","text":…}` parts.
    #[serde(default)]
    pub content: Value,
}

/// `stream_options`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamOptions {
    /// One more event before `[DONE]`, with `usage` and without choices.
    pub include_usage: bool,
}

/// `usage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens made.
    pub completion_tokens: u32,
    /// Their sum.
    pub total_tokens: u32,
}

/// A whole answer (`chat.completion`, `text_completion`) or one event of a stream
/// (`chat.completion.chunk`, `text_completion`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// `chatcmpl-…`, `cmpl-…`.
    pub id: String,
    /// Kind of document.
    pub object: String,
    /// Unix seconds.
    pub created: i64,
    /// The served name.
    pub model: String,
    /// One choice; none in the usage event.
    pub choices: Vec<Choice>,
    /// Token counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Ours: what the engine measured; in a stream, in the last event before `[DONE]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<RequestMetrics>,
    /// With `return_token_ids`: the prompt's ids; in a stream, where `metrics` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// With `return_token_ids`: the tokens made; in a stream, where `metrics` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// One answer: `message` or `delta` for chat, `text` for completions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Always 0 here.
    pub index: u32,
    /// Chat, not streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<AnswerMessage>,
    /// Chat, streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<AnswerMessage>,
    /// Completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Null until the end.
    #[serde(default)]
    pub finish_reason: Option<FinishReason>,
    /// Null unless asked for. Chat: `{"content": [{token, logprob, bytes, top_logprobs}]}`;
    /// completions: `{tokens, token_logprobs, top_logprobs, text_offset}`. In a stream, those of the
    /// tokens whose text the event completes.
    #[serde(default)]
    pub logprobs: Option<Value>,
}

/// The assistant's words, or a part of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerMessage {
    /// In the first event only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Body of every error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorObject,
}

/// OpenAI's error object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// One line.
    pub message: String,
    /// `invalid_request_error`, `not_found_error`, `server_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The field at fault.
    pub param: Option<String>,
    /// A code for programs.
    pub code: Option<String>,
}
