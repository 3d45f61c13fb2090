//! Reading sample rows: a column for each field of the wire's record, event times as the blob itself.
//! Writing them is [`super::insert`]'s.
//!
//! They are read one after the other: what a run of 100,000 requests costs in memory is up to who
//! takes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::sample::{EventTimes, Sample, SampleError};
use futures_util::TryStreamExt as _;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::rows::{parse_json, parse_word, uncount};
use super::{Store, StoreError};
use crate::light::{Blob, Light};
use crate::record::{RunRecord, RunWithSamples};

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
