//! What a comparison takes of a run: its values, reduced once, and of its answers hashes. What was
//! said is read for those requests alone whose answers differ ([`super::outputs::differing`]).

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use contracts::sample::{Sample, TimingSource, TokenSource};

use crate::columns::Columns;
use crate::compare::inside;
use crate::compare::reduced::Reduced;
use crate::record::{RunRecord, RunWithSamples};
use crate::stats::bench::measured;

/// One run of a side.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Its values; none of a run without a successful request.
    pub reduced: Option<Reduced>,
    /// Wall times in the order of the requests; empty of a run with more than
    /// [`inside::MAX_REQUESTS`].
    pub walls_ms: Vec<f64>,
    /// Measured requests that succeeded.
    pub succeeded: u64,
    /// Measured requests that failed.
    pub failed: u64,
    /// On whose clocks TTFT and TPOT are, each once.
    pub timing_sources: Vec<TimingSource>,
    /// Where counts of tokens come from, each once.
    pub token_sources: Vec<TokenSource>,
    /// SHA-256 (hex) of the first prompt's token ids that an engine told.
    pub input_ids_sha256: Option<String>,
    /// Its answers by index; empty where sampling is not greedy, since they are not judged then.
    pub answers: Vec<Answer>,
    /// What was said, of the requests for which it was read.
    pub spoken: BTreeMap<u32, Spoken>,
}

/// A request's answer, by its hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Index of the request.
    pub index: u32,
    /// Of the token ids.
    pub ids_hash: Option<NonZeroU64>,
    /// Of the text.
    pub text_hash: Option<NonZeroU64>,
}

/// A request's answer, word for word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spoken {
    /// The tokens made, where the engine tells them.
    pub ids: Option<Vec<u32>>,
    /// The text.
    pub text: Option<String>,
    /// Leading greedy steps without a near tie, where the engine tells it.
    pub firm_steps: Option<u32>,
}

impl Spoken {
    /// Of a request at hand.
    pub fn of(sample: &Sample) -> Self {
        Self {
            ids: sample.output_ids.clone(),
            text: sample.text.clone(),
            firm_steps: sample.firm_steps,
        }
    }
}

impl Input {
    /// Nothing was measured.
    pub const EMPTY: Self = Self {
        reduced: None,
        walls_ms: Vec::new(),
        succeeded: 0,
        failed: 0,
        timing_sources: Vec::new(),
        token_sources: Vec::new(),
        input_ids_sha256: None,
        answers: Vec::new(),
        spoken: BTreeMap::new(),
    };

    /// Of a stored run; nothing that was said is read yet.
    pub fn of(run: &RunRecord, columns: &Columns) -> Self {
        let greedy = run.status.spec.workload.sampling.is_greedy();
        let answers = columns.requests.iter().filter(|_| greedy);
        let answers = answers.map(|request| Answer {
            index: request.index,
            ids_hash: request.ids_hash,
            text_hash: request.text_hash,
        });
        let requests = || columns.requests.iter();
        Self {
            reduced: Reduced::of_columns(run, columns),
            walls_ms: if columns.requests.len() <= inside::MAX_REQUESTS {
                requests().map(|request| request.wall_ms).collect()
            } else {
                Vec::new()
            },
            succeeded: columns.requests.len() as u64,
            failed: columns.failed,
            timing_sources: distinct(requests().filter_map(|r| r.timing_source)),
            token_sources: distinct(requests().filter_map(|r| r.token_source)),
            input_ids_sha256: columns.input_ids_sha256.clone(),
            answers: answers.collect(),
            spoken: BTreeMap::new(),
        }
    }

    /// Of a run whose samples are at hand, with all that was said.
    pub fn of_samples(run: &RunWithSamples) -> Self {
        let spoken = measured(&run.samples).map(|sample| (sample.index, Spoken::of(sample)));
        Self {
            spoken: spoken.collect(),
            ..Self::of(&run.run, &Columns::of(&run.samples, &run.gaps))
        }
    }
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}
