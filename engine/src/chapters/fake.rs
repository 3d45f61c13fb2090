//! `fake`: known tokens on a known clock, for tests of everything around an engine.
//!
//! The answer repeats [`ANSWER`] token by token, whatever the prompt and the sampling say; only stop
//! strings end it, and log probabilities say that each token was certain. One request at a time,
//! first come first served. It needs no model; hidden from users' lists.
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `ttft_ms`, `tpot_ms` | from the request's turn to its first token; each further token | 0 |
//! | `tokens=N` | token N is the end-of-sequence token | the ceiling ends the answer |
//! | `fail_at=N` | request N (from 0, by submission) ends with an internal error | none |
//! | `stall_at=N` | request N falls silent and never ends | none |
//! | `panic_at=N` | request N makes the engine panic | none |
//! | `trouble_after=K` | the three above strike after K tokens | 0 |
//! | `load_ms` | how long loading takes | 0 |
//! | `template=false` | as a model without a chat template | true |

use std::{
    collections::{BTreeMap, VecDeque},
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use contracts::{
    generate::{
        FinishReason, GenerateResult, QUEUE_MS, RequestMetrics, SamplingParams, TokenLogprobs,
    },
    run::ModelFacts,
};

use super::{Engine, Limits, RequestId, Setup, StepEvent, admit, metrics};
use crate::{
    error::EngineError,
    text::{Input, MIN_VOCAB_SIZE, Released, StopMatcher, Text},
};

/// What it says, over and over.
const ANSWER: &str = "The sky is blue because air scatters short waves most. ";

/// Longest sequence, prompt and answer together.
const CONTEXT_TOKENS: u32 = 4096;

/// A step sleeps no longer, so that a request can be cancelled while it waits.
const NAP: Duration = Duration::from_millis(5);

struct Options {
    ttft: Duration,
    tpot: Duration,
    tokens: Option<usize>,
    fail_at: Option<u64>,
    stall_at: Option<u64>,
    panic_at: Option<u64>,
    trouble_after: usize,
    load: Duration,
    template: bool,
}

struct Request {
    id: RequestId,
    /// Number by submission, from 0.
    number: u64,
    input_ids: Vec<u32>,
    params: SamplingParams,
    submitted: Instant,
    /// When its turn came.
    started: Option<Instant>,
    /// When the first and the latest token came.
    tokens: Option<(Instant, Instant)>,
    output_ids: Vec<u32>,
    stop: StopMatcher,
    answer: String,
}

struct Fake {
    options: Options,
    text: Text,
    facts: ModelFacts,
    answer_ids: Vec<u32>,
    stop_id: u32,
    submitted: u64,
    queue: VecDeque<Request>,
}

/// Reads the options and "loads".
///
/// # Errors
/// An option that does not exist or cannot be read.
pub(super) fn build(setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    let options = Options::read(setup.options)?;
    thread::sleep(options.load);
    let text = Text::made(MIN_VOCAB_SIZE)?;
    let stop_id = text.stop_ids().first().copied().unwrap_or_default();
    let answer_ids = text.encode(&Input::Text(ANSWER.to_owned()))?;
    let facts = ModelFacts {
        name: setup.model.name,
        family: "fake".to_owned(),
        sha256: String::new(),
        tokenizer_sha256: text.sha256().to_owned(),
        parameters: 0,
        weights: "none".to_owned(),
        context_tokens: CONTEXT_TOKENS,
        threads: 1,
        chat_template: options.template,
    };
    Ok(Box::new(Fake {
        options,
        text,
        facts,
        answer_ids,
        stop_id,
        submitted: 0,
        queue: VecDeque::new(),
    }))
}

impl Options {
    fn read(mut given: BTreeMap<String, String>) -> Result<Self, EngineError> {
        let options = Self {
            ttft: take_ms(&mut given, "ttft_ms")?,
            tpot: take_ms(&mut given, "tpot_ms")?,
            tokens: take(&mut given, "tokens")?,
            fail_at: take(&mut given, "fail_at")?,
            stall_at: take(&mut given, "stall_at")?,
            panic_at: take(&mut given, "panic_at")?,
            trouble_after: take(&mut given, "trouble_after")?.unwrap_or(0),
            load: take_ms(&mut given, "load_ms")?,
            template: take(&mut given, "template")?.unwrap_or(true),
        };
        match given.keys().next() {
            Some(name) => Err(EngineError::bad_input(
                "option",
                format!("{name:?}: this chapter does not know it"),
            )),
            None => Ok(options),
        }
    }
}

fn take<T: FromStr>(
    given: &mut BTreeMap<String, String>,
    name: &str,
) -> Result<Option<T>, EngineError> {
    let Some(value) = given.remove(name) else {
        return Ok(None);
    };
    let bad = || EngineError::bad_input("option", format!("{name} cannot be {value:?}"));
    value.parse().map(Some).map_err(|_| bad())
}

/// A time in ms, 0 if not given.
fn take_ms(given: &mut BTreeMap<String, String>, name: &str) -> Result<Duration, EngineError> {
    let ms: f64 = take(given, name)?.unwrap_or(0.0);
    let bad = |_| EngineError::bad_input("option", format!("{name} cannot be {ms}"));
    Duration::try_from_secs_f64(ms / 1e3).map_err(bad)
}

impl Engine for Fake {
    fn generate(
        &mut self,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<GenerateResult, EngineError> {
        self.submit(RequestId::MAX, input, params)?;
        loop {
            for event in self.step() {
                if let StepEvent::Finished {
                    id: RequestId::MAX,
                    result,
                } = event
                {
                    return result;
                }
            }
        }
    }

    fn submit(
        &mut self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<(), EngineError> {
        let submitted = Instant::now();
        let limits = Limits {
            vocab: usize::MAX, // its answer depends on no id
            context: CONTEXT_TOKENS as usize,
        };
        let input_ids = admit(&self.text, limits, input, params)?;
        let number = self.submitted;
        self.submitted += 1;
        self.queue.push_back(Request {
            id,
            number,
            input_ids,
            params: params.clone(),
            submitted,
            started: None,
            tokens: None,
            output_ids: Vec::new(),
            stop: StopMatcher::new(&params.stop),
            answer: String::new(),
        });
        Ok(())
    }

    fn step(&mut self) -> Vec<StepEvent> {
        let Some(request) = self.queue.front_mut() else {
            return Vec::new();
        };
        let started = *request.started.get_or_insert_with(Instant::now);
        let made = request.output_ids.len();
        let due = started
            + self.options.ttft
            + self.options.tpot * u32::try_from(made).unwrap_or(u32::MAX);
        let wait = due.saturating_duration_since(Instant::now());
        thread::sleep(wait.min(NAP));
        if wait > NAP {
            return Vec::new();
        }
        if made >= self.options.trouble_after {
            let strikes = |at: Option<u64>| at == Some(request.number);
            if strikes(self.options.stall_at) {
                thread::sleep(NAP);
                return Vec::new();
            }
            assert!(
                !strikes(self.options.panic_at),
                "the fake engine was asked to panic"
            );
            if strikes(self.options.fail_at) {
                let id = request.id;
                self.queue.pop_front();
                let error = EngineError::Internal("the fake engine was asked to fail".to_owned());
                return vec![StepEvent::Finished {
                    id,
                    result: Err(error),
                }];
            }
        }
        self.next_token()
    }

    fn cancel(&mut self, id: RequestId) {
        self.queue.retain(|request| request.id != id);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn text(&self) -> &Text {
        &self.text
    }
}

impl Fake {
    /// Makes the front request's next token, and ends the request if it is the last one.
    fn next_token(&mut self) -> Vec<StepEvent> {
        let Some(request) = self.queue.front_mut() else {
            return Vec::new();
        };
        let id = request.id;
        let now = Instant::now();
        request.tokens = Some((request.tokens.map_or(now, |(first, _)| first), now));
        let made = request.output_ids.len();
        let is_stop =
            self.options.tokens.is_some_and(|last| made + 1 >= last) && !request.params.ignore_eos;
        let is_last = is_stop || made + 1 >= request.params.max_tokens as usize;
        let next = self.answer_ids.get(made % self.answer_ids.len().max(1));
        let token = match is_stop {
            true => self.stop_id,
            false => next.copied().unwrap_or(0),
        };
        request.output_ids.push(token);
        let Released { mut text, stopped } = request.stop.push(&self.text.decode(&[token]));
        if is_last && !stopped {
            text.push_str(&request.stop.finish());
        }
        request.answer.push_str(&text);
        let logprobs = logprobs(token, &request.params);
        let mut events = vec![StepEvent::Token { id, text, logprobs }];
        if is_last || stopped {
            let reason = match is_stop || stopped {
                true => FinishReason::Stop,
                false => FinishReason::Length,
            };
            if let Some(request) = self.queue.pop_front() {
                events.push(StepEvent::Finished {
                    id,
                    result: Ok(finish(request, reason)),
                });
            }
        }
        events
    }
}

/// A token that was certain.
fn logprobs(id: u32, params: &SamplingParams) -> Option<TokenLogprobs> {
    params.logprobs.map(|n| TokenLogprobs {
        id,
        logprob: 0.0,
        top: vec![(id, 0.0); usize::from(n > 0)],
    })
}

fn finish(request: Request, finish_reason: FinishReason) -> GenerateResult {
    let logprobs = |id: &u32| logprobs(*id, &request.params);
    let logprobs = request.output_ids.iter().map(logprobs).collect();
    let made = request.output_ids.len();
    let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
    let metrics = metrics(request.submitted, request.input_ids.len(), made);
    let (ttft_ms, tpot_ms) = request.tokens.map_or((0.0, 0.0), |(first, last)| {
        let steps = made.saturating_sub(1).max(1);
        (ms(request.submitted, first), ms(first, last) / steps as f64)
    });
    let queue_ms = request.started.map_or(0.0, |at| ms(request.submitted, at));
    let metrics = RequestMetrics {
        ttft_ms,
        tpot_ms,
        extras: [(QUEUE_MS.to_owned(), queue_ms)].into(),
        ..metrics
    };
    GenerateResult {
        text: request.answer,
        input_ids: request.input_ids,
        output_ids: request.output_ids,
        finish_reason,
        metrics,
        logprobs,
    }
}
