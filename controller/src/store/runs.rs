//! Reading runs back, by filter or by a unique prefix of the id; how long runs like one took.

use contracts::run::{Mode, RunEvent, RunFailure, RunStatus, SampleTotals};
use contracts::stats::BenchStats;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite};

use super::rows::{parse_json, parse_word, read_floats, uncount, word};
use super::{RunFilter, Store, StoreError, server_reports};
use crate::record::{RunRecord, SessionFacts};

/// Ids named in the message about a prefix that is not unique.
const AMBIGUOUS_SHOWN: u32 = 3;

const SELECT: &str = "select run.*, session.label, session.tags_json, session.controller_build, \
     session.run_order, session.order_seed, session.repeat_count, session.max_extend, \
     session.extended_count, session.planned_count, session.created_unix_ms as session_created_unix_ms, \
     host.hostname, bench_stats.req_per_s, bench_stats.tok_per_s, \
     bench_stats.wall_ms, bench_stats.output_tokens, bench_stats.n_runs, bench_stats.ttft_ms, \
     bench_stats.tpot_ms, bench_stats.wall_times_ms, \
     server_report.agent_name as report_agent_name, \
     server_report.created_unix_ms as report_created_unix_ms, server_report.report_json \
     from run join session on session.session_id = run.session_id \
     join host on host.host_fingerprint = run.host_fingerprint \
     left join server_report on server_report.report_id = run.server_report_id \
     left join bench_stats on bench_stats.run_id = run.run_id where true";

/// No wall times, and null where there are no averages.
const NO_WALLS: &str = "iif(bench_stats.run_id is null, null, '[]') as wall_times_ms";

impl Store {
    /// The runs that `filter` lets through, oldest first.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.selected(SELECT, filter).await
    }

    /// [`Store::runs`] without the wall time of each request in their averages: a comparison reads
    /// columns, and of a large run these are most of what a record is.
    ///
    /// # Errors
    /// As [`Store::runs`].
    pub async fn runs_without_walls(
        &self,
        filter: &RunFilter,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let select = SELECT.replace("bench_stats.wall_times_ms", NO_WALLS);
        self.selected(&select, filter).await
    }

    /// Gives a record of [`Store::runs_without_walls`] the wall times that it lacks.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn with_walls(&self, mut run: RunRecord) -> Result<RunRecord, StoreError> {
        let Some(stats) = &mut run.stats else {
            return Ok(run);
        };
        let walls: Option<String> =
            sqlx::query_scalar("select wall_times_ms from bench_stats where run_id = ?")
                .bind(&run.run_id)
                .fetch_optional(&self.pool)
                .await
                .map_err(|error| self.error(&error))?;
        if let Some(walls) = walls {
            let read = read_floats(&walls);
            stats.wall_times = read.map_err(|why| self.bad_row("wall_times_ms", why))?;
        }
        Ok(run)
    }

    async fn selected(
        &self,
        select: &str,
        filter: &RunFilter,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut query = sqlx::QueryBuilder::<Sqlite>::new(select);
        filter.push(&mut query);
        filter.push_order(&mut query);
        let rows = query.build().fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        rows.iter().rev().map(|row| self.read_run(row)).collect()
    }

    /// The one run whose id starts with `prefix` (upper or lower case).
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Ambiguous`].
    pub async fn run_by_prefix(&self, prefix: &str) -> Result<RunRecord, StoreError> {
        let wanted = prefix.to_ascii_uppercase();
        let not_found = || StoreError::NotFound {
            what: "run",
            id: prefix.to_owned(),
            path: self.path.clone(),
        };
        if wanted.is_empty() || !wanted.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(not_found());
        }
        let mut query = sqlx::QueryBuilder::<Sqlite>::new(SELECT);
        // The upper end of the range: no ULID has a character above `Z`.
        query.push(" and run.run_id >= ").push_bind(&wanted);
        query
            .push(" and run.run_id < ")
            .push_bind(format!("{wanted}["));
        query
            .push(" order by run.run_id limit ")
            .push_bind(AMBIGUOUS_SHOWN);
        let rows = query
            .build()
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        match rows.as_slice() {
            [] => Err(not_found()),
            [row] => self.read_run(row),
            rows => Err(StoreError::Ambiguous {
                prefix: prefix.to_owned(),
                matches: rows
                    .iter()
                    .filter_map(|row| row.try_get("run_id").ok())
                    .collect(),
            }),
        }
    }

    /// How long the newest run of this engine, mode and work took on an agent of this name, from
    /// acceptance to its end; none where no such run was done.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn past_run_ms(
        &self,
        agent: &str,
        engine: &str,
        mode: Mode,
        workload_key: &str,
    ) -> Result<Option<u64>, StoreError> {
        let ms: Option<i64> = sqlx::query_scalar(
            "select ended_unix_ms - accepted_unix_ms from run
             where agent_name = ? and engine = ? and mode = ? and workload_key = ?
               and state = 'done' and accepted_unix_ms > 0 and ended_unix_ms is not null
             order by created_unix_ms desc limit 1",
        )
        .bind(agent)
        .bind(engine)
        .bind(word(&mode))
        .bind(workload_key)
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(ms.map(uncount))
    }

    /// A run's story in order.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn events(&self, run_id: &str) -> Result<Vec<RunEvent>, StoreError> {
        let rows = sqlx::query(
            "select seq, at_ms, event_json from run_event where run_id = ? order by seq",
        )
        .bind(run_id)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let read = |row: &SqliteRow| -> Result<(i64, i64, String), sqlx::Error> {
            Ok((
                row.try_get("seq")?,
                row.try_get("at_ms")?,
                row.try_get("event_json")?,
            ))
        };
        rows.iter()
            .map(|row| {
                let (seq, at_ms, what) = read(row).map_err(|error| self.error(&error))?;
                let what = parse_json(&what).map_err(|why| self.bad_row("event_json", why))?;
                Ok(RunEvent {
                    seq: uncount(seq),
                    at_ms: uncount(at_ms),
                    what,
                })
            })
            .collect()
    }

    fn read_run(&self, row: &SqliteRow) -> Result<RunRecord, StoreError> {
        let tags: String = row
            .try_get("tags_json")
            .map_err(|error| self.error(&error))?;
        let get = || -> Result<RunRecord, Problem> {
            Ok(RunRecord {
                run_id: row.try_get("run_id")?,
                session_id: row.try_get("session_id")?,
                arm_letter: row.try_get("arm_letter")?,
                block: row.try_get("block")?,
                position: row.try_get("position")?,
                agent_name: row.try_get("agent_name")?,
                agent_id: row.try_get("agent_id")?,
                host_fingerprint: row.try_get("host_fingerprint")?,
                hostname: row.try_get("hostname")?,
                engine: row.try_get("engine")?,
                workload_key: row.try_get("workload_key")?,
                label: row.try_get("label")?,
                tags: parse_json(&tags).map_err(|why| Problem::Bad("tags_json", why))?,
                controller_build: row.try_get("controller_build")?,
                look: row.try_get("look")?,
                session: SessionFacts {
                    run_order: row.try_get("run_order")?,
                    order_seed: uncount(row.try_get("order_seed")?),
                    repeat_count: row.try_get("repeat_count")?,
                    max_extend: row.try_get("max_extend")?,
                    extended_count: row.try_get("extended_count")?,
                    planned_count: row.try_get("planned_count")?,
                    created_unix_ms: row.try_get("session_created_unix_ms")?,
                },
                created_unix_ms: row.try_get("created_unix_ms")?,
                status: read_status(row)?,
                stats: read_stats(row)?,
                server_report: server_reports::read(row)?
                    .transpose()
                    .map_err(|why| Problem::Bad("report_json", why))?,
                file: None,
            })
        };
        get().map_err(|problem| match problem {
            Problem::Sql(error) => self.error(&error),
            Problem::Bad(what, why) => self.bad_row(what, why),
        })
    }
}

/// Why a row cannot be read: SQLite's word, or a column's content.
enum Problem {
    Sql(sqlx::Error),
    Bad(&'static str, String),
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// A column that holds a JSON document; none where it is null.
fn document<T: serde::de::DeserializeOwned>(
    row: &SqliteRow,
    name: &'static str,
) -> Result<Option<T>, Problem> {
    let text: Option<String> = row.try_get(name)?;
    text.map(|text| parse_json(&text).map_err(|why| Problem::Bad(name, why)))
        .transpose()
}

/// A column that holds an enum's word; none where it is null.
fn variant<T: serde::de::DeserializeOwned>(
    row: &SqliteRow,
    name: &'static str,
) -> Result<Option<T>, Problem> {
    let text: Option<String> = row.try_get(name)?;
    text.map(|text| parse_word(&text).map_err(|why| Problem::Bad(name, why)))
        .transpose()
}

fn required<T>(value: Option<T>, name: &'static str) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::Bad(name, "it is null".to_owned()))
}

fn read_status(row: &SqliteRow) -> Result<RunStatus, Problem> {
    let failure = match variant(row, "failure_stage")? {
        Some(stage) => Some(RunFailure {
            stage,
            message: row
                .try_get::<Option<String>, _>("failure_message")?
                .unwrap_or_default(),
            log_tail: document(row, "failure_log_json")?.unwrap_or_default(),
        }),
        None => None,
    };
    let count: Option<i64> = row.try_get("sample_count")?;
    let sha256: Option<String> = row.try_get("sample_sha256")?;
    Ok(RunStatus {
        run_id: row.try_get("run_id")?,
        state: required(variant(row, "state")?, "state")?,
        spec: required(document(row, "spec_json")?, "spec_json")?,
        deadline_s: uncount(row.try_get("deadline_s")?),
        created_unix_ms: row.try_get("accepted_unix_ms")?,
        ended_unix_ms: row.try_get("ended_unix_ms")?,
        failure,
        warnings: document(row, "warnings_json")?.unwrap_or_default(),
        provenance: document(row, "provenance_json")?,
        validity: document(row, "validity_json")?.unwrap_or_default(),
        lifecycle: document(row, "lifecycle_json")?.unwrap_or_default(),
        samples: count.zip(sha256).map(|(count, sha256)| SampleTotals {
            count: uncount(count),
            sha256,
        }),
    })
}

fn read_stats(row: &SqliteRow) -> Result<Option<BenchStats>, Problem> {
    let Some(walls) = row.try_get::<Option<String>, _>("wall_times_ms")? else {
        return Ok(None);
    };
    Ok(Some(BenchStats {
        req_per_s: row.try_get("req_per_s")?,
        tok_per_s: row.try_get("tok_per_s")?,
        wall_ms: row.try_get("wall_ms")?,
        output_tokens: row.try_get("output_tokens")?,
        n_runs: row.try_get("n_runs")?,
        ttft_ms: row.try_get("ttft_ms")?,
        tpot_ms: row.try_get("tpot_ms")?,
        wall_times: read_floats(&walls).map_err(|why| Problem::Bad("wall_times_ms", why))?,
    }))
}
