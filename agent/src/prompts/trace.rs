//! Prompts of a trace: of the lengths that it tells, from blocks that are shared as it tells.
//!
//! Block `j` of a prompt is its tokens `512 j` and on, template included, so that equal blocks lie
//! where a cache looks for them. Cold blocks are those of one run, one phase and one pass over the
//! trace: shared there, and unlike all before.

use contracts::run::{TRACE_BLOCK_TOKENS, TraceRequest};

use super::draw::{Draws, Purpose};
use super::words::{Segment, Words};
use super::{Content, Planned, Prompt, PromptError};

const INPUT: &str = "workload.prompts.requests";

/// The source of a trace's prompts.
pub(super) struct Trace {
    words: Words,
    draws: Draws,
    requests: Vec<TraceRequest>,
}

impl Trace {
    pub(super) fn new(
        words: Words,
        draws: Draws,
        requests: Vec<TraceRequest>,
    ) -> Result<Self, PromptError> {
        let smallest = words.around_tokens() + 1;
        let short = requests
            .iter()
            .position(|request| request.input_tokens < smallest);
        match short.and_then(|place| Some((place, requests.get(place)?))) {
            None => Ok(Self {
                words,
                draws,
                requests,
            }),
            Some((place, request)) => Err(PromptError {
                field: INPUT,
                message: format!(
                    "request {place} has a prompt of {} tokens; with template and special tokens \
                     the smallest has {smallest}: leave such lines out, or use plain completions",
                    request.input_tokens
                ),
            }),
        }
    }

    fn request(&self, index: u32) -> Option<&TraceRequest> {
        let place = (index as usize).checked_rem(self.requests.len())?;
        self.requests.get(place)
    }

    /// The lengths of a request.
    pub(super) fn planned(&self, index: u32) -> Planned {
        let request = self.request(index);
        Planned {
            input_tokens: request.map_or(0, |request| request.input_tokens),
            max_tokens: request.map_or(0, |request| request.output_tokens),
        }
    }

    pub(super) fn prompt(&self, warmup: bool, index: u32) -> Result<Prompt, PromptError> {
        let planned = self.planned(index);
        let ids = self
            .request(index)
            .map(|request| request.block_ids.as_slice());
        let lines = self.requests.len() as u64;
        let (pass, own) = match self.draws.cold() {
            // Words that the pass before has left in a cache would not be cold.
            true => (u64::from(index) / lines.max(1), u64::from(index)),
            false => (0, u64::from(index) % lines.max(1)),
        };
        let mut left = planned.input_tokens - self.words.around_tokens();
        let mut room = TRACE_BLOCK_TOKENS.saturating_sub(self.words.head_tokens());
        let mut segments = Vec::new();
        for &id in ids.unwrap_or_default() {
            let words = left.min(room);
            let draws = self.draws.block(warmup, pass, id);
            segments.push(Segment { draws, words });
            left -= words;
            room = TRACE_BLOCK_TOKENS;
        }
        // What no block covers is the request's own.
        if left > 0 || segments.is_empty() {
            let draws = self.draws.salted(Purpose::Words, warmup, own);
            segments.push(Segment { draws, words: left });
        }
        let (text, tokens) = self.words.prompt(&segments, INPUT)?;
        Ok(Prompt {
            content: Content::Text(text),
            max_tokens: planned.max_tokens,
            planned_input_tokens: Some(tokens),
        })
    }
}
