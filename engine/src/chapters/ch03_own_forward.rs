//! Chapter 3: own forward. Our own decoder in place of the library's model.
//!
//! * **Problem.** For each token the library's model reads the weights at a quarter of the memory's
//!   speed: a matrix-vector product runs on one core, and over pages so small that the processor
//!   cannot fetch ahead. Nor can it do what later chapters need: batches of unequal prompts, a step
//!   back, the logits of every position.
//! * **Idea.** Write the forward pass ourselves ([`crate::decoder`]). On a CPU each linear layer is a
//!   kernel of our own that streams its weights once, from huge pages, on all cores; what reads the
//!   same input is one matrix (q, k and v; gate and up). What depends on the sequence, attention over
//!   its keys and values, is behind one seam, the cache. Here that is the plainest one: tensors that
//!   grow by a token each step.
//! * **Cost.** Weights are copied into our own memory at the start, and a forward pass for each
//!   family of models must now be right: transformers' logits say whether it is. The cache copies all
//!   its keys and values for each token, twice; with a long prompt that is what a token waits for.
//! * **Measure.** TPOT next to chapter 2's with a short prompt, where a token is bound by reading the
//!   weights; and with a long one, where the cache shows.
//! * **Source.** Touvron et al. 2023, "LLaMA"; the rotary embedding of Su et al. 2021, "RoFormer";
//!   grouped heads of Ainslie et al. 2023, "GQA". That a token is bound by memory: Williams et al.
//!   2009, "Roofline".
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
//!   compare ch02 (base) → ch03, offline, on vm, margin ±5%
//!   SMOLLM2, 1 prompt, 4 requests after 1 of warm-up, 1 at a time, at most 40 tokens, greedy ignore_eos (workload 574f1697023a)
//!   runs 3+3, order ABBAAB, 1 session (01M8N7QE0HMKQTG92G898DP09E), 2026-11-30; excluded 0
//!
//!   metric      unit                      ch02                    ch03  ratio  95% CI          verdict
//!   Wall p50 *  ms      n/a (needs ≥ 6, has 4)  n/a (needs ≥ 6, has 4)      —  —               no verdict (n/a (needs ≥ 6, has 4))
//!   Tok/s       tok/s              11.1 ± 1.8%             45.8 ± 8.3%  4.125  [3.473, 4.899]  exploratory
//!   TTFT        ms               349.31 ± 7.1%            74.68 ± 7.8%  0.214  [0.149, 0.307]  exploratory
//!   TPOT        ms                83.39 ± 1.5%            20.46 ± 9.9%  0.245  [0.196, 0.307]  exploratory
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
    decoder::{self, Decoder, LoadedDecoder, Span, Wanted, cache::growing::Growing},
    error::EngineError,
    text::{Input, Text},
};

/// Loads the model.
pub(super) fn build(setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    no_options(&setup.options)?;
    let LoadedDecoder {
        text,
        facts,
        decoder,
    } = decoder::load(&setup.model)?;
    let cache = Growing::new(&decoder);
    Ok(Box::new(OwnForward {
        text,
        facts,
        decoder,
        cache,
        queue: VecDeque::new(),
    }))
}

// State.

struct OwnForward {
    text: Text,
    facts: ModelFacts,
    decoder: Decoder,
    cache: Growing,
    /// In order of arrival; the first is the one whose tokens are in the cache.
    queue: VecDeque<Sequence>,
}

impl Engine for OwnForward {
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

impl OwnForward {
    fn begin(
        &self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<Sequence, EngineError> {
        let limits = Limits {
            vocab: self.decoder.vocab(),
            context: self.decoder.context(),
        };
        Sequence::begin(id, &self.text, limits, input, params)
    }

    /// One forward pass, over the whole prompt or the latest token alone, and the token it leads to.
    fn advance(&mut self, sequence: &mut Sequence) -> Result<Piece, EngineError> {
        if sequence.output_ids.is_empty() {
            sequence.set_off();
        }
        let (ids, start) = sequence.next_ids();
        let span = Span {
            slot: 0,
            ids,
            start, // 0 begins anew
            wanted: Wanted::Last,
        };
        let logits = self.decoder.forward(&mut self.cache, &[span])?; // [vocab]
        sequence.take(&self.text, &logits)
    }
}
