//! Taking over what another database has and this one has not: by id, so that laptops and labs can
//! merge both ways, as often as they like.
//!
//! The other file is attached for reading only. Each run comes over in a transaction of its own,
//! its rows as they are: nothing is read into memory. Its schema must be this build's.

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::Url;
use serde::Serialize;
use sqlx::{Connection, QueryBuilder, Row, Sqlite, SqliteConnection};

use super::tables::{columns, overwritten};
use super::{Store, StoreError};

/// What a merge came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// Runs taken over.
    pub runs: u64,
    /// Their requests.
    pub samples: u64,
    /// Sessions that were not here before.
    pub sessions: u64,
    /// Runs that were here already.
    pub there: u64,
    /// Runs that had not ended there, and were left.
    pub under_way: u64,
}

/// Tables that hold a run's rows, parents first.
const RUN_TABLES: [&str; 5] = ["run", "bench_stats", "sample", "run_event", "run_columns"];

/// The columns of each table that is copied, asked for once.
type Tables = BTreeMap<&'static str, Vec<String>>;

/// Tables whose rows are copied by other keys than a run's.
const SHARED_TABLES: [&str; 5] = [
    "host",
    "session",
    "server_report",
    "noise_floor",
    "client_floor",
];

/// A run that is here already and not the same.
const OTHER_CONTENT: &str = "select theirs.run_id from source.run theirs \
     join main.run ours on ours.run_id = theirs.run_id \
     where ours.state in ('done', 'failed', 'cancelled') \
       and theirs.state in ('done', 'failed', 'cancelled') \
       and ours.accepted_unix_ms != 0 and theirs.accepted_unix_ms != 0 \
       and ours.sample_sha256 is not theirs.sample_sha256 \
     order by theirs.run_id limit 1";

/// Each of their runs: whether it has ended there, and whether it is here. An end that the
/// controller made up here (`accepted_unix_ms` 0) gives way to the agent's own.
const PLAN: &str = "select theirs.run_id, theirs.session_id, \
       theirs.state in ('done', 'failed', 'cancelled') as ended, \
       ours.run_id is not null \
         and ours.state in ('done', 'failed', 'cancelled') \
         and (ours.accepted_unix_ms != 0 or theirs.accepted_unix_ms = 0) as there \
     from source.run theirs left join main.run ours on ours.run_id = theirs.run_id \
     order by theirs.created_unix_ms, theirs.run_id";

impl Store {
    /// Takes over all runs of `source` that have ended and are not here, with their sessions, hosts,
    /// reports of servers and floors.
    ///
    /// # Errors
    /// [`StoreError::OtherContent`] if a run of the same id has other requests here, and what
    /// `Store::must_be_readable` says of a run there, before anything is written; what SQLite says.
    pub async fn merge(&self, source: &Store) -> Result<Merged, StoreError> {
        let connection = self.pool.acquire().await;
        let mut connection = connection.map_err(|error| self.error(&error))?;
        attach(&mut connection, source.path())
            .await
            .map_err(|error| StoreError::of(source.path(), &error))?;
        let merged = self.merge_attached(&mut connection, source).await;
        let detached = sqlx::query("detach database source")
            .execute(&mut *connection)
            .await;
        let merged = merged?;
        detached.map_err(|error| self.error(&error))?;
        Ok(merged)
    }

    async fn merge_attached(
        &self,
        connection: &mut SqliteConnection,
        source: &Store,
    ) -> Result<Merged, StoreError> {
        let theirs = |error: sqlx::Error| StoreError::of(source.path(), &error);
        let other: Option<String> = sqlx::query_scalar(OTHER_CONTENT)
            .fetch_optional(&mut *connection)
            .await
            .map_err(theirs)?;
        if let Some(run_id) = other {
            return Err(StoreError::OtherContent { run_id });
        }
        let plan = sqlx::query(PLAN).fetch_all(&mut *connection).await;
        let mut tables = Tables::new();
        for table in SHARED_TABLES.into_iter().chain(RUN_TABLES) {
            let columns = columns(&mut *connection, table).await;
            tables.insert(table, columns.map_err(|error| self.error(&error))?);
        }
        let mut merged = Merged::default();
        let mut wanted: Vec<(String, String)> = Vec::new();
        for row in plan.map_err(theirs)? {
            if !row.try_get::<bool, _>("ended").map_err(theirs)? {
                merged.under_way += 1;
            } else if row.try_get::<bool, _>("there").map_err(theirs)? {
                merged.there += 1;
            } else {
                wanted.push((
                    row.try_get("run_id").map_err(theirs)?,
                    row.try_get("session_id").map_err(theirs)?,
                ));
            }
        }
        for (run_id, _) in &wanted {
            source.must_be_readable(run_id).await?;
        }
        for (run_id, session_id) in &wanted {
            let taken = take_run(connection, &tables, (run_id, session_id), &mut merged).await;
            taken.map_err(|error| self.error(&error))?;
        }
        let floors = take_floors(connection, &tables).await;
        floors.map_err(|error| self.error(&error))?;
        Ok(merged)
    }
}

/// Attaches a file for reading only, as `source`. On read-only media the log's helper files cannot
/// be made; nobody writes there either.
async fn attach(connection: &mut SqliteConnection, path: &Path) -> Result<(), sqlx::Error> {
    let absolute = std::fs::canonicalize(path).map_err(sqlx::Error::Io)?;
    let url = Url::from_file_path(&absolute)
        .map_err(|()| sqlx::Error::Configuration("not an absolute path".into()))?;
    let mut tried = Ok(());
    for mode in ["mode=ro", "mode=ro&immutable=1"] {
        let attached = async {
            sqlx::query("attach database ? as source")
                .bind(format!("{url}?{mode}"))
                .execute(&mut *connection)
                .await?;
            // Attaching alone does not look into the file.
            sqlx::query("select 1 from source.sqlite_master limit 1")
                .execute(&mut *connection)
                .await
        };
        match attached.await {
            Ok(_) => return Ok(()),
            Err(error) => tried = Err(error),
        }
        // Where the first try came as far as attaching it.
        let detach = sqlx::query("detach database source");
        detach.execute(&mut *connection).await.ok();
    }
    tried
}

async fn take_run(
    connection: &mut SqliteConnection,
    tables: &Tables,
    (run_id, session_id): (&str, &str),
    merged: &mut Merged,
) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with("begin immediate").await?;
    sqlx::query("delete from main.run where run_id = ?")
        .bind(run_id)
        .execute(&mut *transaction)
        .await?;
    let host = "host_fingerprint in (select host_fingerprint from source.run where run_id = ";
    take_host(&mut transaction, tables, host, run_id).await?;
    let known: Option<i64> = sqlx::query_scalar("select 1 from main.session where session_id = ?")
        .bind(session_id)
        .fetch_optional(&mut *transaction)
        .await?;
    let mut session = copy(tables, "insert", "session");
    session.push(" where session_id = ").push_bind(session_id);
    // Whoever extended it last knows how often.
    session.push(
        " on conflict (session_id) do update \
         set extended_count = max(extended_count, excluded.extended_count), \
             planned_count = max(planned_count, excluded.planned_count)",
    );
    session.build().execute(&mut *transaction).await?;
    let mut report = copy(tables, "insert or ignore", "server_report");
    report
        .push(" where report_id in (select server_report_id from source.run where run_id = ")
        .push_bind(run_id)
        .push(")");
    report.build().execute(&mut *transaction).await?;
    let mut samples = 0;
    for table in RUN_TABLES {
        let mut rows = copy(tables, "insert", table);
        rows.push(" where run_id = ").push_bind(run_id);
        let done = rows.build().execute(&mut *transaction).await?;
        if table == "sample" {
            samples = done.rows_affected();
        }
    }
    transaction.commit().await?;
    merged.runs += 1;
    merged.samples += samples;
    merged.sessions += u64::from(known.is_none());
    Ok(())
}

/// Floors of all their hosts: for each metric the newer noise floor stays.
async fn take_floors(
    connection: &mut SqliteConnection,
    tables: &Tables,
) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with("begin immediate").await?;
    for table in ["noise_floor", "client_floor"] {
        let hosts =
            format!("host_fingerprint in (select host_fingerprint from source.{table} where '' = ");
        take_host(&mut transaction, tables, &hosts, "").await?;
    }
    let sets = overwritten(listed(tables, "noise_floor"));
    let mut noise = copy(tables, "insert", "noise_floor");
    noise.push(" where true on conflict (host_fingerprint, engine, mode, workload_key, metric)");
    noise.push(" do update set ").push(sets);
    noise.push(" where excluded.measured_unix_ms > measured_unix_ms");
    noise.build().execute(&mut *transaction).await?;
    let mut client = copy(tables, "insert or ignore", "client_floor");
    client.build().execute(&mut *transaction).await?;
    transaction.commit().await
}

/// Hosts for which `condition`, a parameter and a closing bracket hold. One that is known by its
/// name alone (from an old export) gets its facts.
async fn take_host(
    connection: &mut SqliteConnection,
    tables: &Tables,
    condition: &str,
    parameter: &str,
) -> Result<(), sqlx::Error> {
    let sets = overwritten(listed(tables, "host"));
    let mut host = copy(tables, "insert", "host");
    host.push(" where ").push(condition).push_bind(parameter);
    host.push(") on conflict (host_fingerprint) do update set ");
    // Only by facts: SQLite looks through all runs of a host whose row changes.
    host.push(sets)
        .push(" where host.platform = '' and excluded.platform != ''");
    host.build().execute(connection).await?;
    Ok(())
}

/// `insert into main.T (…) select … from source.T`; conditions follow.
fn copy(tables: &Tables, verb: &'static str, table: &'static str) -> QueryBuilder<Sqlite> {
    let columns = listed(tables, table).join(", ");
    let mut query = QueryBuilder::<Sqlite>::new(verb);
    query.push(" into main.").push(table);
    query.push(" (").push(&columns).push(") select ");
    query.push(&columns).push(" from source.").push(table);
    query
}

fn listed<'a>(tables: &'a Tables, table: &str) -> &'a [String] {
    tables.get(table).map(Vec::as_slice).unwrap_or_default()
}
