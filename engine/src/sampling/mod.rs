//! From logits to one token.
//!
//! In this order, each a file: `adjust` (bias and penalties), then greedy takes the best token;
//! otherwise `candidates` (temperature, min-p, top-k, top-p) and a draw. `logprobs` looks at the
//! model's own logits. `limits` refuses values out of range.
//!
//! Values are stable: the same seed and the same logits give the same tokens from the same build.
//! What to do with the token is left to the chapters.

mod adjust;
mod candidates;
mod limits;
mod logprobs;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::BTreeMap;

use contracts::{
    defaults::NEAR_TIE_LOGITS,
    generate::{FIRM_STEPS, SamplingParams, TokenLogprobs},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

pub use self::limits::check;
use self::{
    adjust::Adjustments,
    candidates::{Candidates, unit},
};
use crate::error::EngineError;

/// Chooses the tokens of one answer.
pub struct Sampler {
    /// None: the model's logits are taken as they are.
    adjustments: Option<Adjustments>,
    choice: Choice,
    /// How many of the best tokens to report at each step, if any.
    logprobs: Option<u32>,
}

/// A token, and what was asked to be known of its step.
#[derive(Debug)]
pub struct Chosen {
    /// The token.
    pub id: u32,
    /// Of the model's own distribution.
    pub logprobs: Option<TokenLogprobs>,
}

enum Choice {
    /// `firm_steps` counts the leading steps whose two best logits were not a near tie.
    Greedy {
        firm_steps: u32,
        near_tie_seen: bool,
    },
    Drawn {
        candidates: Candidates,
        random: Box<ChaCha8Rng>,
    },
}

impl Sampler {
    /// A sampler at the start of an answer to this prompt; the parameters must have passed [`check`].
    pub fn new(params: &SamplingParams, prompt_ids: &[u32]) -> Self {
        let choice = if params.is_greedy() {
            Choice::Greedy {
                firm_steps: 0,
                near_tie_seen: false,
            }
        } else {
            Choice::Drawn {
                candidates: Candidates::new(params),
                random: Box::new(ChaCha8Rng::seed_from_u64(params.seed)),
            }
        };
        Self {
            adjustments: Adjustments::new(params, prompt_ids),
            choice,
            logprobs: params.logprobs,
        }
    }

    /// The next token, from the logits after the latest one (`[vocab]`). Logits that are not
    /// numbers, or infinite, are an error: a token chosen from them would hide a broken model. Minus
    /// infinity is a token that cannot be.
    pub fn sample(&mut self, logits: &[f32]) -> Result<Chosen, EngineError> {
        let adjusted = match &mut self.adjustments {
            Some(adjustments) => adjustments.apply(logits),
            None => logits,
        };
        let best = best_two(adjusted)?;
        let id = match &mut self.choice {
            Choice::Greedy {
                firm_steps,
                near_tie_seen,
            } => {
                *near_tie_seen |= best.gap < NEAR_TIE_LOGITS;
                if !*near_tie_seen {
                    *firm_steps += 1;
                }
                best.id
            }
            Choice::Drawn { candidates, random } => {
                let point = unit(random.next_u64());
                candidates
                    .draw(adjusted, best.logit, point)
                    .unwrap_or(best.id)
            }
        };
        if let Some(adjustments) = &mut self.adjustments {
            adjustments.count(id);
        }
        let logprobs = self.logprobs.map(|n| logprobs::of(logits, id, n as usize));
        Ok(Chosen { id, logprobs })
    }

    /// What a chapter adds to its metrics: [`FIRM_STEPS`], if greedy.
    pub fn extras(&self) -> BTreeMap<String, f64> {
        match self.choice {
            Choice::Greedy { firm_steps, .. } => {
                [(FIRM_STEPS.to_owned(), f64::from(firm_steps))].into()
            }
            Choice::Drawn { .. } => BTreeMap::new(),
        }
    }
}

struct Best {
    id: u32,
    logit: f32,
    /// To the second best; infinite if there is none.
    gap: f32,
}

/// The largest logit, the lowest id of equal ones.
fn best_two(logits: &[f32]) -> Result<Best, EngineError> {
    let mut best: Option<(u32, f32)> = None;
    let mut second = f32::NEG_INFINITY;
    for (id, &logit) in (0..).zip(logits) {
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(EngineError::Internal(format!(
                "the model gave logit {logit} for token {id}"
            )));
        }
        match best {
            Some((_, largest)) if logit <= largest => second = second.max(logit),
            Some((_, largest)) => {
                second = largest;
                best = Some((id, logit));
            }
            None => best = Some((id, logit)),
        }
    }
    match best {
        Some((id, logit)) if logit.is_finite() => Ok(Best {
            id,
            logit,
            gap: logit - second,
        }),
        _ => Err(EngineError::Internal(
            "the model gave no token a finite logit".to_owned(),
        )),
    }
}
