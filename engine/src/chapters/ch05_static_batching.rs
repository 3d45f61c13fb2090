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
