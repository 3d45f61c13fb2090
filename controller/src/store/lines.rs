//! Runs as a list shows them: a few columns of each, so that ten thousand are listed at once.
//! The documents of a run, of which the prompts may be large, are not read.

use futures_util::TryStreamExt as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite};

use super::rows::{parse_json, parse_word};
use super::{RunFilter, Store, StoreError};
use crate::record::RunLine;

// Builds before there were verdicts stored none: nothing was found against those runs.
const SELECT: &str = "select run.run_id, run.created_unix_ms, run.agent_name, run.engine, run.mode, \
     run.model, run.state, json_extract(run.spec_json, '$.workload.load') as load_json, \
     coalesce(json_extract(run.validity_json, '$.verdict'), 'sound') as verdict, session.label, \
     bench_stats.req_per_s, bench_stats.tok_per_s, bench_stats.wall_ms \
     from run join session on session.session_id = run.session_id \
     join host on host.host_fingerprint = run.host_fingerprint \
     left join bench_stats on bench_stats.run_id = run.run_id where true";

impl Store {
    /// The runs that `filter` lets through, oldest first, a line each.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn run_lines(&self, filter: &RunFilter) -> Result<Vec<RunLine>, StoreError> {
        let mut query = sqlx::QueryBuilder::<Sqlite>::new(SELECT);
        filter.push(&mut query);
        filter.push_order(&mut query);
        // Each is read while SQLite, on a thread of its own, looks for the next.
        let mut rows = query.build().fetch(&self.pool);
        let mut lines = Vec::new();
        while let Some(row) = rows.try_next().await.map_err(|error| self.error(&error))? {
            lines.push(self.read_line(&row)?);
        }
        lines.reverse();
        Ok(lines)
    }

    fn read_line(&self, row: &SqliteRow) -> Result<RunLine, StoreError> {
        let error = |error: sqlx::Error| self.error(&error);
        let word = |name: &str| -> Result<String, StoreError> {
            let word: Option<String> = row.try_get(name).map_err(error)?;
            Ok(word.unwrap_or_default())
        };
        let bad = |name: &'static str| move |why: String| self.bad_row(name, why);
        Ok(RunLine {
            run_id: row.try_get("run_id").map_err(error)?,
            created_unix_ms: row.try_get("created_unix_ms").map_err(error)?,
            agent_name: row.try_get("agent_name").map_err(error)?,
            engine: row.try_get("engine").map_err(error)?,
            mode: parse_word(&word("mode")?).map_err(bad("mode"))?,
            model: row.try_get("model").map_err(error)?,
            load: parse_json(&word("load_json")?).map_err(bad("spec_json"))?,
            state: parse_word(&word("state")?).map_err(bad("state"))?,
            req_per_s: row.try_get("req_per_s").map_err(error)?,
            tok_per_s: row.try_get("tok_per_s").map_err(error)?,
            wall_ms: row.try_get("wall_ms").map_err(error)?,
            verdict: parse_word(&word("verdict")?).map_err(bad("validity_json"))?,
            label: row.try_get("label").map_err(error)?,
        })
    }
}
