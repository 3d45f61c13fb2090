//! Chapter 9: continuous batching. Requests join and leave at every step.
//!
//! * **Problem.** A batch that nobody can join makes late-comers wait for its longest answer, and
//!   ends with few rows that share the weights. Under steady load both happen all the time.
//! * **Idea.** Decide at every step anew who is in the pass. Who has ended is gone and its place is
//!   free at once; who waits is admitted in order of arrival; prompts and single tokens run in
//!   the same pass. How many run together follows the load by itself. The decisions are a
//!   scheduler's that knows no model (`scheduler.rs`).
//! * **Cost.** A pass with a long prompt in it takes longer, and all who decode beside it wait for
//!   it once. Memory is reserved for prompt and ceiling together, so a high ceiling keeps others out
//!   even if the answer ends early. The tokens of each request are those it gets alone.
//! * **Measure.** Tokens per second and TTFT over the number of users at once: throughput parts from
//!   latency. `batch_mean` says how many rows a request's passes had, `queue_ms` how long it waited.
//! * **Source.** Yu et al. 2022, "Orca: A Distributed Serving System for Transformer-Based Generative
//!   Models" (OSDI), § 3.1, iteration-level scheduling, and § 3.2, selective batching: all but attention
//!   runs over the tokens of all requests as one. vLLM made it common.
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `max_seqs` | requests under way at once | 32 |
//! | `max_step_tokens` | tokens of a step, prefilled and decoded; one prompt alone may exceed it | 512, or twice `max_seqs` if that is more |
//! | `kv_tokens` | positions of keys and values in all | a context for each of `max_seqs`, within 1 GiB |
//!
//! # Measured
//!
//! On two cores (AMD EPYC, AVX-512), SmolLM2-135M in f32 (its directory is SMOLLM2), commit 2389d9d; an excerpt.
//! Eight users at once, prompts and answers of unequal length: a static batch of the same eight is a strong base for
//! throughput; who waits for it shows in the TTFT.
//!
//! ```text
//! controller run --chapter 4,5,9 --mode online --repeat 3 --concurrency 8 --n-runs 24 --input-len uniform:16,64 --output-len uniform:8,72 --model SMOLLM2 --dtype f32 --threads 2 --ignore-eos
//! controller compare ch04 ch05 ch09 --vs previous
//!
//!   compare ch05 (base) → ch09, online, on vm, margin ±5%
//!   SMOLLM2, made prompts of uniform:16,64 tokens, answers of uniform:8,72, 24 requests after 3 of warm-up, 8 at a time, greedy ignore_eos, cold cache (workload 51c765cfdd9e)
//!   runs 3+3, order ABBAAB, 1 session (01M8N7YDDQPDZQDZW9XC5GEK51), 2026-11-30; excluded 0
//!
//!   metric      unit              ch05            ch09  ratio  95% CI          verdict
//!   Tok/s *     tok/s     144.9 ± 4.3%    172.5 ± 4.4%  1.191  [0.961, 1.475]  NO DIFFERENCE SHOWN (could be −3.9% … +47.5%); ±5% at this noise needs ≈ 27 runs a side
//!   Wall p50 *  ms      2054.05 ± 2.8%  1722.68 ± 7.1%  0.839  [0.657, 1.071]  NO DIFFERENCE SHOWN (could be −34.3% … +7.1%); ±5% at this noise needs ≈ 34 runs a side
//!   TTFT p50 *  ms      1046.61 ± 3.6%   106.74 ± 3.6%  0.102  [0.087, 0.120]  FASTER by 89.8% (at least 88.0%)
//!   TTFT        ms      1069.82 ± 2.2%   128.67 ± 5.1%  0.120  [0.102, 0.141]  exploratory
//!   TPOT        ms        24.01 ± 3.1%    32.83 ± 4.4%  1.367  [1.253, 1.492]  exploratory
//!
//!   overall (3 primary *, Holm): FASTER on 1, undecided on 2, slower on none
//!   outputs identical 72/72
//! ```

use std::collections::HashMap;

use contracts::{
    generate::{GenerateResult, SamplingParams},
    run::ModelFacts,
};

use super::{
    Engine, RequestId, Setup, StepEvent,
    batch::{KV_TOKENS, Model, Row, STEP_TOKENS, run_all, run_one},
    options::Options,
    scheduler::{Bounds, Scheduler},
    sequence::Sequence,
};
use crate::{
    error::EngineError,
    text::{Input, Text},
};

/// Option: requests under way at once.
const MAX_SEQS: &str = "max_seqs";

/// Option: tokens of a step.
const MAX_STEP_TOKENS: &str = "max_step_tokens";

/// Requests under way at once by default: beyond some dozens of rows a pass is bound by arithmetic,
/// and more of them wait for each other without more tokens in all.
const SEQS: usize = 32;

/// Loads the model.
pub(super) fn build(setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    let options = Options::among(setup.options, &[MAX_SEQS, MAX_STEP_TOKENS, KV_TOKENS])?;
    let max_seqs = options.number(MAX_SEQS, 1)?.unwrap_or(SEQS);
    // Room for at least one token of a prompt beside a full company.
    let least = max_seqs.saturating_add(1);
    let max_step_tokens = options
        .number(MAX_STEP_TOKENS, least)?
        .unwrap_or_else(|| STEP_TOKENS.max(max_seqs.saturating_mul(2)));
    let kv_tokens = options.number(KV_TOKENS, 1)?;
    Ok(Box::new(ContinuousBatching {
        model: Model::load(&setup.model, max_seqs, kv_tokens)?,
        scheduler: Scheduler::new(Bounds {
            max_seqs,
            max_step_tokens,
        }),
        waiting: HashMap::new(),
        running: HashMap::new(),
    }))
}

// State.

struct ContinuousBatching {
    model: Model,
    /// Knows the order of all and who runs.
    scheduler: Scheduler,
    waiting: HashMap<RequestId, Sequence>,
    running: HashMap<RequestId, Row>,
}

impl Engine for ContinuousBatching {
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
        self.scheduler
            .submit(id, sequence.input_ids.len(), sequence.positions_max());
        self.waiting.insert(id, sequence);
        Ok(())
    }

    // Step: one token for each that runs, and the prompts of those that are admitted.

    fn step(&mut self) -> Vec<StepEvent> {
        let (cache, waiting, running) =
            (&mut self.model.cache, &mut self.waiting, &mut self.running);
        let plan = self.scheduler.plan(|id, positions| {
            let Some(slot) = cache.reserve(positions) else {
                return false;
            };
            let row = waiting.remove(&id).map(|sequence| Row { sequence, slot });
            running.extend(row.map(|row| (id, row)));
            true
        });
        let planned = plan.decode.iter().chain(&plan.prefill);
        let rows: Vec<Row> = planned.filter_map(|id| running.remove(id)).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        let mut events = Vec::new();
        let going_on = self.model.advance(rows, &mut events);
        self.running
            .extend(going_on.into_iter().map(|row| (row.sequence.id, row)));
        for event in &events {
            if let StepEvent::Finished { id, .. } = event {
                self.scheduler.leave(*id);
            }
        }
        events
    }

    // Cancel: its place in the queue, or its seat and its memory, are free at once.

    fn cancel(&mut self, id: RequestId) {
        self.scheduler.leave(id);
        self.waiting.remove(&id);
        if let Some(row) = self.running.remove(&id) {
            self.model.cache.release(row.slot);
        }
    }

    fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }
}
