//! The contract that never changes from chapter to chapter: what one `generate` takes and gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How the next token is chosen, and when to stop.
///
/// What a chapter does not do yet it refuses by name; it never ignores a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// 0 is greedy; above it, logits are divided by it.
    pub temperature: f32,
    /// Keep the k most likely tokens; −1 keeps all.
    pub top_k: i32,
    /// Keep the smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens of at least this share of the best token's probability; 0 keeps all.
    pub min_p: f32,
    /// For tokens of the prompt and of the answer so far: divides a positive logit, multiplies a
    /// negative one; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of tokens already made; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted per occurrence from the logit of tokens already made; 0 is off.
    pub frequency_penalty: f32,
    /// Added to the logit of these token ids.
    pub logit_bias: BTreeMap<u32, f32>,
    /// The answer ends before the first of these strings that is complete in it.
    pub stop: Vec<String>,
    /// Report each token's log probability, and those of this many best tokens of its step.
    pub logprobs: Option<u32>,
    /// Go on after the end-of-sequence token.
    pub ignore_eos: bool,
    /// A ceiling, never a promise.
    pub max_tokens: u32,
    /// Seed of the draws; the same seed gives the same tokens from the same build.
    pub seed: u64,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: -1,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            stop: Vec::new(),
            logprobs: None,
            ignore_eos: false,
            max_tokens: crate::defaults::MAX_TOKENS,
            seed: crate::defaults::SEED,
        }
    }
}

impl SamplingParams {
    /// Whether the most likely token is always taken: temperature 0, or one candidate only.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0 || self.top_k == 1
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The end-of-sequence token (or a stop string) came.
    Stop,
    /// The ceiling was reached.
    Length,
}

/// What an engine measured of one request, on its own clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestMetrics {
    /// Output tokens per second of wall time.
    pub throughput: f64,
    /// Tokens of the prompt after templating.
    pub input_tokens: u32,
    /// Tokens made, the stop token included.
    pub output_tokens: u32,
    /// Time to first token; 0.0 says "not measured" and is left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ttft_ms: f64,
    /// Time per output token after the first; 0.0 says "not measured" and is left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tpot_ms: f64,
    /// Around `generate`, tokenising and detokenising included.
    pub wall_ms: f64,
    /// A chapter's own numbers by name, units last. Greedy engines give `firm_steps`: how many
    /// leading steps had their two best logits at least
    /// [`NEAR_TIE_LOGITS`](crate::defaults::NEAR_TIE_LOGITS) apart. Chapters that take one request
    /// at a time give `queue_ms`: how much of the wall time passed before work on it began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extras: BTreeMap<String, f64>,
}

/// Name of the entry of [`RequestMetrics::extras`] that counts leading steps without a near tie.
pub const FIRM_STEPS: &str = "firm_steps";

/// Name of the entry of [`RequestMetrics::extras`] that says how long a request waited in the engine.
pub const QUEUE_MS: &str = "queue_ms";

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// One finished `generate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateResult {
    /// The answer, without the stop token, and without a stop string and what follows it.
    pub text: String,
    /// The prompt's token ids, after templating.
    pub input_ids: Vec<u32>,
    /// The tokens made; a stop token is here and counted, and is not in `text`. With a stop string
    /// the last is the token that completed it.
    pub output_ids: Vec<u32>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// What the engine measured.
    pub metrics: RequestMetrics,
    /// One entry for each of `output_ids`, if [`SamplingParams::logprobs`] asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<TokenLogprobs>>,
}

/// How likely one token was, and which were the likeliest at its step.
///
/// Natural logarithms of the model's own probabilities: the softmax of its logits before bias,
/// penalties, temperature and everything else that sampling does to them. At least
/// [`LOGPROB_MIN`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprobs {
    /// The token that was taken.
    pub id: u32,
    /// Its log probability.
    pub logprob: f32,
    /// The best tokens' ids and log probabilities, falling; equal ones by id.
    pub top: Vec<(u32, f32)>,
}

/// Stands for the log probability of what cannot be, since JSON has no infinity; OpenAI's number.
pub const LOGPROB_MIN: f32 = -9999.0;
