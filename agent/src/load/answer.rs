//! From an answer's events to a sample's figures: definitions `v1`, and nothing but them. Bytes,
//! sockets and time belong to the client, which says when each event came.
//!
//! * Content is text, reasoning or a tool call that is not empty. A role chunk, empty or null
//!   content, a comment is not a token.
//! * TTFT: from sent to the first content event. TPOT: (last content − first content) / (n − k),
//!   n tokens in all, k in the first content event.
//! * One content event that carries more than one token is a whole answer at once: when its first
//!   token was made cannot be seen, so TTFT and TPOT are unmeasured. So is a TPOT whose first and
//!   last content came with one read.
//! * n: the server's `usage`, else its `metrics`, else our tokenizer, else content events; the
//!   source is kept. Never the ceiling, and never 0.

use std::sync::Arc;

use contracts::generate::{FIRM_STEPS, FinishReason, QUEUE_MS, RequestMetrics};
use contracts::sample::{ErrorClass, Sample, SampleError, TimingSource, TokenSource};
use sha2::{Digest, Sha256};

use super::clock::ms_between;
use super::event_times;
use super::sse::Event;
use super::wire::{Chunk, Words, one_line};

/// Counts the tokens of a text, without special tokens.
pub type TokenCounter = Arc<dyn Fn(&str) -> u32 + Send + Sync>;

/// An answer as it comes in.
#[derive(Default)]
pub struct Answer {
    /// A tokenizer will count at [`Answer::settle`].
    counted: bool,
    /// The wall time is from start and not from sent, because connecting counts.
    wall_from_start: bool,
    streamed: bool,
    events: u32,
    first_event_ns: Option<u64>,
    content_ns: Vec<u64>,
    /// Tokens so far by `usage` in the first content event.
    first_usage: Option<u32>,
    first_words: String,
    text: String,
    reasoning: String,
    finish_ns: Option<u64>,
    finish: Option<FinishReason>,
    done_seen: bool,
    prompt_tokens: Option<u32>,
    usage_tokens: Option<u32>,
    metrics: Option<RequestMetrics>,
    output_ids: Option<Vec<u32>>,
    input_ids: Option<Vec<u32>>,
}

/// A failure of a class, with one line for people.
pub(super) fn failure(class: ErrorClass, message: impl Into<String>) -> SampleError {
    SampleError {
        class,
        message: message.into(),
    }
}

impl Answer {
    /// An empty answer. `counted`: a tokenizer will be at hand in [`Answer::settle`];
    /// `wall_from_start`: connecting is part of the request's wall time.
    pub(super) fn new(counted: bool, wall_from_start: bool) -> Self {
        Self {
            counted,
            wall_from_start,
            ..Self::default()
        }
    }

    /// What it has said so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The answer is a stream. Its events follow, or none, if the server has nothing to say.
    pub(super) fn begin_stream(&mut self) {
        self.streamed = true;
    }

    /// Takes one event of a stream; `at_ns` is the return of the read that completed it.
    pub(super) fn event(&mut self, at_ns: u64, event: Event<'_>) -> Result<(), SampleError> {
        let data = event.data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        self.first_event_ns.get_or_insert(at_ns);
        if data == b"[DONE]" {
            self.done_seen = true;
            return Ok(());
        }
        self.events += 1;
        let parsed = Chunk::parse(data);
        if event.kind == b"error" {
            let message = parsed.ok().and_then(|chunk| chunk.error_message());
            let message = message.unwrap_or_else(|| one_line(&String::from_utf8_lossy(data)));
            return Err(failure(ErrorClass::StreamError, message));
        }
        let chunk = parsed.map_err(|e| {
            failure(
                ErrorClass::BadJson,
                format!("event {} of the stream: {e}", self.events),
            )
        })?;
        self.chunk(at_ns, chunk)
    }

    /// Takes a whole answer that was not streamed.
    pub(super) fn whole(&mut self, at_ns: u64, body: &[u8]) -> Result<(), SampleError> {
        let chunk = Chunk::parse(body).map_err(|e| failure(ErrorClass::BadJson, e))?;
        let has_choice = chunk.choice().is_some();
        self.chunk(at_ns, chunk)?;
        if !has_choice {
            let message = "the answer has no `choices`";
            return Err(failure(ErrorClass::BadJson, message));
        }
        Ok(())
    }

    /// Whether the stream has said that it is over, so that its close is no loss.
    pub(super) fn is_finished(&self) -> bool {
        self.finish_ns.is_some() || self.done_seen
    }

    fn chunk(&mut self, at_ns: u64, mut chunk: Chunk<'_>) -> Result<(), SampleError> {
        if let Some(message) = chunk.error_message() {
            return Err(failure(ErrorClass::StreamError, message));
        }
        if let Some(usage) = chunk.usage {
            self.prompt_tokens = usage.prompt_tokens.or(self.prompt_tokens);
            self.usage_tokens = usage.completion_tokens.or(self.usage_tokens);
        }
        self.metrics = chunk.metrics().or(self.metrics.take());
        self.input_ids = chunk.prompt_token_ids.take().or(self.input_ids.take());
        self.output_ids = chunk.token_ids.take().or(self.output_ids.take());
        let Some(choice) = chunk.choice() else {
            return Ok(());
        };
        let words = choice.words();
        if words.is_content() {
            let usage = chunk.usage.and_then(|u| u.completion_tokens);
            self.content(at_ns, words, usage);
        }
        if let Some(reason) = &choice.finish_reason {
            self.finish_ns.get_or_insert(at_ns);
            self.finish = Some(finish_reason(&reason.0)?);
        }
        Ok(())
    }

    fn content(&mut self, at_ns: u64, words: Words<'_>, usage: Option<u32>) {
        if self.content_ns.is_empty() {
            self.first_usage = usage;
            self.first_words = [words.reasoning, words.text].concat();
        }
        self.content_ns.push(at_ns);
        self.text.push_str(words.text);
        self.reasoning.push_str(words.reasoning);
    }

    /// Why the request failed, if it did: the verdict of [`Answer::settle`] without its work, so that
    /// it can be asked where requests are made. `end` is the client's verdict.
    pub fn failure(&self, end: &Result<(), SampleError>) -> Option<SampleError> {
        match end {
            Ok(()) => {
                let local = self.counted && !self.content_ns.is_empty();
                self.judge(local.then_some(1)).err()
            }
            Err(error) => Some(error.clone()),
        }
    }

    /// Fills in the sample, whose `sent_ns` and `done_ns` the client has set. `end` is the
    /// client's verdict; an answer that arrived is judged here.
    pub fn settle(
        self,
        sample: &mut Sample,
        end: Result<(), SampleError>,
        counter: Option<&TokenCounter>,
    ) {
        self.fill(sample, counter);
        match end.and_then(|()| self.judge(sample.local_tokens)) {
            Ok((n, source)) => {
                sample.output_tokens = Some(n);
                sample.token_source = Some(source);
                self.time(sample, n);
            }
            Err(error) => sample.error = Some(error),
        }
        if self.finish.is_some() || !self.content_ns.is_empty() {
            sample.output_sha256 = Some(sha256_of_text(&self.text));
            sample.text = Some(self.text);
        }
        sample.output_ids = self.output_ids;
    }

    /// What is known of any answer, failed ones too.
    fn fill(&self, sample: &mut Sample, counter: Option<&TokenCounter>) {
        sample.first_event_ns = self.first_event_ns;
        sample.finish_ns = self.finish_ns.filter(|_| self.streamed);
        if self.streamed {
            sample.first_content_ns = self.content_ns.first().copied();
            sample.last_content_ns = self.content_ns.last().copied();
            sample.event_times = sample
                .sent_ns
                .and_then(|sent_ns| event_times::encode(sent_ns, &self.content_ns));
        }
        if let (Some(sent_ns), Some(done_ns)) = (sample.sent_ns, sample.done_ns) {
            let from_ns = if self.wall_from_start {
                sample.start_ns
            } else {
                sent_ns
            };
            sample.wall_ms = Some(ms_between(from_ns, done_ns));
        }
        sample.finish_reason = self.finish;
        sample.done_seen = self.done_seen;
        sample.usage_tokens = self.usage_tokens;
        let metrics = self.metrics.as_ref();
        sample.input_tokens = self.prompt_tokens.or(metrics.map(|m| m.input_tokens));
        sample.engine_wall_ms = metrics.map(engine_wall_ms);
        sample.firm_steps = metrics.and_then(firm_steps);
        if let Some(counter) = counter.filter(|_| !self.content_ns.is_empty()) {
            sample.local_tokens = Some(counter(&self.text) + counter(&self.reasoning));
        }
        let by_tokenizer = || counter.map(|count| count(&self.first_words));
        if self.streamed && !self.content_ns.is_empty() {
            sample.first_event_tokens = self.first_usage.or_else(by_tokenizer);
        }
        sample.input_ids_sha256 = self.input_ids.as_deref().map(sha256_of_ids);
    }

    /// The count of tokens and its source, or why the answer is a failure.
    fn judge(&self, local_tokens: Option<u32>) -> Result<(u32, TokenSource), SampleError> {
        let no_tokens = |message| Err(failure(ErrorClass::NoTokens, message));
        if self.streamed && !self.is_finished() {
            let message = format!(
                "the stream ended after {} events with neither finish_reason nor [DONE]",
                self.events
            );
            return Err(failure(ErrorClass::Truncated, message));
        }
        if self.content_ns.is_empty() && self.finish.is_none() {
            return no_tokens("the answer has neither content nor a finish_reason");
        }
        let metrics = self.metrics.as_ref().map(|m| m.output_tokens);
        let events = u32::try_from(self.content_ns.len()).unwrap_or(u32::MAX);
        let counts = [
            (self.usage_tokens, TokenSource::Usage),
            (metrics, TokenSource::Metrics),
            (local_tokens, TokenSource::Tokenizer),
            (Some(events).filter(|_| self.streamed), TokenSource::Events),
        ];
        let known = counts
            .into_iter()
            .find_map(|(n, source)| Some((n?, source)));
        match known {
            Some((0, TokenSource::Usage)) => no_tokens("`usage.completion_tokens` is 0"),
            Some((0, TokenSource::Metrics)) => no_tokens("`metrics.output_tokens` is 0"),
            Some((0, _)) => no_tokens("the answer has no content and no `usage`"),
            Some(known) => Ok(known),
            None => Err(failure(
                ErrorClass::BadJson,
                "the answer has no `usage`, so its tokens cannot be counted",
            )),
        }
    }

    /// TTFT and TPOT of an answer of `n` tokens: the client's if streamed, else the engine's.
    fn time(&self, sample: &mut Sample, n: u32) {
        if !self.streamed {
            return engine_timing(sample, self.metrics.as_ref());
        }
        let (Some(sent_ns), Some(first_ns), Some(last_ns)) = (
            sample.sent_ns,
            sample.first_content_ns,
            sample.last_content_ns,
        ) else {
            return;
        };
        if self.content_ns.len() == 1 && n > 1 {
            return;
        }
        sample.timing_source = Some(TimingSource::Client);
        sample.ttft_ms = Some(ms_between(sent_ns, first_ns));
        let k = sample.first_event_tokens.unwrap_or(1).max(1);
        if n > k && last_ns > first_ns {
            sample.tpot_ms = Some(ms_between(first_ns, last_ns) / f64::from(n - k));
        }
    }
}

/// TTFT and TPOT by the engine's own clock, where it measured them (0.0 says that it did not).
pub(super) fn engine_timing(sample: &mut Sample, metrics: Option<&RequestMetrics>) {
    let Some(metrics) = metrics else {
        return;
    };
    let measured = |ms: f64| Some(ms).filter(|ms| *ms > 0.0);
    sample.ttft_ms = measured(metrics.ttft_ms);
    sample.tpot_ms = measured(metrics.tpot_ms);
    if sample.ttft_ms.is_some() || sample.tpot_ms.is_some() {
        sample.timing_source = Some(TimingSource::Engine);
    }
}

/// The engine's wall time less the wait in its queue, where it says how long that was: what is left
/// is its work on the request.
pub(super) fn engine_wall_ms(metrics: &RequestMetrics) -> f64 {
    let queue_ms = metrics.extras.get(QUEUE_MS).copied().unwrap_or(0.0);
    (metrics.wall_ms - queue_ms.max(0.0)).max(0.0)
}

/// How many leading greedy steps had no near tie, where an engine says so.
pub(super) fn firm_steps(metrics: &RequestMetrics) -> Option<u32> {
    let steps = *metrics.extras.get(FIRM_STEPS)?;
    (steps >= 0.0 && steps <= f64::from(u32::MAX)).then_some(steps as u32)
}

/// SHA-256 (hex) of an answer's text.
pub(super) fn sha256_of_text(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// SHA-256 (hex) of token ids as little-endian u32.
pub(super) fn sha256_of_ids(ids: &[u32]) -> String {
    let mut hasher = Sha256::new();
    for id in ids {
        hasher.update(id.to_le_bytes());
    }
    hex::encode(hasher.finalize())
}

/// Servers have many words for "the model stopped"; only the ceiling is told apart, and an answer
/// that the server gave up is a failure.
fn finish_reason(word: &str) -> Result<FinishReason, SampleError> {
    match word {
        "length" | "max_tokens" => Ok(FinishReason::Length),
        "abort" | "error" => {
            let message = format!("the server ended the answer with finish_reason {word:?}");
            Err(failure(ErrorClass::StreamError, message))
        }
        _ => Ok(FinishReason::Stop),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod whole_tests;
