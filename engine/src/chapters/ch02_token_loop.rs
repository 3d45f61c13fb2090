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
//!
//! # Measured
//!
//! On two cores (AMD EPYC, AVX-512), SmolLM2-135M in f32 (its directory is SMOLLM2), commit 2389d9d; an excerpt.
//! Four requests a run are too few for a verdict on the median; the means of three runs a side stand.
//!
//! ```text
//! controller run --chapter 1,2,3,4 --mode offline --repeat 3 --n-runs 4 --warmup 1 --model SMOLLM2 --dtype f32 --threads 2 --ignore-eos
//! controller compare ch01 ch02 ch03 ch04 --vs previous
//!
//!   compare ch01 (base) → ch02, offline, on vm, margin ±5%
//!   SMOLLM2, 1 prompt, 4 requests after 1 of warm-up, 1 at a time, at most 40 tokens, greedy ignore_eos (workload 574f1697023a)
//!   runs 3+3, order ABBAAB, 1 session (01M8N7QE0HMKQTG92G898DP09E), 2026-11-30; excluded 0
//!   differs: timing source: none | engine
//!
//!   metric      unit                      ch01                    ch02  ratio  95% CI          verdict
//!   Wall p50 *  ms      n/a (needs ≥ 6, has 4)  n/a (needs ≥ 6, has 4)      —  —               no verdict (n/a (needs ≥ 6, has 4))
//!   Tok/s       tok/s              11.3 ± 4.0%             11.1 ± 1.8%  0.981  [0.898, 1.073]  exploratory
//!   TTFT        ms                not measured           349.31 ± 7.1%      —  —               exploratory
//!   TPOT        ms                not measured            83.39 ± 1.5%      —  —               exploratory
//!
//!   overall (1 primary *, Wall p50): no verdict (n/a (needs ≥ 6, has 4))
//!   outputs identical 12/12
//! ```

use std::collections::VecDeque;

use contracts::{
    generate::{GenerateResult, SamplingParams},
    run::ModelFacts,
};

use super::{
    Engine, Limits, RequestId, Setup, StepEvent, no_options,
    sequence::{Piece, Sequence, report},
};
use crate::{
    error::EngineError,
    model::{self, Loaded, forward::Forward},
    text::{Input, Text},
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
            if let Some(finish_reason) = self.advance(&mut sequence)?.finish_reason {
                return Ok(sequence.finish(finish_reason));
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
        let mut events = Vec::new();
        if let Some(mut sequence) = self.queue.pop_front() {
            let piece = self.advance(&mut sequence);
            if let Some(sequence) = report(sequence, piece, &mut events) {
                self.queue.push_front(sequence);
            }
        }
        events
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
    fn begin(
        &self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<Sequence, EngineError> {
        let limits = Limits {
            vocab: self.forward.vocab(),
            context: self.forward.context(),
        };
        Sequence::begin(id, &self.text, limits, input, params)
    }

    /// One forward pass, over the whole prompt or the latest token alone, and the token it leads to.
    fn advance(&mut self, sequence: &mut Sequence) -> Result<Piece, EngineError> {
        if sequence.output_ids.is_empty() {
            sequence.set_off();
            self.forward.reset();
        }
        let (ids, position) = sequence.next_ids();
        let logits = self.forward.forward(ids, position)?; // [vocab]
        sequence.take(&self.text, &logits)
    }
}
