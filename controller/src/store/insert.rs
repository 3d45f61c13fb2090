//! Writing sample rows, some at a time as they come, and the columns that they make: a run of
//! 100,000 requests is never in memory as a whole. Reading them is [`super::samples`]'s.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::sample::Sample;
use sqlx::{Sqlite, Transaction};

use super::rows::{count, json, word};
use super::{Store, StoreError};
use crate::columns::Builder;

/// Rows of one insert: 44 parameters each, below SQLite's limit of 32,766.
const SAMPLES_PER_INSERT: usize = 500;

/// Text, ids and blobs of one insert, in bytes, before it is sent with fewer rows.
const BYTES_PER_INSERT: usize = 4 << 20;

/// A sample with its event times decoded.
struct EncodedSample {
    sample: Sample,
    event_times: Option<Vec<u8>>,
}

impl EncodedSample {
    /// Decodes what travels as base64.
    fn new(mut sample: Sample) -> Result<Self, String> {
        let event_times = match &mut sample.event_times {
            Some(times) => {
                let blob = STANDARD.decode(std::mem::take(&mut times.base64));
                Some(blob.map_err(|error| format!("event times: {error}"))?)
            }
            None => None,
        };
        Ok(Self {
            sample,
            event_times,
        })
    }

    fn event_times(&self) -> Option<(&str, &[u8])> {
        let times = self.sample.event_times.as_ref()?;
        Some((times.encoding.as_str(), self.event_times.as_deref()?))
    }

    /// Bytes of what has no bound of its own.
    fn bytes(&self) -> usize {
        self.sample.text.as_ref().map_or(0, String::len)
            + self
                .sample
                .output_ids
                .as_ref()
                .map_or(0, |ids| 8 * ids.len())
            + self.event_times.as_ref().map_or(0, Vec::len)
    }
}

const INSERT: &str = "insert into sample (run_id, warmup, sample_index, due_ns, start_ns, \
     connected_ns, sent_ns, headers_ns, first_event_ns, first_content_ns, last_content_ns, \
     finish_ns, done_ns, event_times_encoding, event_times, wall_ms, ttft_ms, tpot_ms, \
     timing_source, engine_wall_ms, input_tokens, output_tokens, token_source, usage_tokens, \
     local_tokens, requested_tokens, first_event_tokens, finish_reason, done_seen, \
     reused_connection, body_bytes, http_status, output_sha256, output_text, output_ids_json, \
     input_ids_sha256, firm_steps, error_class, error_message, released_ns, reconnected, \
     unterminated, planned_input_tokens, engine_queue_ms) ";

/// The next rows that go into one insert; empty at the end.
fn chunk(
    samples: &mut impl Iterator<Item = Result<Sample, String>>,
) -> Result<Vec<EncodedSample>, String> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    while rows.len() < SAMPLES_PER_INSERT && bytes < BYTES_PER_INSERT {
        let Some(sample) = samples.next() else {
            break;
        };
        let row = EncodedSample::new(sample?)?;
        bytes += row.bytes();
        rows.push(row);
    }
    Ok(rows)
}

/// In the order of [`INSERT`]. Texts and blobs are handed over and not copied.
fn bind(
    mut row: sqlx::query_builder::Separated<'_, Sqlite, &'static str>,
    run_id: &str,
    encoded: EncodedSample,
) {
    let s = encoded.sample;
    row.push_bind(run_id).push_bind(s.warmup).push_bind(s.index);
    row.push_bind(count(s.due_ns)).push_bind(count(s.start_ns));
    for instant in [
        s.connected_ns,
        s.sent_ns,
        s.headers_ns,
        s.first_event_ns,
        s.first_content_ns,
        s.last_content_ns,
        s.finish_ns,
        s.done_ns,
    ] {
        row.push_bind(instant.map(count));
    }
    row.push_bind(s.event_times.map(|times| times.encoding))
        .push_bind(encoded.event_times);
    row.push_bind(s.wall_ms)
        .push_bind(s.ttft_ms)
        .push_bind(s.tpot_ms);
    row.push_bind(s.timing_source.as_ref().map(word))
        .push_bind(s.engine_wall_ms);
    row.push_bind(s.input_tokens).push_bind(s.output_tokens);
    row.push_bind(s.token_source.as_ref().map(word));
    row.push_bind(s.usage_tokens)
        .push_bind(s.local_tokens)
        .push_bind(s.requested_tokens);
    row.push_bind(s.first_event_tokens)
        .push_bind(s.finish_reason.as_ref().map(word));
    row.push_bind(s.done_seen)
        .push_bind(s.reused_connection)
        .push_bind(count(s.bytes));
    row.push_bind(s.status)
        .push_bind(s.output_sha256)
        .push_bind(s.text);
    row.push_bind(s.output_ids.as_ref().map(json))
        .push_bind(s.input_ids_sha256);
    row.push_bind(s.firm_steps);
    row.push_bind(s.error.as_ref().map(|error| word(&error.class)));
    row.push_bind(s.error.map(|error| error.message));
    row.push_bind(s.released_ns.map(count))
        .push_bind(s.reconnected)
        .push_bind(s.unterminated)
        .push_bind(s.planned_input_tokens)
        .push_bind(s.engine_queue_ms);
}

impl Store {
    /// Inserts a run's requests as they come, some at a time, and the columns that they make.
    pub(super) async fn insert_samples(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        run_id: &str,
        mut samples: impl Iterator<Item = Result<Sample, String>>,
    ) -> Result<(), StoreError> {
        let mut columns = Builder::default();
        let mut next = || {
            let rows = chunk(&mut samples).map_err(|why| StoreError::BadSample {
                run_id: run_id.to_owned(),
                why,
            })?;
            if rows.is_empty() {
                return Ok(None);
            }
            for row in &rows {
                columns.take(&row.sample, row.event_times());
            }
            let mut insert = sqlx::QueryBuilder::<Sqlite>::new(INSERT);
            insert.push_values(rows, |row, encoded| bind(row, run_id, encoded));
            Ok(Some(insert))
        };
        let mut insert = next()?;
        while let Some(mut rows) = insert {
            // SQLite has a thread of its own: the next rows are read and bound while it works.
            let (done, following) =
                futures_util::join!(rows.build().execute(&mut **transaction), async { next() });
            done.map_err(|error| self.error(&error))?;
            insert = following?;
        }
        self.insert_columns(transaction, run_id, &columns.finish())
            .await
    }
}
