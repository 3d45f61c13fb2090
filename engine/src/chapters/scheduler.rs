//! Who is in the next forward pass: the decisions of continuous batching, without a model.
//!
//! The policy, at every step:
//!
//! * Every running request decodes one token. So a running answer never waits longer than one step.
//! * Then requests are admitted, strictly first come first served: the first that cannot be
//!   admitted holds back all behind it. A request needs a seat ([`Bounds::max_seqs`]) and memory for
//!   all its positions at once, so nothing that runs is ever thrown out.
//! * Prompts are admitted as long as all tokens of the step, decoded ones included, stay within
//!   [`Bounds::max_step_tokens`]. The first of a step goes in whatever its length: a longer prompt
//!   goes alone beside the decodes. So a prompt never waits for the decodes of others, only for a
//!   seat, for memory, and for those that came before it.
//!
//! A request thus ends after at most as many steps as the ceilings of those before it and its own
//! add up to. Which memory that is, and what runs in it, is left to the chapter.

use std::collections::VecDeque;

use super::RequestId;

/// What a step may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Requests under way at once, at least 1.
    pub(super) max_seqs: usize,
    /// Tokens of a step, prefilled and decoded, more than `max_seqs`; one prompt alone may exceed it.
    pub(super) max_step_tokens: usize,
}

/// One forward pass.
#[derive(Debug)]
pub(super) struct Plan {
    /// Who decodes one token, in order of arrival.
    pub(super) decode: Vec<RequestId>,
    /// Whose prompt is prefilled, in order of arrival.
    pub(super) prefill: Vec<RequestId>,
}

struct Waiting {
    id: RequestId,
    prompt_tokens: usize,
    /// Of prompt and ceiling.
    positions: usize,
}

/// The queue and the seats.
pub(super) struct Scheduler {
    bounds: Bounds,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    /// In order of arrival, too.
    running: Vec<RequestId>,
}

impl Scheduler {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            waiting: VecDeque::new(),
            running: Vec::new(),
        }
    }

    /// Puts a request at the end of the queue. Memory for `positions` must be within what there is
    /// in all, or it blocks the queue for good.
    pub(super) fn submit(&mut self, id: RequestId, prompt_tokens: usize, positions: usize) {
        self.waiting.push_back(Waiting {
            id,
            prompt_tokens,
            positions,
        });
    }

    /// The next step. `reserve` takes memory for a request of so many positions, or
    /// says that there is not enough now.
    pub(super) fn plan(&mut self, mut reserve: impl FnMut(RequestId, usize) -> bool) -> Plan {
        let decode = self.running.clone();
        let mut prefill = Vec::new();
        let mut tokens = decode.len();
        while let Some(next) = self.waiting.front() {
            let fits = tokens + next.prompt_tokens <= self.bounds.max_step_tokens;
            let seat = self.running.len() < self.bounds.max_seqs;
            if !(seat && (fits || prefill.is_empty()) && reserve(next.id, next.positions)) {
                break;
            }
            tokens += next.prompt_tokens;
            prefill.push(next.id);
            self.running.push(next.id);
            self.waiting.pop_front();
        }
        Plan { decode, prefill }
    }

    /// Takes out a request that has ended or is not wanted any more, wherever it stands: its seat is
    /// free for the next step.
    pub(super) fn leave(&mut self, id: RequestId) {
        self.waiting.retain(|waiting| waiting.id != id);
        self.running.retain(|running| *running != id);
    }

    /// Nobody waits and nobody runs.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
