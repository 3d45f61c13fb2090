//! Chapter 5: static batching. One forward pass for many prompts, a batch at a time.
//!
//! * **Problem.** Decoding one token reads every weight to use each of them once: memory is the
//!   limit and arithmetic idles. A second request waits, although its token could use the same
//!   weights while they are there.
//! * **Idea.** Take a batch of requests. Their prompts run in one pass, then all of them decode in one
//!   pass a step, and each weight that is read serves every row. The rows lie one behind the other
//!   without padding, each with keys and values of its own, so unequal lengths cost nothing. A row
//!   ends by its own stop and is computed no more.
//! * **Cost.** Nobody joins a batch that has begun: who comes late waits until its longest answer
//!   ends, and towards that end few rows share the weights. Memory is reserved for each row's
//!   prompt and ceiling at once.
//! * **Measure.** Tokens per second of a batch next to one request alone. `queue_ms` shows what
//!   late-comers pay; `batch_mean` how many rows a pass had.
//! * **Source.** Batching by whole requests, as servers of models have long done it; Yu et al. 2022,
//!   "Orca: A Distributed Serving System for Transformer-Based Generative Models", § 3, say what
//!   early and late requests lose by it.
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `max_batch` | rows of a batch | 8 |
//! | `kv_tokens` | positions of keys and values in all | a context for each row, within 1 GiB |
//!
//! # Measured
//!
//! On two cores (AMD EPYC, AVX-512), SmolLM2-135M in f32 (its directory is SMOLLM2), commit 2389d9d; an excerpt.
//! Eight users at once, prompts and answers of unequal length.
//!
//! ```text
//! controller run --chapter 4,5,9 --mode online --repeat 3 --concurrency 8 --n-runs 24 --input-len uniform:16,64 --output-len uniform:8,72 --model SMOLLM2 --dtype f32 --threads 2 --ignore-eos
//! controller compare ch04 ch05 ch09 --vs previous
//!
//!   compare ch04 (base) → ch05, online, on vm, margin ±5%
//!   SMOLLM2, made prompts of uniform:16,64 tokens, answers of uniform:8,72, 24 requests after 3 of warm-up, 8 at a time, greedy ignore_eos, cold cache (workload 51c765cfdd9e)
//!   runs 3+3, order ABBAAB, 1 session (01M8N7YDDQPDZQDZW9XC5GEK51), 2026-11-30; excluded 0
//!
//!   metric      unit              ch04            ch05  ratio  95% CI          verdict
//!   Tok/s *     tok/s      44.7 ± 3.9%    144.9 ± 4.3%  3.241  [2.913, 3.604]  FASTER by 224.1% (at least 191.3%)
//!   Wall p50 *  ms      6440.83 ± 7.2%  2054.05 ± 2.8%  0.319  [0.270, 0.377]  FASTER by 68.1% (at least 62.3%)
//!   TTFT p50 *  ms      5655.96 ± 6.9%  1046.61 ± 3.6%  0.185  [0.155, 0.221]  FASTER by 81.5% (at least 77.9%)
//!   TTFT        ms      5727.97 ± 6.9%  1069.82 ± 2.2%  0.187  [0.160, 0.217]  exploratory
//!   TPOT        ms        16.98 ± 4.8%    24.01 ± 3.1%  1.414  [1.200, 1.665]  exploratory
//!
//!   overall (3 primary *, Holm): FASTER on 3, slower on none
//!   outputs identical 72/72
//! ```

use std::collections::VecDeque;

use contracts::{
    generate::{GenerateResult, SamplingParams},
    run::ModelFacts,
};

use super::{
    Engine, RequestId, Setup, StepEvent,
    batch::{KV_TOKENS, Model, Row, STEP_TOKENS, run_all, run_one},
    options::Options,
    sequence::Sequence,
};
use crate::{
    error::EngineError,
    text::{Input, Text},
};

/// Option: rows of a batch.
const MAX_BATCH: &str = "max_batch";

/// Rows of a batch by default: as many as a pass over weights that come from memory takes along
/// nearly for nothing.
const ROWS: usize = 8;

/// Loads the model.
pub(super) fn build(setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    let options = Options::among(setup.options, &[MAX_BATCH, KV_TOKENS])?;
    let max_batch = options.number(MAX_BATCH, 1)?.unwrap_or(ROWS);
    let kv_tokens = options.number(KV_TOKENS, 1)?;
    Ok(Box::new(StaticBatching {
        model: Model::load(&setup.model, max_batch, kv_tokens)?,
        max_batch,
        queue: VecDeque::new(),
        fresh: VecDeque::new(),
        decoding: Vec::new(),
    }))
}

// State.

struct StaticBatching {
    model: Model,
    max_batch: usize,
    /// In order of arrival.
    queue: VecDeque<Sequence>,
    /// Of the batch under way: whose prompt has not been run.
    fresh: VecDeque<Row>,
    /// Of the batch under way: who decodes.
    decoding: Vec<Row>,
}

impl Engine for StaticBatching {
    fn facts(&self) -> &ModelFacts {
        &self.model.facts
    }

    fn text(&self) -> &Text {
        &self.model.text
    }

    fn generate(
        &mut self,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<GenerateResult, EngineError> {
        run_one(self, input, params)
    }

    fn generate_batch(
        &mut self,
        requests: &[(Input, SamplingParams)],
    ) -> Vec<Result<GenerateResult, EngineError>> {
        run_all(self, requests)
    }

    // Submit.

    fn submit(
        &mut self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<(), EngineError> {
        let sequence = self.model.begin(id, input, params)?;
        self.queue.push_back(sequence);
        Ok(())
    }

    // Step: some prompts of the batch, or one token for each of its rows.

    fn step(&mut self) -> Vec<StepEvent> {
        if self.fresh.is_empty() && self.decoding.is_empty() {
            self.board();
        }
        let mut events = Vec::new();
        if self.fresh.is_empty() {
            let rows = std::mem::take(&mut self.decoding);
            self.decoding = self.model.advance(rows, &mut events);
        } else {
            let rows = self.next_prompts();
            let going_on = self.model.advance(rows, &mut events);
            self.decoding.extend(going_on);
        }
        events
    }

    // Cancel: waiting or in the batch, whose other rows go on.

    fn cancel(&mut self, id: RequestId) {
        self.queue.retain(|sequence| sequence.id != id);
        let cache = &mut self.model.cache;
        let mut keep = |row: &Row| {
            let wanted = row.sequence.id != id;
            if !wanted {
                cache.release(row.slot);
            }
            wanted
        };
        self.fresh.retain(&mut keep);
        self.decoding.retain(keep);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.fresh.is_empty() && self.decoding.is_empty()
    }
}

impl StaticBatching {
    /// Makes the next batch of those that wait: in their order, as many as there are rows and memory.
    fn board(&mut self) {
        while self.fresh.len() < self.max_batch {
            let Some(next) = self.queue.front() else {
                return;
            };
            let Some(slot) = self.model.cache.reserve(next.positions_max()) else {
                return;
            };
            let boarded = self.queue.pop_front();
            self.fresh
                .extend(boarded.map(|sequence| Row { sequence, slot }));
        }
    }

    /// As many prompts as a step may hold, one at least.
    fn next_prompts(&mut self) -> Vec<Row> {
        let mut tokens = 0;
        let fits = |row: &&Row| {
            tokens += row.sequence.input_ids.len();
            tokens <= STEP_TOKENS
        };
        let count = self.fresh.iter().take_while(fits).count().max(1);
        self.fresh.drain(..count.min(self.fresh.len())).collect()
    }
}
