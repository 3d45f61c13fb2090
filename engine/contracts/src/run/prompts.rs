//! Where the prompts of a run come from. The agent makes the requests, since it has the tokenizer;
//! what a user's files hold travels here, read and checked by the controller.

use serde::{Deserialize, Serialize};

use crate::openai::ChatMessage;

/// Where prompts come from. Request `i` takes prompt `i mod n`; warm-up requests are counted apart,
/// and are other prompts where prompts are made or cold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PromptSource {
    /// Given word for word.
    Texts {
        /// At least one.
        texts: Vec<String>,
    },
    /// A data set of questions with answers; an answer's length is its request's ceiling.
    Pairs {
        /// At least one.
        pairs: Vec<PromptPair>,
    },
    /// Made, of exact length in tokens as the engine counts them: template and special tokens
    /// included.
    Synthetic {
        /// Tokens of a prompt.
        input: Length,
        /// Ceiling of an answer; none is the sampling's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Length>,
        /// Words that prompts share.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<SharedPrefix>,
    },
    /// Conversations whose user turns are requests, each with all that was said before. A turn is
    /// sent when the one before has been answered.
    Conversations {
        /// At least one, each with at least one user turn. Where an assistant's turn stands between
        /// two user turns it is sent as history; where none does, the answer that came is.
        conversations: Vec<Vec<ChatMessage>>,
    },
    /// A log of real traffic: lengths, times and shared blocks.
    Trace {
        /// At least one, in order of time.
        requests: Vec<TraceRequest>,
    },
}

/// A question and its recorded answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptPair {
    /// What is asked.
    pub prompt: String,
    /// What was answered: its tokens are the ceiling.
    pub answer: String,
}

/// A number of tokens, or how it is drawn from the seed for each request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Length {
    /// Always the same.
    Fixed {
        /// At least 1.
        tokens: u32,
    },
    /// Normal, rounded, at least 1.
    Normal {
        /// Mean.
        mean_tokens: f64,
        /// Standard deviation.
        sd_tokens: f64,
    },
    /// Uniform, both ends included.
    Uniform {
        /// At least 1.
        low_tokens: u32,
        /// At least `low_tokens`.
        high_tokens: u32,
    },
}

/// The beginning that prompts share, inside their length and with the template's tokens. Where
/// prompts are cold it is drawn with the salt, so that a run starts without it and then shares it;
/// the nonce of a sharing prompt follows it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedPrefix {
    /// Its length.
    pub tokens: u32,
    /// Share of the requests that begin with it, 0 to 1.
    pub share: f64,
}

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// When it came, since the first line.
    pub due_ms: u64,
    /// Tokens of its prompt.
    pub input_tokens: u32,
    /// Tokens of its answer: the ceiling.
    pub output_tokens: u32,
    /// Ids of the prompt's blocks of [`TRACE_BLOCK_TOKENS`] tokens: equal ids are equal text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_ids: Vec<u64>,
}

/// Tokens of one block of a trace (Mooncake's `hash_ids`).
pub const TRACE_BLOCK_TOKENS: u32 = 512;
