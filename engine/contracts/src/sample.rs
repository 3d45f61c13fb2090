//! One request's raw record: the truth that every figure is computed from.

use serde::{Deserialize, Serialize};

use crate::generate::FinishReason;

/// One request, warm-up or measured, successful or not.
///
/// Instants are ns since the origin of the run's one monotonic clock. An event's instant is the
/// return of the read that completed it, taken before parsing.
/// `wall_ms = done − sent` online; offline, around `generate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// From 0 within its phase.
    pub index: u32,
    /// Warm-up requests never enter an average.
    pub warmup: bool,

    /// When it should have started.
    pub due_ns: u64,
    /// When a slot was free for it, where it had to wait for one after it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_ns: Option<u64>,
    /// When it was handed to the client.
    pub start_ns: u64,
    /// When its connection was open, if it had to be opened.
    #[serde(default)]
    pub connected_ns: Option<u64>,
    /// First write of the request on an open connection; offline, the call of `generate`.
    #[serde(default)]
    pub sent_ns: Option<u64>,
    /// The response's head was complete.
    #[serde(default)]
    pub headers_ns: Option<u64>,
    /// First event of a stream.
    #[serde(default)]
    pub first_event_ns: Option<u64>,
    /// First event with text, reasoning or a tool call.
    #[serde(default)]
    pub first_content_ns: Option<u64>,
    /// Last event with text, reasoning or a tool call.
    #[serde(default)]
    pub last_content_ns: Option<u64>,
    /// The event with the finish reason.
    #[serde(default)]
    pub finish_ns: Option<u64>,
    /// The read that ended the body; offline, the return of `generate`.
    #[serde(default)]
    pub done_ns: Option<u64>,
    /// All content events' instants.
    #[serde(default)]
    pub event_times: Option<EventTimes>,

    /// `done − sent`; none if the request did not get that far.
    #[serde(default)]
    pub wall_ms: Option<f64>,
    /// Time to first token, if measured.
    #[serde(default)]
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, if measured.
    #[serde(default)]
    pub tpot_ms: Option<f64>,
    /// Whose clock `ttft_ms` and `tpot_ms` are on.
    #[serde(default)]
    pub timing_source: Option<TimingSource>,
    /// The engine's own wall time, from `metrics`, its queue included.
    #[serde(default)]
    pub engine_wall_ms: Option<f64>,
    /// How much of it the request waited in the engine before work on it began, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_queue_ms: Option<f64>,

    /// Tokens of the prompt, as the engine counts.
    #[serde(default)]
    pub input_tokens: Option<u32>,
    /// The count that figures use.
    #[serde(default)]
    pub output_tokens: Option<u32>,
    /// Where `output_tokens` comes from.
    #[serde(default)]
    pub token_source: Option<TokenSource>,
    /// `usage.completion_tokens`.
    #[serde(default)]
    pub usage_tokens: Option<u32>,
    /// Our tokenizer's count of the text.
    #[serde(default)]
    pub local_tokens: Option<u32>,
    /// The ceiling that was asked for; never a count.
    pub requested_tokens: u32,
    /// Tokens in the first content event, if known.
    #[serde(default)]
    pub first_event_tokens: Option<u32>,

    /// Why the answer ended.
    #[serde(default)]
    pub finish_reason: Option<FinishReason>,
    /// Whether a stream ended with `[DONE]`.
    #[serde(default)]
    pub done_seen: bool,
    /// Whether the connection had been used before.
    #[serde(default)]
    pub reused_connection: bool,
    /// A kept connection was closed before any byte of the answer came, and the request was sent
    /// again on a new one; all instants from `connected_ns` on are those of the second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconnected: bool,
    /// The stream said that it was over, but its HTTP body was never ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unterminated: bool,
    /// Tokens that the prompt was made to have, where it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_input_tokens: Option<u32>,
    /// Body bytes received.
    #[serde(default)]
    pub bytes: u64,
    /// HTTP status.
    #[serde(default)]
    pub status: Option<u16>,

    /// SHA-256 (hex) of the text.
    #[serde(default)]
    pub output_sha256: Option<String>,
    /// The answer.
    #[serde(default)]
    pub text: Option<String>,
    /// The tokens made, where the engine tells them.
    #[serde(default)]
    pub output_ids: Option<Vec<u32>>,
    /// SHA-256 (hex) of the prompt's token ids as little-endian u32, where the engine tells them.
    #[serde(default)]
    pub input_ids_sha256: Option<String>,
    /// Leading greedy steps without a near tie, where the engine tells it.
    #[serde(default)]
    pub firm_steps: Option<u32>,

    /// Set if the request failed; a failed request never enters an average.
    #[serde(default)]
    pub error: Option<SampleError>,
}

/// Content events' instants as a stored blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTimes {
    /// Name of the encoding; [`EVENT_TIMES_ENCODING`] is the only one.
    pub encoding: String,
    /// Base64 of the blob.
    pub base64: String,
}

/// zstd of little-endian u32 µs: the first since `sent`, each other since the one before.
pub const EVENT_TIMES_ENCODING: &str = "zstd-u32le-us-delta-1";

/// Whose clock TTFT and TPOT are on; comparisons do not mix them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimingSource {
    /// The client's stamps of a stream.
    Client,
    /// The engine's own `metrics`.
    Engine,
}

/// Where a token count comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The engine's result (offline).
    Engine,
    /// `usage.completion_tokens`.
    Usage,
    /// The server's `metrics.output_tokens`.
    Metrics,
    /// Our tokenizer on the text.
    Tokenizer,
    /// Content events.
    Events,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleError {
    /// For counting.
    pub class: ErrorClass,
    /// One line for people.
    pub message: String,
}

/// Classes of failed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The name does not resolve.
    Dns,
    /// Nobody listens there.
    Refused,
    /// The connection could not be opened for another reason.
    Connect,
    /// TLS: no handshake, or a certificate that is not trusted.
    Tls,
    /// Opening the connection took too long.
    ConnectTimeout,
    /// No byte of an answer in time.
    FirstByteTimeout,
    /// Silence within an answer.
    StallTimeout,
    /// The whole request took too long.
    TotalTimeout,
    /// 401 or 403: the key is missing or wrong.
    Unauthorized,
    /// Another status that is not 2xx.
    HttpStatus,
    /// A 200 with a content type that is no answer of this API (an HTML page).
    ContentType,
    /// A redirect: a measured server must answer itself.
    Redirect,
    /// The server reset the connection.
    Reset,
    /// The connection broke otherwise, or HTTP was violated.
    Transport,
    /// An error object inside a 200 stream.
    StreamError,
    /// A stream that ended with neither a finish reason nor `[DONE]`.
    Truncated,
    /// JSON that cannot be read or lacks what it must have.
    BadJson,
    /// `usage` says 0 tokens, or no content came without a finish reason.
    NoTokens,
    /// An answer beyond the size limit.
    TooLarge,
    /// `generate` returned an error (offline).
    Engine,
    /// The run was cancelled or its child died under it.
    Aborted,
}
