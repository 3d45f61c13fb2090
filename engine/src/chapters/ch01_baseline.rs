//! Chapter 1: baseline. candle's model as it comes, behind one opaque call.
//!
//! * **Problem.** Before an engine can get faster there must be a first one: what does a library
//!   give that is used as in its own examples?
//! * **Idea.** One call takes a prompt and returns when the whole answer is there: prompt in, then
//!   one forward pass for each token, each over candle's own model with candle's own cache.
//! * **Cost.** Nothing is seen before the end: no time to first token, no streaming, no way to stop
//!   an answer once it has begun, and a second request waits for the first.
//! * **Measure.** Wall time and tokens per second of one request at a time. All later chapters are
//!   judged against these.
//! * **Source.** candle-transformers' `models::{llama, qwen2, qwen3, quantized_llama}`.

use std::{collections::VecDeque, time::Instant};

use contracts::{
    generate::{FinishReason, GenerateResult, RequestMetrics, SamplingParams},
    run::ModelFacts,
};

use super::{Engine, Limits, RequestId, Setup, StepEvent, admit, extras, metrics, no_options};
use crate::{
    error::EngineError,
    model::{self, Loaded, forward::Forward},
    sampling::Sampler,
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
    Ok(Box::new(Baseline {
        text,
        facts,
        forward,
        queue: VecDeque::new(),
    }))
}

// State.

struct Baseline {
    text: Text,
    facts: ModelFacts,
    forward: Forward,
    /// In order of arrival.
    queue: VecDeque<Sequence>,
}

/// One request that waits.
struct Sequence {
    id: RequestId,
    started: Instant,
    input_ids: Vec<u32>,
    params: SamplingParams,
}

impl Engine for Baseline {
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
        let sequence = self.begin(0, input, params)?;
        self.answer(sequence)
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

    // Step: the whole answer of the first in the queue.

    fn step(&mut self) -> Vec<StepEvent> {
        let Some(sequence) = self.queue.pop_front() else {
            return Vec::new();
        };
        let id = sequence.id;
        vec![StepEvent::Finished {
            id,
            result: self.answer(sequence),
        }]
    }

    // Cancel: only what has not begun; the call itself cannot be interrupted.

    fn cancel(&mut self, id: RequestId) {
        self.queue.retain(|sequence| sequence.id != id);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Baseline {
    /// Checks and tokenises; the clock starts here.
    fn begin(
        &self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<Sequence, EngineError> {
        let started = Instant::now();
        let limits = Limits {
            vocab: self.forward.vocab(),
            context: self.forward.context(),
        };
        let input_ids = admit(&self.text, limits, input, params)?;
        Ok(Sequence {
            id,
            started,
            input_ids,
            params: params.clone(),
        })
    }

    /// The opaque call: from prompt to answer, without a look inside.
    fn answer(&mut self, sequence: Sequence) -> Result<GenerateResult, EngineError> {
        let Sequence {
            started,
            input_ids,
            params,
            ..
        } = sequence;
        let queue_ms = started.elapsed().as_secs_f64() * 1e3;
        let mut sampler = Sampler::new(&params);
        let mut output_ids = Vec::new();
        self.forward.reset();
        let mut logits = self.forward.forward(&input_ids, 0)?; // [vocab]
        let finish_reason = loop {
            let token = sampler.sample(&logits)?;
            output_ids.push(token);
            if self.text.is_stop(token) && !params.ignore_eos {
                break FinishReason::Stop;
            }
            if output_ids.len() >= params.max_tokens as usize {
                break FinishReason::Length;
            }
            let position = input_ids.len() + output_ids.len() - 1;
            logits = self.forward.forward(&[token], position)?; // [vocab]
        };
        // The stop token is counted and is not text.
        let shown = output_ids.len() - usize::from(finish_reason == FinishReason::Stop);
        let text = self
            .text
            .decode(output_ids.get(..shown).unwrap_or_default());
        let metrics = RequestMetrics {
            extras: extras(&sampler, queue_ms),
            ..metrics(started, input_ids.len(), output_ids.len())
        };
        Ok(GenerateResult {
            text,
            input_ids,
            output_ids,
            finish_reason,
            metrics,
        })
    }
}
