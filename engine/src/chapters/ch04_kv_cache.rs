//! Chapter 4: KV cache. Keys and values in place, in memory that is taken once.
//!
//! * **Problem.** Chapter 3 appends to its cache by copying it, and copies it again so that each
//!   query head has keys of its own. For a token after 500 others that is tens of megabytes, moved to
//!   add a few kilobytes; the longer the text, the slower each token.
//! * **Idea.** Take memory for the longest sequence once, and write each token's keys and values
//!   where they belong. Attention reads them from there: query heads that share a key head are
//!   computed together, over one pass of its keys.
//! * **Cost.** Memory is promised for the whole context from the start. Pages that are never written
//!   are never taken on a CPU; on other devices they are. And it is one sequence's.
//! * **Measure.** TPOT with a long prompt over TPOT with a short one: near 1 here. Resident memory
//!   does not grow from request to request.
//! * **Source.** Pope et al. 2022, "Efficiently Scaling Transformer Inference", § 3.3, on keys and
//!   values that stay where they are; Shazeer 2019, "Fast Transformer Decoding", on sharing them.
//!
//! # Measured
//!
//! On two cores (AMD EPYC, AVX-512), SmolLM2-135M in f32 (its directory is SMOLLM2), commit 2389d9d; an excerpt.
//! After a prompt of 512 tokens, where the cache matters; three requests a run are too few for a verdict on the
//! median, the means of three runs a side stand.
//!
//! ```text
//! controller run --chapter 3,4 --mode offline --repeat 3 --n-runs 3 --warmup 1 --input-len 512 --output-len 40 --model SMOLLM2 --dtype f32 --threads 2 --ignore-eos
//! controller compare ch03 ch04
//!
//!   compare ch03 (base) → ch04, offline, on vm, margin ±5%
//!   SMOLLM2, made prompts of 512 tokens, answers of 40, 3 requests after 1 of warm-up, 1 at a time, greedy ignore_eos, cold cache (workload 40defc41ab3d)
//!   runs 3+3, order ABBAAB, 1 session (01M8N7W37MWKXPEQHJP21WDZA3), 2026-11-30; excluded 0
//!
//!   metric      unit                      ch03                    ch04  ratio  95% CI          verdict
//!   Wall p50 *  ms      n/a (needs ≥ 6, has 3)  n/a (needs ≥ 6, has 3)      —  —               no verdict (n/a (needs ≥ 6, has 3))
//!   Tok/s       tok/s              10.2 ± 3.1%             27.0 ± 4.6%  2.649  [2.462, 2.851]  exploratory
//!   TTFT        ms              2001.29 ± 5.2%           707.51 ± 2.4%  0.354  [0.327, 0.382]  exploratory
//!   TPOT        ms                49.31 ± 3.3%            19.82 ± 9.2%  0.402  [0.347, 0.466]  exploratory
//!
//!   overall (1 primary *, Wall p50): no verdict (n/a (needs ≥ 6, has 3))
//!   outputs identical 9/9
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
    decoder::{self, Decoder, LoadedDecoder, Slot, Span, Wanted, cache::in_place::InPlace},
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
    let mut cache = InPlace::new(&decoder, decoder.context())?;
    let slot = cache.reserve(decoder.context());
    let slot = slot.ok_or_else(|| EngineError::Internal("an empty cache is full".to_owned()))?;
    Ok(Box::new(KvInPlace {
        text,
        facts,
        decoder,
        cache,
        slot,
        queue: VecDeque::new(),
    }))
}

// State.

struct KvInPlace {
    text: Text,
    facts: ModelFacts,
    decoder: Decoder,
    cache: InPlace,
    /// All of the cache: one sequence at a time has it.
    slot: Slot,
    /// In order of arrival; the first is the one whose tokens are in the cache.
    queue: VecDeque<Sequence>,
}

impl Engine for KvInPlace {
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

impl KvInPlace {
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
            slot: self.slot,
            ids,
            start, // 0 begins anew
            wanted: Wanted::Last,
        };
        let logits = self.decoder.forward(&mut self.cache, &[span])?; // [vocab]
        sequence.take(&self.text, &logits)
    }
}
