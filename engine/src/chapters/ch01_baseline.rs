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

use std::collections::VecDeque;

use contracts::{
    generate::{GenerateResult, RequestMetrics, SamplingParams},
    run::ModelFacts,
};

use super::{Engine, Limits, RequestId, Setup, StepEvent, no_options, sequence::Sequence};
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

    /// The opaque call: from prompt to answer, without a look inside.
    fn answer(&mut self, mut sequence: Sequence) -> Result<GenerateResult, EngineError> {
        sequence.set_off();
        self.forward.reset();
        let finish_reason = loop {
            let (ids, position) = sequence.next_ids();
            let logits = self.forward.forward(ids, position)?; // [vocab]
            if let Some(reason) = sequence.take(&self.text, &logits)?.finish_reason {
                break reason;
            }
        };
        let result = sequence.finish(finish_reason);
        // When the first token came nobody outside could see: it is not measured.
        let metrics = RequestMetrics {
            ttft_ms: 0.0,
            tpot_ms: 0.0,
            ..result.metrics
        };
        Ok(GenerateResult { metrics, ..result })
    }
}
