//! One request under way: what every chapter that hands out tokens keeps of it, from the check of
//! its prompt to its result. Which forward pass comes next, and for whom, is the chapter's idea.

use std::time::Instant;

use contracts::generate::{
    FinishReason, GenerateResult, RequestMetrics, SamplingParams, TokenLogprobs,
};

use super::{Limits, RequestId, StepEvent, admit, extras, metrics};
use crate::{
    error::EngineError,
    sampling::{Chosen, Sampler},
    text::{Detokenizer, Input, Released, StopMatcher, Text},
};

/// Entry of the extras of a chapter that batches: rows of this request's forward passes, on average.
const BATCH_MEAN: &str = "batch_mean";

/// One request, waiting or under way.
pub(super) struct Sequence {
    pub(super) id: RequestId,
    started: Instant,
    pub(super) input_ids: Vec<u32>,
    pub(super) params: SamplingParams,
    sampler: Sampler,
    pub(super) output_ids: Vec<u32>,
    detokenizer: Detokenizer,
    stop: StopMatcher,
    answer: String,
    /// One for each token made, if asked for.
    logprobs: Option<Vec<TokenLogprobs>>,
    /// From the start to its first forward pass.
    queue_ms: f64,
    /// Forward passes in company, and the rows in them together.
    company: Option<(u32, usize)>,
    /// When the first and the latest token were chosen.
    stamps: Option<(Instant, Instant)>,
}

/// What one token brought.
pub(super) struct Piece {
    /// Text that is complete with it, and can no longer be part of a stop string.
    pub(super) text: String,
    /// How likely it was, if asked for.
    pub(super) logprobs: Option<TokenLogprobs>,
    /// Why the answer ended, if it did.
    pub(super) finish_reason: Option<FinishReason>,
}

impl Sequence {
    /// Checks and tokenises; the clock starts here.
    pub(super) fn begin(
        id: RequestId,
        text: &Text,
        limits: Limits,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<Self, EngineError> {
        let started = Instant::now();
        let input_ids = admit(text, limits, input, params)?;
        Ok(Self {
            id,
            started,
            params: params.clone(),
            sampler: Sampler::new(params, &input_ids),
            input_ids,
            output_ids: Vec::new(),
            detokenizer: text.detokenizer(),
            stop: StopMatcher::new(&params.stop),
            answer: String::new(),
            logprobs: params.logprobs.map(|_| Vec::new()),
            queue_ms: 0.0,
            company: None,
            stamps: None,
        })
    }

    /// Its turn has come: the first forward pass begins now.
    pub(super) fn set_off(&mut self) {
        self.queue_ms = self.started.elapsed().as_secs_f64() * 1e3;
    }

    /// It is one of `rows` in the next forward pass.
    pub(super) fn join(&mut self, rows: usize) {
        if self.output_ids.is_empty() {
            self.set_off();
        }
        let (passes, all) = self.company.unwrap_or_default();
        self.company = Some((passes.saturating_add(1), all.saturating_add(rows)));
    }

    /// Positions it needs at most: prompt and ceiling.
    pub(super) fn positions_max(&self) -> usize {
        self.input_ids.len() + self.params.max_tokens as usize
    }

    /// The ids that the next forward pass runs, and the position of the first: the prompt, or the
    /// latest token alone.
    pub(super) fn next_ids(&self) -> (&[u32], usize) {
        match self.output_ids.len() {
            0 => (&self.input_ids, 0),
            made => (
                self.output_ids.get(made - 1..).unwrap_or_default(),
                self.input_ids.len() + made - 1,
            ),
        }
    }

    /// Chooses a token from the logits after its latest position (`[vocab]`).
    pub(super) fn take(&mut self, text: &Text, logits: &[f32]) -> Result<Piece, EngineError> {
        let Chosen { id, logprobs } = self.sampler.sample(logits)?;
        let now = Instant::now();
        self.output_ids.push(id);
        if let (Some(all), Some(one)) = (&mut self.logprobs, &logprobs) {
            all.push(one.clone());
        }
        self.stamps = Some((self.stamps.map_or(now, |(first, _)| first), now));
        // The stop token is counted and is not text.
        let is_stop = text.is_stop(id) && !self.params.ignore_eos;
        let is_last = is_stop || self.output_ids.len() >= self.params.max_tokens as usize;
        let mut decoded = String::new();
        if !is_stop {
            decoded.push_str(&self.detokenizer.push(id));
        }
        if is_last {
            decoded.push_str(&self.detokenizer.finish());
        }
        let Released {
            text: mut piece,
            stopped,
        } = self.stop.push(&decoded);
        if is_last && !stopped {
            piece.push_str(&self.stop.finish());
        }
        self.answer.push_str(&piece);
        Ok(Piece {
            text: piece,
            logprobs,
            finish_reason: if is_stop || stopped {
                Some(FinishReason::Stop)
            } else {
                is_last.then_some(FinishReason::Length)
            },
        })
    }

    /// The result of an answer that is complete.
    pub(super) fn finish(self, finish_reason: FinishReason) -> GenerateResult {
        let metrics = metrics(self.started, self.input_ids.len(), self.output_ids.len());
        let (ttft_ms, tpot_ms) = self.stamps.map_or((0.0, 0.0), |(first, last)| {
            let ttft_ms = (first - self.started).as_secs_f64() * 1e3;
            let steps = self.output_ids.len().saturating_sub(1);
            let tpot_ms = if steps > 0 {
                (last - first).as_secs_f64() * 1e3 / steps as f64
            } else {
                0.0
            };
            (ttft_ms, tpot_ms)
        });
        let mut extras = extras(&self.sampler, self.queue_ms);
        if let Some((passes, rows)) = self.company {
            extras.insert(BATCH_MEAN.to_owned(), rows as f64 / f64::from(passes));
        }
        GenerateResult {
            text: self.answer,
            metrics: RequestMetrics {
                ttft_ms,
                tpot_ms,
                extras,
                ..metrics
            },
            input_ids: self.input_ids,
            output_ids: self.output_ids,
            finish_reason,
            logprobs: self.logprobs,
        }
    }
}

/// The events of one piece: the token, and the end if it is one. Gives the sequence back if it goes on.
pub(super) fn report(
    sequence: Sequence,
    piece: Result<Piece, EngineError>,
    events: &mut Vec<StepEvent>,
) -> Option<Sequence> {
    let id = sequence.id;
    match piece {
        Ok(Piece {
            text,
            logprobs,
            finish_reason,
        }) => {
            events.push(StepEvent::Token { id, text, logprobs });
            let Some(finish_reason) = finish_reason else {
                return Some(sequence);
            };
            let result = Ok(sequence.finish(finish_reason));
            events.push(StepEvent::Finished { id, result });
        }
        Err(error) => events.push(StepEvent::Finished {
            id,
            result: Err(error),
        }),
    }
    None
}
