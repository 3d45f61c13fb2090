//! Rows as documents, for what travels between databases whole: a host and its floors.
//!
//! A document has the columns' own names. What this build has no column for is left out, so that a
//! newer export can be read.

use serde_json::{Map, Number, Value};
use sqlx::sqlite::SqliteRow;
use sqlx::{
    Column as _, QueryBuilder, Row, Sqlite, SqliteConnection, TypeInfo as _, ValueRef as _,
};

use super::{Store, StoreError};

/// A row under its columns' names.
pub type RowDocument = Map<String, Value>;

/// A host, and what was measured of it. Shapes of the rows: `migrations/`.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HostDocument {
    /// Its row of `host`.
    pub host: RowDocument,
    /// Its rows of `noise_floor`.
    #[serde(default)]
    pub noise_floor: Vec<RowDocument>,
    /// Its rows of `client_floor`.
    #[serde(default)]
    pub client_floor: Vec<RowDocument>,
}

impl Store {
    /// The hosts with these fingerprints, and their floors.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn host_documents(
        &self,
        fingerprints: &[String],
    ) -> Result<Vec<HostDocument>, StoreError> {
        let mut documents = Vec::new();
        for fingerprint in fingerprints {
            let host = self.rows("host", "1", fingerprint).await?;
            documents.extend(host.into_iter().next().map(|host| HostDocument {
                host,
                ..HostDocument::default()
            }));
            if let Some(document) = documents.last_mut() {
                let order = "engine, mode, workload_key, metric";
                document.noise_floor = self.rows("noise_floor", order, fingerprint).await?;
                let order = "measured_unix_ms, stream_count";
                document.client_floor = self.rows("client_floor", order, fingerprint).await?;
            }
        }
        Ok(documents)
    }

    /// Stores hosts and floors; a row that is there already is replaced.
    ///
    /// # Errors
    /// What SQLite says: a column that must not be empty, a type that does not fit.
    pub async fn put_hosts(&self, documents: &[HostDocument]) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let put = async {
            for document in documents {
                put(&mut transaction, "host", "host_fingerprint", &document.host).await?;
                for row in &document.noise_floor {
                    let key = "host_fingerprint, engine, mode, workload_key, metric";
                    put(&mut transaction, "noise_floor", key, row).await?;
                }
                for row in &document.client_floor {
                    let key = "host_fingerprint, measured_unix_ms, stream_count";
                    put(&mut transaction, "client_floor", key, row).await?;
                }
            }
            Ok(())
        };
        put.await.map_err(|error| self.error(&error))?;
        let done = transaction.commit().await;
        done.map_err(|error| self.error(&error))
    }

    async fn rows(
        &self,
        table: &'static str,
        order: &'static str,
        fingerprint: &str,
    ) -> Result<Vec<RowDocument>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new("select * from ");
        query.push(table).push(" where host_fingerprint = ");
        query.push_bind(fingerprint).push(" order by ").push(order);
        let rows = query.build().fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let read = rows.iter().map(document).collect::<Result<_, _>>();
        read.map_err(|error| self.error(&error))
    }
}

/// The names of a table's columns in the main database, in their order.
pub(super) async fn columns(
    connection: &mut SqliteConnection,
    table: &str,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select name from pragma_table_info(?) order by cid")
        .bind(table)
        .fetch_all(connection)
        .await
}

fn document(row: &SqliteRow) -> Result<RowDocument, sqlx::Error> {
    let mut document = Map::new();
    for column in row.columns() {
        let name = column.name();
        let raw = row.try_get_raw(name)?;
        let value = match (raw.is_null(), raw.type_info().name()) {
            (true, _) => Value::Null,
            (_, "INTEGER") => Value::from(row.try_get::<i64, _>(name)?),
            (_, "REAL") => {
                let real: f64 = row.try_get(name)?;
                Number::from_f64(real).map_or(Value::Null, Value::Number)
            }
            _ => Value::from(row.try_get::<String, _>(name)?),
        };
        document.insert(name.to_owned(), value);
    }
    Ok(document)
}

async fn put(
    connection: &mut SqliteConnection,
    table: &'static str,
    key: &'static str,
    document: &RowDocument,
) -> Result<(), sqlx::Error> {
    let mut columns = columns(&mut *connection, table).await?;
    // A key that lacks is null, which SQLite refuses by its name.
    columns.retain(|name| document.contains_key(name) || key.split(", ").any(|part| part == name));
    let mut query = QueryBuilder::<Sqlite>::new("insert into ");
    query.push(table).push(" (").push(columns.join(", "));
    query.push(") values (");
    let mut values = query.separated(", ");
    for name in &columns {
        match document.get(name) {
            Some(Value::Number(number)) => match number.as_i64() {
                Some(integer) => values.push_bind(integer),
                None => values.push_bind(number.as_f64()),
            },
            Some(Value::String(text)) => values.push_bind(text.clone()),
            _ => values.push_bind(None::<String>),
        };
    }
    query
        .push(") on conflict (")
        .push(key)
        .push(") do update set ");
    query.push(overwritten(&columns));
    query.build().execute(connection).await?;
    Ok(())
}

/// `a = excluded.a, …` for the `do update` of an insert.
pub(super) fn overwritten(columns: &[String]) -> String {
    let sets = columns
        .iter()
        .map(|name| format!("{name} = excluded.{name}"));
    sets.collect::<Vec<_>>().join(", ")
}
