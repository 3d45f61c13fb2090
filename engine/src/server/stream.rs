//! An answer as server-sent events: role, words as they come, finish, usage if asked, `[DONE]`.
//!
//! An engine that gives no tokens on the way (ch01) has its whole text in one event. Each event with
//! text carries the log probabilities of the tokens that led to it, if they were asked for; those of
//! tokens after the last text come with the finish reason. An error on the way is an event of its
//! own, after which the stream ends without `[DONE]`.

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use contracts::{
    generate::{GenerateResult, TokenLogprobs},
    openai::{Completion, ErrorBody},
};
use futures_util::stream;
use serde::Serialize;
use serde_json::Value;

use super::{answer::Head, error::ApiError, logprobs::Logprobs, metrics::Watch};
use crate::worker::{Answer, Event};

const DONE: &[u8] = b"data: [DONE]\n\n";

struct Streamer {
    head: Head,
    include_usage: bool,
    /// None once the answer has ended.
    answer: Option<Answer>,
    watch: Watch,
    /// Bytes of the text sent so far.
    sent_bytes: usize,
    logprobs: Logprobs,
    /// Of tokens whose text has not come yet.
    pending: Vec<TokenLogprobs>,
    /// How many tokens' log probabilities the engine has given so far.
    received: usize,
    ready: VecDeque<Bytes>,
}

/// Streams an accepted answer.
pub fn respond(
    head: Head,
    include_usage: bool,
    answer: Answer,
    logprobs: Logprobs,
    watch: Watch,
) -> Response {
    let ready = head.role_event().iter().map(frame).collect();
    let streamer = Streamer {
        head,
        include_usage,
        answer: Some(answer),
        watch,
        sent_bytes: 0,
        logprobs,
        pending: Vec::new(),
        received: 0,
        ready,
    };
    let body = stream::unfold(streamer, |mut streamer| async {
        let bytes = streamer.next().await?;
        Some((Ok::<_, Infallible>(bytes), streamer))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(body)).into_response()
}

impl Streamer {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            match self.answer.as_mut()?.next().await {
                Event::Accepted => {}
                Event::Token { text, logprobs } => {
                    self.received += usize::from(logprobs.is_some());
                    self.pending.extend(logprobs);
                    if !text.is_empty() {
                        self.push_text(text);
                    }
                }
                Event::Ended(Ok(result)) => {
                    self.answer = None;
                    self.push_end(*result);
                }
                Event::Ended(Err(error)) => {
                    self.answer = None;
                    let error = ApiError::from(error);
                    self.watch.failed(error.status);
                    self.ready
                        .push_back(frame(&ErrorBody { error: error.error }));
                }
            }
        }
    }

    fn push_text(&mut self, text: String) {
        self.sent_bytes += text.len();
        let logprobs = self.take_logprobs();
        let event = self.head.text_event(text, logprobs);
        self.ready.push_back(frame(&event));
    }

    fn take_logprobs(&mut self) -> Option<Value> {
        self.logprobs.write(&std::mem::take(&mut self.pending))
    }

    fn push_end(&mut self, mut result: GenerateResult) {
        let all = result.logprobs.take().unwrap_or_default();
        self.pending.extend(all.into_iter().skip(self.received));
        // What the engine did not hand out on the way: all of it, or the end of a broken character.
        if let Some(rest) = result
            .text
            .get(self.sent_bytes..)
            .filter(|rest| !rest.is_empty())
        {
            self.push_text(rest.to_owned());
        }
        self.watch.finished(&result);
        let logprobs = self.take_logprobs();
        let mut last: Completion = self.head.finish_event(result.finish_reason, logprobs);
        if self.include_usage {
            self.ready.push_back(frame(&last));
            last = self.head.usage_event(&result);
        }
        let last = self.head.with_measurements(last, result);
        self.ready.push_back(frame(&last));
        self.ready.push_back(Bytes::from_static(DONE));
    }
}

/// One event. Our documents hold no map with keys that JSON cannot have, so writing them succeeds;
/// were that ever wrong, the client would see a stream that breaks off.
fn frame(document: &impl Serialize) -> Bytes {
    let mut bytes = b"data: ".to_vec();
    if serde_json::to_writer(&mut bytes, document).is_err() {
        return Bytes::new();
    }
    bytes.extend_from_slice(b"\n\n");
    bytes.into()
}
