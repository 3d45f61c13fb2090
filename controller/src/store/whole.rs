//! A run that comes whole, from an export: its session, its end, its requests and its story in one
//! transaction. Runs that are measured here are stored by `write`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use contracts::run::RunEvent;
use contracts::sample::Sample;
use sqlx::{Sqlite, Transaction};

use super::write::{insert_events, insert_run, insert_session, insert_stats, update_run};
use super::{Store, StoreError};
use crate::record::RunRecord;

impl Store {
    /// Stores a run that is not there yet. Its samples are taken one by one as they are written; its
    /// events are asked for after the last of them.
    ///
    /// A host that is not known is stored by its fingerprint and name alone.
    ///
    /// # Errors
    /// [`StoreError::BadSample`] for an id that is there already, for a sample that is an error, and
    /// for fewer or more samples than the run says it has; what SQLite says.
    pub async fn add_whole_run(
        &self,
        run: &RunRecord,
        samples: impl Iterator<Item = Result<Sample, String>>,
        events: impl FnOnce() -> Vec<RunEvent>,
    ) -> Result<(), StoreError> {
        let bad = |why: String| StoreError::BadSample {
            run_id: run.run_id.clone(),
            why,
        };
        let mut transaction = self.begin().await?;
        let there: Option<i64> = sqlx::query_scalar("select 1 from run where run_id = ?")
            .bind(&run.run_id)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?;
        if there.is_some() {
            return Err(bad("it is there twice".to_owned()));
        }
        let inserted = insert_head(&mut transaction, run).await;
        inserted.map_err(|error| self.error(&error))?;
        let count = RefCell::new(0_u64);
        let mut seen = BTreeSet::new();
        let counted = samples.map(|sample| {
            *count.borrow_mut() += 1;
            let sample = sample?;
            if seen.insert((sample.warmup, sample.index)) {
                Ok(sample)
            } else {
                Err(format!("its request {} is there twice", sample.index))
            }
        });
        self.insert_samples(&mut transaction, &run.run_id, counted)
            .await?;
        let (count, said) = (count.into_inner(), run.status.samples.as_ref());
        if let Some(said) = said.filter(|said| said.count != count) {
            let why = format!("it has {count} requests here and had {}", said.count);
            return Err(bad(why));
        }
        let inserted = insert_events(&mut transaction, &run.run_id, &events()).await;
        inserted.map_err(|error| self.error(&error))?;
        let done = transaction.commit().await;
        done.map_err(|error| self.error(&error))
    }
}

async fn insert_head(
    transaction: &mut Transaction<'_, Sqlite>,
    run: &RunRecord,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert or ignore into host (host_fingerprint, hostname, platform, kernel, cpu_model,
                                     core_count, memory_bytes, gpus_json, first_seen_unix_ms)
         values (?, ?, '', '', '', 0, 0, '[]', ?)",
    )
    .bind(&run.host_fingerprint)
    .bind(&run.hostname)
    .bind(run.created_unix_ms)
    .execute(&mut **transaction)
    .await?;
    insert_session(transaction, run).await?;
    if let Some(report) = &run.server_report {
        super::server_reports::insert(transaction, report).await?;
    }
    insert_run(transaction, run).await?;
    update_run(transaction, &run.run_id, &run.status).await?;
    insert_stats(transaction, run).await
}
