//! Sample rows: a column for each field of the wire's record, event times as the blob itself.
//!
//! They are written and read one after the other: what a run of 100,000 requests costs in memory
//! is up to who takes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::sample::{EventTimes, Sample, SampleError};
use futures_util::TryStreamExt as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, Transaction};

use super::rows::{count, json, parse_json, parse_word, uncount, word};
use super::{Store, StoreError};
use crate::columns::Builder;
use crate::light::{Blob, Light};
use crate::record::{RunRecord, RunWithSamples};

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

/// In the order of [`INSERT`].
fn bind<'a>(
    mut row: sqlx::query_builder::Separated<'_, Sqlite, &'static str>,
    run_id: &'a str,
    encoded: &'a EncodedSample,
) {
    let s = &encoded.sample;
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
    row.push_bind(s.event_times.as_ref().map(|times| times.encoding.clone()))
        .push_bind(encoded.event_times.clone());
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
        .push_bind(s.output_sha256.clone())
        .push_bind(s.text.clone());
    row.push_bind(s.output_ids.as_ref().map(json))
        .push_bind(s.input_ids_sha256.clone());
    row.push_bind(s.firm_steps);
    row.push_bind(s.error.as_ref().map(|error| word(&error.class)));
    row.push_bind(s.error.as_ref().map(|error| error.message.clone()));
    row.push_bind(s.released_ns.map(count))
        .push_bind(s.reconnected)
        .push_bind(s.unterminated)
        .push_bind(s.planned_input_tokens)
        .push_bind(s.engine_queue_ms);
}

/// What is read of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    /// All there is.
    All,
    /// Without texts, token ids and hashes.
    Figures,
}

const SELECT_ALL: &str = "select * from sample where run_id = ? order by warmup desc, sample_index";
/// The columns that are not wanted come as null: SQLite then does not read their pages.
const SELECT_FIGURES: &str = "select run_id, warmup, sample_index, due_ns, start_ns, \
     connected_ns, sent_ns, headers_ns, first_event_ns, first_content_ns, last_content_ns, \
     finish_ns, done_ns, event_times_encoding, event_times, wall_ms, ttft_ms, \
     tpot_ms, timing_source, engine_wall_ms, input_tokens, output_tokens, token_source, \
     usage_tokens, local_tokens, requested_tokens, first_event_tokens, finish_reason, done_seen, \
     reused_connection, body_bytes, http_status, null as output_sha256, null as output_text, \
     null as output_ids_json, null as input_ids_sha256, firm_steps, error_class, error_message, \
     released_ns, reconnected, unterminated, planned_input_tokens, engine_queue_ms \
     from sample where run_id = ? order by warmup desc, sample_index";

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
            for row in &rows {
                columns.take(&row.sample, row.event_times());
            }
            Ok(rows)
        };
        let mut rows = next()?;
        while !rows.is_empty() {
            let mut insert = sqlx::QueryBuilder::<Sqlite>::new(INSERT);
            insert.push_values(&rows, |row, encoded| bind(row, run_id, encoded));
            // SQLite has a thread of its own: the next rows are read while it works.
            let (done, following) =
                futures_util::join!(insert.build().execute(&mut **transaction), async { next() });
            done.map_err(|error| self.error(&error))?;
            rows = following?;
        }
        self.insert_columns(transaction, run_id, &columns.finish())
            .await
    }

    /// A run's requests in order, warm-up first, with all that is known of them.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn samples(&self, run_id: &str) -> Result<Vec<Sample>, StoreError> {
        let mut samples = Vec::new();
        self.each_sample(run_id, |sample| {
            samples.push(sample);
            Ok(())
        })
        .await?;
        Ok(samples)
    }

    /// Hands a run's requests to `each`, one at a time, in the order of [`Store::samples`], and
    /// ends where `each` does.
    ///
    /// # Errors
    /// As [`Store::samples`]; what `each` says.
    pub async fn each_sample(
        &self,
        run_id: &str,
        mut each: impl FnMut(Sample) -> std::io::Result<()>,
    ) -> Result<(), StoreError> {
        self.each_row(run_id, Fields::All, |sample, blob| {
            each(with_event_times(sample, blob)).map_err(StoreError::Taken)
        })
        .await
    }

    /// A run with its samples as figures need them: no texts, no token ids, no event times.
    ///
    /// # Errors
    /// As [`Store::samples`].
    pub async fn with_figures(&self, run: RunRecord) -> Result<RunWithSamples, StoreError> {
        let mut light = Light::default();
        self.each_row(&run.run_id, Fields::Figures, |sample, blob| {
            light.take(sample, blob.as_ref());
            Ok(())
        })
        .await?;
        light.warn(&run.run_id);
        Ok(RunWithSamples {
            run,
            samples: light.samples,
            gaps: light.gaps,
        })
    }

    /// A run with all that is known of its samples.
    ///
    /// # Errors
    /// As [`Store::samples`].
    pub async fn with_samples(&self, run: RunRecord) -> Result<RunWithSamples, StoreError> {
        let mut gaps = Light::default();
        let mut samples = Vec::new();
        self.each_row(&run.run_id, Fields::All, |sample, blob| {
            gaps.count(&sample, blob.as_ref());
            samples.push(with_event_times(sample, blob));
            Ok(())
        })
        .await?;
        gaps.warn(&run.run_id);
        Ok(RunWithSamples {
            run,
            samples,
            gaps: gaps.gaps,
        })
    }

    pub(super) async fn each_row(
        &self,
        run_id: &str,
        fields: Fields,
        mut each: impl FnMut(Sample, Option<Blob>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let select = match fields {
            Fields::All => SELECT_ALL,
            Fields::Figures => SELECT_FIGURES,
        };
        let mut rows = sqlx::query(select).bind(run_id).fetch(&self.pool);
        while let Some(row) = rows.try_next().await.map_err(|error| self.error(&error))? {
            let sample = self.read_sample(&row)?;
            let blob = read_blob(&row).map_err(|error| self.error(&error))?;
            each(sample, blob)?;
        }
        Ok(())
    }

    fn read_sample(&self, row: &SqliteRow) -> Result<Sample, StoreError> {
        let mut sample = read_plain(row).map_err(|error| self.error(&error))?;
        let bad = |what: &str, why: String| self.bad_row(what, why);
        let text = |name: &str| -> Result<Option<String>, StoreError> {
            row.try_get(name).map_err(|error| self.error(&error))
        };
        if let Some(word) = text("timing_source")? {
            sample.timing_source =
                Some(parse_word(&word).map_err(|why| bad("timing_source", why))?);
        }
        if let Some(word) = text("token_source")? {
            sample.token_source = Some(parse_word(&word).map_err(|why| bad("token_source", why))?);
        }
        if let Some(word) = text("finish_reason")? {
            sample.finish_reason =
                Some(parse_word(&word).map_err(|why| bad("finish_reason", why))?);
        }
        if let Some(ids) = text("output_ids_json")? {
            sample.output_ids = Some(parse_json(&ids).map_err(|why| bad("output_ids_json", why))?);
        }
        if let Some(class) = text("error_class")? {
            let class = parse_word(&class).map_err(|why| bad("error_class", why))?;
            let message = text("error_message")?.unwrap_or_default();
            sample.error = Some(SampleError { class, message });
        }
        Ok(sample)
    }
}

fn read_blob(row: &SqliteRow) -> Result<Option<Blob>, sqlx::Error> {
    let encoding: Option<String> = row.try_get("event_times_encoding")?;
    let blob: Option<Vec<u8>> = row.try_get("event_times")?;
    Ok(encoding.zip(blob))
}

/// As it travels: the blob as base64.
fn with_event_times(sample: Sample, blob: Option<Blob>) -> Sample {
    Sample {
        event_times: blob.map(|(encoding, blob)| EventTimes {
            encoding,
            base64: STANDARD.encode(blob),
        }),
        ..sample
    }
}

/// The columns that are what they are; words and documents are read by the caller.
fn read_plain(row: &SqliteRow) -> Result<Sample, sqlx::Error> {
    let instant = |name: &str| -> Result<Option<u64>, sqlx::Error> {
        Ok(row.try_get::<Option<i64>, _>(name)?.map(uncount))
    };
    Ok(Sample {
        index: row.try_get("sample_index")?,
        warmup: row.try_get("warmup")?,
        due_ns: uncount(row.try_get("due_ns")?),
        start_ns: uncount(row.try_get("start_ns")?),
        connected_ns: instant("connected_ns")?,
        sent_ns: instant("sent_ns")?,
        headers_ns: instant("headers_ns")?,
        first_event_ns: instant("first_event_ns")?,
        first_content_ns: instant("first_content_ns")?,
        last_content_ns: instant("last_content_ns")?,
        finish_ns: instant("finish_ns")?,
        done_ns: instant("done_ns")?,
        wall_ms: row.try_get("wall_ms")?,
        ttft_ms: row.try_get("ttft_ms")?,
        tpot_ms: row.try_get("tpot_ms")?,
        engine_wall_ms: row.try_get("engine_wall_ms")?,
        input_tokens: row.try_get("input_tokens")?,
        output_tokens: row.try_get("output_tokens")?,
        usage_tokens: row.try_get("usage_tokens")?,
        local_tokens: row.try_get("local_tokens")?,
        requested_tokens: row.try_get("requested_tokens")?,
        first_event_tokens: row.try_get("first_event_tokens")?,
        done_seen: row.try_get("done_seen")?,
        reused_connection: row.try_get("reused_connection")?,
        bytes: uncount(row.try_get("body_bytes")?),
        status: row.try_get("http_status")?,
        output_sha256: row.try_get("output_sha256")?,
        text: row.try_get("output_text")?,
        input_ids_sha256: row.try_get("input_ids_sha256")?,
        firm_steps: row.try_get("firm_steps")?,
        released_ns: instant("released_ns")?,
        reconnected: row.try_get("reconnected")?,
        unterminated: row.try_get("unterminated")?,
        planned_input_tokens: row.try_get("planned_input_tokens")?,
        engine_queue_ms: row.try_get("engine_queue_ms")?,
        ..Sample::default()
    })
}
