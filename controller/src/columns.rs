//! A run's columns: of each measured, successful request what figures and comparisons are made of,
//! and no more, so that a run of 50,000 requests is read in milliseconds.
//!
//! They are made of the rows as these stream by and are never the truth: whoever finds none makes
//! them again. Their form in the database is [`packed`]'s, the figures are `stats`' and
//! [`crate::compare`]'s.

pub mod packed;

use std::num::NonZeroU64;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::sample::{Sample, TimingSource, TokenSource};
use contracts::stats::BenchStats;
use sha2::{Digest, Sha256};

use crate::event_times::Decoder;
use crate::stats::bench::{Averaged, BenchAccumulator, enters};
use crate::stats::gaps::GapCounts;
use crate::stats::window::{Ends, Shape};

/// What figures need of a run's requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns {
    /// The requests that enter figures, by index.
    pub requests: Vec<Request>,
    /// What decides the window, of all measured requests.
    pub ends: Ends,
    /// Measured requests that failed.
    pub failed: u64,
    /// Requests of warm-up.
    pub warmup: u64,
    /// Gaps between the content events of the requests.
    pub gaps: GapCounts,
    /// Requests whose event times this build cannot read: their gaps are not among the counted.
    pub unread: u64,
    /// SHA-256 (hex) of the first prompt's token ids that an engine told.
    pub input_ids_sha256: Option<String>,
}

/// One measured request that succeeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// From 0.
    pub index: u32,
    /// When it should have started.
    pub due_ns: u64,
    /// When it was over.
    pub done_ns: Option<u64>,
    /// `done − sent`.
    pub wall_ms: f64,
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first.
    pub tpot_ms: Option<f64>,
    /// Whose clock these two are on.
    pub timing_source: Option<TimingSource>,
    /// The count that figures use.
    pub output_tokens: Option<u32>,
    /// Where it comes from.
    pub token_source: Option<TokenSource>,
    /// Equal for equal token ids: the first bytes of their SHA-256.
    pub ids_hash: Option<NonZeroU64>,
    /// Equal for equal texts, likewise.
    pub text_hash: Option<NonZeroU64>,
}

impl Request {
    /// None of a request that enters no figures.
    fn of(sample: &Sample) -> Option<Self> {
        let wall_ms = sample.wall_ms.filter(|_| enters(sample))?;
        let mut ids = sample.output_ids.as_ref().map(|_| Sha256::new());
        if let (Some(hash), Some(output_ids)) = (&mut ids, &sample.output_ids) {
            output_ids
                .iter()
                .for_each(|id| hash.update(id.to_le_bytes()));
        }
        Some(Self {
            index: sample.index,
            due_ns: sample.due_ns,
            done_ns: sample.done_ns,
            wall_ms,
            ttft_ms: sample.ttft_ms,
            tpot_ms: sample.tpot_ms,
            timing_source: sample.timing_source,
            output_tokens: sample.output_tokens,
            token_source: sample.token_source,
            ids_hash: ids.map(|hash| first_bytes(hash.finalize().into())),
            text_hash: sample
                .text
                .as_ref()
                .map(|text| first_bytes(Sha256::digest(text).into())),
        })
    }

    /// From when it should have started to its end: what a user waits, whoever is late.
    pub fn wall_from_due_ms(&self) -> Option<f64> {
        let waited_ns = self.done_ns?.saturating_sub(self.due_ns);
        Some(waited_ns as f64 / 1e6)
    }
}

fn first_bytes(sha256: [u8; 32]) -> NonZeroU64 {
    let [a, b, c, d, e, f, g, h, ..] = sha256;
    NonZeroU64::new(u64::from_le_bytes([a, b, c, d, e, f, g, h])).unwrap_or(NonZeroU64::MIN)
}

impl Columns {
    /// Of a run whose samples are at hand. Gaps are those that somebody counted, else those of the
    /// samples' event times.
    pub fn of(samples: &[Sample], gaps: &GapCounts) -> Self {
        let counted = gaps.count() > 0;
        let mut builder = Builder::default();
        for sample in samples {
            let times = sample.event_times.as_ref().filter(|_| !counted);
            // What is no base64 is no blob either, and is counted as unread.
            let blob = times.map(|times| STANDARD.decode(&times.base64).unwrap_or_default());
            let encoding = times.map(|times| times.encoding.as_str());
            builder.take(sample, encoding.zip(blob.as_deref()));
        }
        let mut columns = builder.finish();
        if counted {
            columns.gaps = gaps.clone();
        }
        columns
    }

    /// Says in the log what could not be read: all else of the run is as good as ever.
    pub fn warn(&self, run_id: &str) {
        if self.unread > 0 {
            tracing::warn!(
                "run {run_id}: event times of {} requests cannot be read by this build",
                self.unread
            );
        }
    }

    /// The run's averages; none if no measured request succeeded.
    pub fn bench_stats(&self, shape: Shape) -> Option<BenchStats> {
        let requests = self.requests.iter().map(|request| Averaged {
            index: request.index,
            done_ns: request.done_ns,
            wall_ms: request.wall_ms,
            output_tokens: request.output_tokens,
            ttft_ms: request.ttft_ms,
            tpot_ms: request.tpot_ms,
        });
        BenchAccumulator::of(shape, self.ends, requests.collect()).finish()
    }
}

/// Makes [`Columns`] of requests that stream by, in any order.
#[derive(Default)]
pub struct Builder {
    columns: Columns,
    first_ids_of: Option<u32>,
    decoder: Decoder,
}

impl Builder {
    /// Takes one request with the encoding and the blob of its event times.
    pub fn take(&mut self, sample: &Sample, event_times: Option<(&str, &[u8])>) {
        let columns = &mut self.columns;
        columns.ends.add(sample);
        columns.warmup += u64::from(sample.warmup);
        columns.failed += u64::from(!sample.warmup && sample.error.is_some());
        if !sample.warmup
            && sample.error.is_none()
            && let Some((encoding, blob)) = event_times
        {
            match self.decoder.decode(encoding, blob) {
                Ok(instants) => columns.gaps.push(instants),
                Err(_) => columns.unread += 1,
            }
        }
        let Some(request) = Request::of(sample) else {
            return;
        };
        columns.requests.push(request);
        let earlier = self.first_ids_of.is_none_or(|index| sample.index < index);
        if earlier && sample.input_ids_sha256.is_some() {
            columns
                .input_ids_sha256
                .clone_from(&sample.input_ids_sha256);
            self.first_ids_of = Some(sample.index);
        }
    }

    /// All that was taken.
    pub fn finish(self) -> Columns {
        let mut columns = self.columns;
        columns.requests.sort_by_key(|request| request.index);
        columns
    }
}

#[cfg(test)]
mod tests;
