//! The one list of chapters, and what every chapter offers.
//!
//! Each chapter is a file that reads like a page, with the same parts in the same order under the
//! same names as its neighbours, so that a diff of two files shows the idea. What no chapter
//! changes lives in [`crate::model`], [`crate::text`], [`crate::sampling`] and here. A chapter
//! knows no HTTP.

mod batch;
mod ch01_baseline;
mod ch02_token_loop;
mod ch03_own_forward;
mod ch04_kv_cache;
mod ch05_static_batching;
mod ch09_continuous_batching;
mod fake;
mod options;
mod scheduler;
mod sequence;

use std::{collections::BTreeMap, time::Instant};

use contracts::{
    generate::{GenerateResult, QUEUE_MS, RequestMetrics, SamplingParams, TokenLogprobs},
    host::ChapterFacts,
    run::ModelFacts,
};

use crate::{
    error::EngineError,
    model::{ModelRequest, open::Runner},
    sampling::{self, Sampler},
    text::{Input, Text},
};

/// Names a request within one engine.
pub type RequestId = u64;

/// What every chapter offers: blocking calls for offline use, and for the server
/// `submit`/`step`/`cancel` on the one thread that owns the model.
pub trait Engine: Send {
    /// What is loaded.
    fn facts(&self) -> &ModelFacts;

    /// Its tokenizer and chat template.
    fn text(&self) -> &Text;

    /// One request from text to text; tokenising and detokenising are part of its wall time.
    fn generate(
        &mut self,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<GenerateResult, EngineError>;

    /// Many requests; one after another until a chapter does better.
    fn generate_batch(
        &mut self,
        requests: &[(Input, SamplingParams)],
    ) -> Vec<Result<GenerateResult, EngineError>> {
        requests
            .iter()
            .map(|(input, params)| self.generate(input, params))
            .collect()
    }

    /// Takes a request into the queue. Everything that can be refused is refused here, before any work.
    fn submit(
        &mut self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<(), EngineError>;

    /// Does the next piece of work: at most one forward pass (ch01: one whole answer).
    fn step(&mut self) -> Vec<StepEvent>;

    /// Forgets a request; unknown ids are ignored.
    fn cancel(&mut self, id: RequestId);

    /// Whether `step` has nothing to do.
    fn is_idle(&self) -> bool;
}

/// What a step brought.
#[derive(Debug)]
pub enum StepEvent {
    /// One more token. `text` is what became complete with it, often empty inside a character or
    /// what may become a stop string. All texts of a request, joined, are the text of its result.
    Token {
        /// Whose.
        id: RequestId,
        /// Text that is complete now.
        text: String,
        /// How likely the token was, if asked for.
        logprobs: Option<TokenLogprobs>,
    },
    /// The request has ended; nothing more comes for it.
    Finished {
        /// Whose.
        id: RequestId,
        /// What it came to.
        result: Result<GenerateResult, EngineError>,
    },
}

/// What a chapter is built from.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The model, which the chapter loads itself.
    pub model: ModelRequest,
    /// The chapter's own options by name.
    pub options: BTreeMap<String, String>,
}

/// A row of the chapters' table.
pub struct Chapter {
    /// `ch01`
    pub id: &'static str,
    /// `baseline`
    pub title: &'static str,
    /// One line: what it adds.
    pub adds: &'static str,
    /// Whether tokens are handed out as they come.
    pub streams: bool,
    /// Whether greedy tokens must equal ch01's.
    pub same_tokens: bool,
    /// Left out of users' lists.
    pub hidden: bool,
    /// Whose code runs its model; none needs no model.
    pub runner: Option<Runner>,
    /// Loads the model and makes the engine.
    pub build: fn(Setup) -> Result<Box<dyn Engine>, EngineError>,
}

impl Chapter {
    /// The row as it crosses a process boundary.
    pub fn facts(&self) -> ChapterFacts {
        ChapterFacts {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            adds: self.adds.to_owned(),
            streams: self.streams,
            same_tokens: self.same_tokens,
            hidden: self.hidden,
        }
    }
}

/// The only list of chapters.
pub const TABLE: &[Chapter] = &[
    Chapter {
        id: "ch01",
        title: "baseline",
        adds: "candle's model behind one opaque call; nothing but the wall time is measured",
        streams: false,
        same_tokens: true,
        hidden: false,
        runner: Some(Runner::Candle),
        build: ch01_baseline::build,
    },
    Chapter {
        id: "ch02",
        title: "token loop",
        adds: "our own prefill and decode loop over the same model; TTFT, TPOT, streaming",
        streams: true,
        same_tokens: true,
        hidden: false,
        runner: Some(Runner::Candle),
        build: ch02_token_loop::build,
    },
    Chapter {
        id: "ch03",
        title: "own forward",
        adds: "our own decoder, whose kernels read the weights at the memory's speed",
        streams: true,
        same_tokens: true,
        hidden: false,
        runner: Some(Runner::Decoder),
        build: ch03_own_forward::build,
    },
    Chapter {
        id: "ch04",
        title: "KV cache",
        adds: "keys and values in place, in memory that is taken once",
        streams: true,
        same_tokens: true,
        hidden: false,
        runner: Some(Runner::Decoder),
        build: ch04_kv_cache::build,
    },
    Chapter {
        id: "ch05",
        title: "static batching",
        adds: "one forward pass for many prompts, a batch at a time",
        streams: true,
        same_tokens: true,
        hidden: false,
        runner: Some(Runner::Decoder),
        build: ch05_static_batching::build,
    },
    Chapter {
        id: "ch09",
        title: "continuous batching",
        adds: "requests join and leave at every step; throughput parts from latency",
        streams: true,
        same_tokens: true,
        hidden: false,
        runner: Some(Runner::Decoder),
        build: ch09_continuous_batching::build,
    },
    Chapter {
        id: "fake",
        title: "fake",
        adds: "known tokens on a known clock, for tests",
        streams: true,
        same_tokens: false,
        hidden: true,
        runner: None,
        build: fake::build,
    },
];

/// A row by the name users give it: `1`, `01`, `ch01`, or the id of a hidden one.
pub fn find(name: &str) -> Result<&'static Chapter, EngineError> {
    let number = |name: &str| name.strip_prefix("ch").unwrap_or(name).parse::<u32>().ok();
    let is_it = |chapter: &&Chapter| {
        chapter.id == name || (number(name).is_some() && number(name) == number(chapter.id))
    };
    TABLE.iter().find(is_it).ok_or_else(|| {
        let rows = TABLE.iter().filter(|chapter| !chapter.hidden);
        let list: Vec<_> = rows
            .map(|chapter| format!("{} ({})", chapter.id, chapter.title))
            .collect();
        EngineError::bad_input(
            "chapter",
            format!("no chapter {name:?}; those that exist: {}", list.join(", ")),
        )
    })
}

/// Refuses options of a chapter that has none.
fn no_options(options: &BTreeMap<String, String>) -> Result<(), EngineError> {
    match options.keys().next() {
        Some(name) => Err(EngineError::bad_input(
            "option",
            format!("{name:?}: this chapter has no options"),
        )),
        None => Ok(()),
    }
}

/// What a model can take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Ids are below this.
    vocab: usize,
    /// Longest sequence, prompt and answer together, in tokens.
    context: usize,
}

/// All that can be refused of a request, before any work: returns the prompt's token ids.
fn admit(
    text: &Text,
    limits: Limits,
    input: &Input,
    params: &SamplingParams,
) -> Result<Vec<u32>, EngineError> {
    sampling::check(params)?;
    let input_ids = text.encode(input)?;
    if input_ids.is_empty() {
        return Err(EngineError::bad_input(
            "prompt",
            "has no tokens; there is nothing to continue",
        ));
    }
    let vocab = limits.vocab;
    if let Some(id) = input_ids.iter().find(|id| **id as usize >= vocab) {
        let message = format!("token id {id} is not below the model's vocabulary of {vocab}");
        return Err(EngineError::bad_input("prompt", message));
    }
    if let Some(id) = params.logit_bias.keys().find(|id| **id as usize >= vocab) {
        let message = format!("token id {id} is not below the model's vocabulary of {vocab}");
        return Err(EngineError::bad_input("logit_bias", message));
    }
    let (max_tokens, context_tokens) = (params.max_tokens as usize, limits.context);
    if input_ids.len() + max_tokens > context_tokens {
        return Err(EngineError::ContextTooLong {
            input_tokens: input_ids.len(),
            max_tokens,
            context_tokens,
        });
    }
    Ok(input_ids)
}

/// Metrics of an answer that began at `started` and ends now; TTFT and TPOT are left unmeasured.
fn metrics(started: Instant, input_tokens: usize, output_tokens: usize) -> RequestMetrics {
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
    RequestMetrics {
        throughput: if wall_ms > 0.0 {
            output_tokens as f64 / (wall_ms / 1e3)
        } else {
            0.0
        },
        input_tokens: count(input_tokens),
        output_tokens: count(output_tokens),
        wall_ms,
        ..RequestMetrics::default()
    }
}

/// A chapter's own numbers: the sampler's, and how long the request waited before work on it began.
fn extras(sampler: &Sampler, queue_ms: f64) -> BTreeMap<String, f64> {
    let mut extras = sampler.extras();
    extras.insert(QUEUE_MS.to_owned(), queue_ms);
    extras
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_is_found_by_number_and_by_id() {
        for name in ["1", "01", "ch01", "ch1"] {
            assert_eq!(find(name).unwrap().id, "ch01", "{name}");
        }
        assert_eq!(find("2").unwrap().id, "ch02");
    }

    #[test]
    fn a_chapter_that_does_not_exist_lists_those_that_do() {
        for name in ["6", "ch07", "0", "", "baseline", "ch", "-1"] {
            let Err(error) = find(name) else {
                unreachable!("{name:?} was found")
            };
            let line = error.to_string();
            let start = format!(
                "chapter: no chapter {name:?}; those that exist: ch01 (baseline), ch02 (token loop)"
            );
            assert!(line.starts_with(&start), "{line}");
            for row in TABLE {
                let listed = line.contains(&format!("{} ({})", row.id, row.title));
                assert_eq!(listed, !row.hidden, "{}", row.id);
            }
        }
    }

    #[test]
    fn the_table_is_in_order_and_without_doubles() {
        let ids: Vec<_> = TABLE
            .iter()
            .filter(|chapter| !chapter.hidden)
            .map(|chapter| chapter.id)
            .collect();
        assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
        assert_eq!(
            TABLE.first().unwrap().id,
            "ch01",
            "the reference of all others"
        );
    }
}
