//! Writing: a session, a run when it is about to be sent, and the end of a run in one transaction.

use std::collections::BTreeMap;

use contracts::host::HostFacts;
use contracts::run::{RunEvent, RunStatus};
use contracts::sample::Sample;
use sqlx::{Sqlite, Transaction};

use super::rows::{count, json, word};
use super::{Store, StoreError};
use crate::record::{RunRecord, SessionFacts};

/// A session to be stored.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// ULID.
    pub session_id: String,
    /// How it was planned; its `created_unix_ms` is when it was made.
    pub facts: SessionFacts,
    /// `--label`.
    pub label: Option<String>,
    /// `--tag k=v`.
    pub tags: BTreeMap<String, String>,
    /// Build of the controller.
    pub controller_build: String,
}

/// What storing the end of a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is there now.
    Now,
    /// Its end had been stored before; nothing was changed.
    Before,
}

/// Event rows of one insert: 5 parameters each, far below SQLite's limit of 32,766.
const EVENTS_PER_INSERT: usize = 1_000;

impl Store {
    /// Stores a session.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn create_session(&self, session: &NewSession) -> Result<(), StoreError> {
        sqlx::query(
            "insert into session (session_id, run_order, order_seed, repeat_count, max_extend,
                                  planned_count, label, tags_json, controller_build,
                                  created_unix_ms)
             values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(&session.session_id)
        .bind(&session.facts.run_order)
        .bind(count(session.facts.order_seed))
        .bind(session.facts.repeat_count)
        .bind(session.facts.max_extend)
        .bind(session.facts.planned_count)
        .bind(&session.label)
        .bind(json(&session.tags))
        .bind(&session.controller_build)
        .bind(session.facts.created_unix_ms)
        .execute(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(())
    }

    /// Stores a run that is about to be sent, and the host it is sent to. Its session is there.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn create_run(&self, run: &RunRecord, host: &HostFacts) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let stored = async {
            save_host(&mut transaction, host, run.created_unix_ms).await?;
            // Its earlier runs may have been deleted meanwhile, and the empty session with them.
            insert_session(&mut transaction, run).await?;
            insert_run(&mut transaction, run).await
        };
        stored.await.map_err(|error| self.error(&error))?;
        transaction
            .commit()
            .await
            .map_err(|error| self.error(&error))
    }

    /// Stores the end of a run with all its rows, in one transaction and only once. The samples are
    /// taken one by one as they are written; one that is an error undoes it all.
    ///
    /// An end that the controller gave a run which no agent had accepted (`accepted_unix_ms` 0, no
    /// rows) gives way to the agent's own.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the run was not made in this database; what SQLite says.
    pub async fn finish_run(
        &self,
        run: &RunRecord,
        samples: impl Iterator<Item = Result<Sample, String>>,
        events: &[RunEvent],
    ) -> Result<Stored, StoreError> {
        let mut transaction = self.begin().await?;
        let stored: Option<(String, i64)> =
            sqlx::query_as("select state, accepted_unix_ms from run where run_id = ?")
                .bind(&run.run_id)
                .fetch_optional(&mut *transaction)
                .await
                .map_err(|error| self.error(&error))?;
        let accepted = run.status.created_unix_ms != 0;
        match stored.as_ref().map(|(state, at)| (state.as_str(), *at)) {
            None => {
                return Err(StoreError::NotFound {
                    what: "run",
                    id: run.run_id.clone(),
                    path: self.path.clone(),
                });
            }
            Some(("done" | "failed" | "cancelled", at)) if at != 0 || !accepted => {
                return Ok(Stored::Before);
            }
            Some(_) => {}
        }
        let stored = async {
            update_run(&mut transaction, &run.run_id, &run.status).await?;
            insert_stats(&mut transaction, run).await?;
            insert_events(&mut transaction, &run.run_id, events).await
        };
        stored.await.map_err(|error| self.error(&error))?;
        self.insert_samples(&mut transaction, &run.run_id, samples)
            .await?;
        transaction
            .commit()
            .await
            .map_err(|error| self.error(&error))?;
        // A file that was deleted, or another put in its place, takes writes until it is closed. Who
        // asks must not acknowledge.
        if super::open::file_of(&self.path) != self.file {
            return Err(StoreError::Removed(self.path.clone()));
        }
        Ok(Stored::Now)
    }

    /// The write lock is taken at once: a transaction that reads first and is refused the lock
    /// later would have to start again.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.pool
            .begin_with("begin immediate")
            .await
            .map_err(|error| self.error(&error))
    }
}

/// Stores a host, or its new name.
pub(super) async fn save_host(
    transaction: &mut Transaction<'_, Sqlite>,
    host: &HostFacts,
    now_unix_ms: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into host (host_fingerprint, hostname, platform, kernel, cpu_model, core_count,
                           memory_bytes, gpus_json, first_seen_unix_ms)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?)
         on conflict (host_fingerprint) do update set hostname = excluded.hostname",
    )
    .bind(&host.fingerprint)
    .bind(&host.hostname)
    .bind(&host.platform)
    .bind(&host.kernel)
    .bind(&host.cpu_model)
    .bind(host.cores)
    .bind(count(host.memory_bytes))
    .bind(json(&host.gpus))
    .bind(now_unix_ms)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// Stores a run's session as the run tells it; one that is there stays as it is.
pub(super) async fn insert_session(
    transaction: &mut Transaction<'_, Sqlite>,
    run: &RunRecord,
) -> Result<(), sqlx::Error> {
    let facts = &run.session;
    sqlx::query(
        "insert or ignore into session (session_id, run_order, order_seed, repeat_count, max_extend,
                                        extended_count, planned_count, label, tags_json,
                                        controller_build, created_unix_ms)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&run.session_id)
    .bind(&facts.run_order)
    .bind(count(facts.order_seed))
    .bind(facts.repeat_count)
    .bind(facts.max_extend)
    .bind(facts.extended_count)
    .bind(facts.planned_count)
    .bind(&run.label)
    .bind(json(&run.tags))
    .bind(&run.controller_build)
    .bind(facts.created_unix_ms)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

pub(super) async fn insert_run(
    transaction: &mut Transaction<'_, Sqlite>,
    run: &RunRecord,
) -> Result<(), sqlx::Error> {
    let spec = &run.status.spec;
    sqlx::query(
        "insert into run (run_id, session_id, arm_letter, block, position, agent_name, agent_id,
                          host_fingerprint, engine, mode, model, workload_key, created_unix_ms,
                          state, spec_json, deadline_s, accepted_unix_ms, warnings_json,
                          validity_json, lifecycle_json, server_report_id, look)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&run.run_id)
    .bind(&run.session_id)
    .bind(&run.arm_letter)
    .bind(run.block)
    .bind(run.position)
    .bind(&run.agent_name)
    .bind(&run.agent_id)
    .bind(&run.host_fingerprint)
    .bind(&run.engine)
    .bind(word(&spec.arm.mode))
    .bind(&spec.workload.model)
    .bind(&run.workload_key)
    .bind(run.created_unix_ms)
    .bind(word(&run.status.state))
    .bind(json(spec))
    .bind(count(run.status.deadline_s))
    .bind(run.status.created_unix_ms)
    .bind(json(&run.status.warnings))
    .bind(json(&run.status.validity))
    .bind(json(&run.status.lifecycle))
    .bind(run.server_report.as_ref().map(|stored| &stored.report_id))
    .bind(run.look)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

pub(super) async fn update_run(
    transaction: &mut Transaction<'_, Sqlite>,
    run_id: &str,
    status: &RunStatus,
) -> Result<(), sqlx::Error> {
    let failure = status.failure.as_ref();
    let provenance = status.provenance.as_ref();
    let totals = status.samples.as_ref();
    sqlx::query(
        "update run set state = ?, accepted_unix_ms = ?, ended_unix_ms = ?, failure_stage = ?,
                        failure_message = ?, failure_log_json = ?, warnings_json = ?,
                        definition_id = ?, provenance_json = ?, validity_json = ?,
                        lifecycle_json = ?, sample_count = ?, sample_sha256 = ?
         where run_id = ?",
    )
    .bind(word(&status.state))
    .bind(status.created_unix_ms)
    .bind(status.ended_unix_ms)
    .bind(failure.map(|failure| word(&failure.stage)))
    .bind(failure.map(|failure| &failure.message))
    .bind(failure.map(|failure| json(&failure.log_tail)))
    .bind(json(&status.warnings))
    .bind(provenance.map(|provenance| &provenance.definition))
    .bind(provenance.map(json))
    .bind(json(&status.validity))
    .bind(json(&status.lifecycle))
    .bind(totals.map(|totals| count(totals.count)))
    .bind(totals.map(|totals| &totals.sha256))
    .bind(run_id)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

pub(super) async fn insert_stats(
    transaction: &mut Transaction<'_, Sqlite>,
    run: &RunRecord,
) -> Result<(), sqlx::Error> {
    let Some(stats) = &run.stats else {
        return Ok(());
    };
    sqlx::query(
        "insert into bench_stats (run_id, req_per_s, tok_per_s, wall_ms, output_tokens, n_runs,
                                  ttft_ms, tpot_ms, wall_times_ms)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&run.run_id)
    .bind(stats.req_per_s)
    .bind(stats.tok_per_s)
    .bind(stats.wall_ms)
    .bind(stats.output_tokens)
    .bind(stats.n_runs)
    .bind(stats.ttft_ms)
    .bind(stats.tpot_ms)
    .bind(super::rows::write_floats(&stats.wall_times))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

pub(super) async fn insert_events(
    transaction: &mut Transaction<'_, Sqlite>,
    run_id: &str,
    events: &[RunEvent],
) -> Result<(), sqlx::Error> {
    for chunk in events.chunks(EVENTS_PER_INSERT) {
        let mut insert = sqlx::QueryBuilder::<Sqlite>::new(
            "insert or ignore into run_event (run_id, seq, at_ms, kind, event_json) ",
        );
        insert.push_values(chunk, |mut row, event| {
            let document = serde_json::to_value(&event.what).unwrap_or_default();
            let kind = document
                .get("kind")
                .and_then(|kind| kind.as_str())
                .unwrap_or_default();
            row.push_bind(run_id)
                .push_bind(count(event.seq))
                .push_bind(count(event.at_ms))
                .push_bind(kind.to_owned())
                .push_bind(document.to_string());
        });
        insert.build().execute(&mut **transaction).await?;
    }
    Ok(())
}
