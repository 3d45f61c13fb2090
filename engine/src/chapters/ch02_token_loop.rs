//! Chapter 2: token loop. Our own prefill and decode over the same model, one token a step.
//!
//! * **Problem.** Chapter 1 shows one number, the wall time. A user who waits sees two: how long
//!   until the first word, and how fast the words come after it. They have different causes.
//! * **Idea.** Take the loop out of the opaque call. The prompt is one forward pass over all its
//!   tokens (prefill), each further token one pass over itself alone (decode), and between two
//!   passes the engine is free: it can take the time, hand out text, drop a request.
//! * **Cost.** The same passes as before; what is new is a look at the clock and a decode of one
//!   token in each step. The speed must stay within a few per cent of chapter 1.
//! * **Measure.** TTFT, which grows with the prompt; TPOT, which does not; tokens per second next
//!   to chapter 1's.
//! * **Source.** The split into prefill and decode is common to all servers of language models;
//!   see Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving", § 2.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use contracts::{
    generate::{FinishReason, GenerateResult, RequestMetrics, SamplingParams},
    run::ModelFacts,
};

use super::{Engine, RequestId, Setup, StepEvent, admit, metrics, no_options, with_queue};
use crate::{
    error::EngineError,
    model::{self, Loaded, forward::Forward},
    sampling::Sampler,
    text::{Detokenizer, Input, Text},
};

/// Loads the model.
pub(super) fn build(setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    no_options(&setup.options)?;
    let Loaded {
        text,
        facts,
        forward,
    } = model::load(&setup.model)?;
    Ok(Box::new(TokenLoop {
        text,
        facts,
        forward,
        queue: VecDeque::new(),
    }))
}

// State.

struct TokenLoop {
    text: Text,
    facts: ModelFacts,
    forward: Forward,
    /// In order of arrival; the first is the one whose tokens are in the model's cache.
    queue: VecDeque<Sequence>,
}

/// One request, waiting or under way.
struct Sequence {
    id: RequestId,
    started: Instant,
    queued: Instant,
    /// How long those before it took; known when its prefill begins.
    queue: Duration,
    input_ids: Vec<u32>,
    params: SamplingParams,
    sampler: Sampler,
    output_ids: Vec<u32>,
    detokenizer: Detokenizer,
    answer: String,
    /// When the first and the latest token were chosen.
    stamps: Option<(Instant, Instant)>,
}

impl Engine for TokenLoop {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn text(&self) -> &Text {
        &self.text
    }

    fn generate(
        &mut self,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<GenerateResult, EngineError> {
        let mut sequence = self.begin(0, input, params)?;
        loop {
            if let Some(finish_reason) = self.advance(&mut sequence)?.1 {
                return Ok(finish(sequence, finish_reason));
            }
        }
    }

    // Submit.

    fn submit(
        &mut self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<(), EngineError> {
        let sequence = self.begin(id, input, params)?;
        self.queue.push_back(sequence);
        Ok(())
    }

    // Step: one token of the first in the queue.

    fn step(&mut self) -> Vec<StepEvent> {
        let Some(mut sequence) = self.queue.pop_front() else {
            return Vec::new();
        };
        let id = sequence.id;
        match self.advance(&mut sequence) {
            Ok((text, None)) => {
                self.queue.push_front(sequence);
                vec![StepEvent::Token { id, text }]
            }
            Ok((text, Some(finish_reason))) => {
                let result = Ok(finish(sequence, finish_reason));
                vec![
                    StepEvent::Token { id, text },
                    StepEvent::Finished { id, result },
                ]
            }
            Err(error) => vec![StepEvent::Finished {
                id,
                result: Err(error),
            }],
        }
    }

    // Cancel: waiting or under way; the next in the queue starts from a clean cache.

    fn cancel(&mut self, id: RequestId) {
        self.queue.retain(|sequence| sequence.id != id);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

impl TokenLoop {
    /// Checks and tokenises; the clock starts here.
    fn begin(
        &self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<Sequence, EngineError> {
        let started = Instant::now();
        let input_ids = admit(&self.text, &self.forward, input, params)?;
        Ok(Sequence {
            id,
            started,
            queued: Instant::now(),
            queue: Duration::ZERO,
            input_ids,
            params: params.clone(),
            sampler: Sampler::new(params),
            output_ids: Vec::new(),
            detokenizer: self.text.detokenizer(),
            answer: String::new(),
            stamps: None,
        })
    }

    /// One forward pass and its token: returns the text that is complete with it, and why the
    /// answer ended, if it did.
    fn advance(
        &mut self,
        sequence: &mut Sequence,
    ) -> Result<(String, Option<FinishReason>), EngineError> {
        // Forward: the whole prompt, or the latest token alone.
        let logits = match sequence.output_ids.last() {
            None => {
                sequence.queue = sequence.queued.elapsed();
                self.forward.reset();
                self.forward.forward(&sequence.input_ids, 0)? // [vocab]
            }
            Some(token) => {
                let position = sequence.input_ids.len() + sequence.output_ids.len() - 1;
                self.forward.forward(&[*token], position)? // [vocab]
            }
        };
        // Sample.
        let token = sequence.sampler.sample(&logits)?;
        let now = Instant::now();
        sequence.output_ids.push(token);
        sequence.stamps = Some((sequence.stamps.map_or(now, |(first, _)| first), now));
        // Finish: the stop token is counted and is not text.
        let finish_reason = if self.text.is_stop(token) && !sequence.params.ignore_eos {
            Some(FinishReason::Stop)
        } else if sequence.output_ids.len() >= sequence.params.max_tokens as usize {
            Some(FinishReason::Length)
        } else {
            None
        };
        let mut text = String::new();
        if finish_reason != Some(FinishReason::Stop) {
            text.push_str(&sequence.detokenizer.push(token));
        }
        if finish_reason.is_some() {
            text.push_str(
                &std::mem::replace(&mut sequence.detokenizer, self.text.detokenizer()).finish(),
            );
        }
        sequence.answer.push_str(&text);
        Ok((text, finish_reason))
    }
}

/// The result of an answer that is complete.
fn finish(sequence: Sequence, finish_reason: FinishReason) -> GenerateResult {
    let Sequence {
        started,
        queue,
        input_ids,
        output_ids,
        answer,
        sampler,
        stamps,
        ..
    } = sequence;
    let metrics = metrics(started, input_ids.len(), output_ids.len());
    let (ttft_ms, tpot_ms) = stamps.map_or((0.0, 0.0), |(first, last)| {
        let ttft_ms = (first - started).as_secs_f64() * 1e3;
        let steps = output_ids.len().saturating_sub(1);
        let tpot_ms = if steps > 0 {
            (last - first).as_secs_f64() * 1e3 / steps as f64
        } else {
            0.0
        };
        (ttft_ms, tpot_ms)
    });
    let metrics = RequestMetrics {
        ttft_ms,
        tpot_ms,
        extras: with_queue(sampler.extras(), queue),
        ..metrics
    };
    GenerateResult {
        text: answer,
        input_ids,
        output_ids,
        finish_reason,
        metrics,
    }
}
