//! A run's columns: stored with its end, read instead of its rows.
//!
//! The rows stay the truth. Where columns are missing, of another layout or damaged they are made
//! again from the rows, and where only reading is wanted that is all: nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, Transaction};

use super::rows::{json, parse_json};
use super::samples::Fields;
use super::{Store, StoreError};
use crate::columns::{Builder, Columns, packed};
use crate::compare::input::Spoken;

impl Store {
    /// Stores a run's columns, in the transaction that stores its rows.
    pub(super) async fn insert_columns(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        run_id: &str,
        columns: &Columns,
    ) -> Result<(), StoreError> {
        let blob = packed::pack(columns).map_err(|error| StoreError::BadSample {
            run_id: run_id.to_owned(),
            why: format!("its columns cannot be packed: {error}"),
        })?;
        sqlx::query(
            "insert or replace into run_columns (run_id, layout, columns) values (?, ?, ?)",
        )
        .bind(run_id)
        .bind(packed::LAYOUT)
        .bind(blob)
        .execute(&mut **transaction)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(())
    }

    /// What was said in these of a run's measured requests.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn spoken(
        &self,
        run_id: &str,
        indices: &BTreeSet<u32>,
    ) -> Result<BTreeMap<u32, Spoken>, StoreError> {
        // One list in place of a parameter each, of which SQLite has a limit.
        let rows = sqlx::query(
            "select sample_index, output_text, output_ids_json, firm_steps from sample
             where run_id = ? and warmup = 0
               and sample_index in (select value from json_each(?))",
        )
        .bind(run_id)
        .bind(json(indices))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let read = |row: &SqliteRow| {
            let index = row.try_get("sample_index");
            let index = index.map_err(|error| self.error(&error))?;
            Ok((index, self.read_spoken(row)?))
        };
        rows.iter().map(read).collect()
    }

    fn read_spoken(&self, row: &SqliteRow) -> Result<Spoken, StoreError> {
        let error = |error: sqlx::Error| self.error(&error);
        let ids: Option<String> = row.try_get("output_ids_json").map_err(error)?;
        let ids = ids.map(|ids| parse_json(&ids)).transpose();
        Ok(Spoken {
            ids: ids.map_err(|why| self.bad_row("output_ids_json", why))?,
            text: row.try_get("output_text").map_err(error)?,
            firm_steps: row.try_get("firm_steps").map_err(error)?,
        })
    }

    /// A run's columns; empty ones of a run that is not there.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn columns(&self, run_id: &str) -> Result<Columns, StoreError> {
        let row = sqlx::query("select columns from run_columns where run_id = ? and layout = ?")
            .bind(run_id)
            .bind(packed::LAYOUT)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        if let Some(row) = row {
            let blob: &[u8] = row.try_get(0).map_err(|error| self.error(&error))?;
            match packed::unpack(blob) {
                Ok(columns) => {
                    columns.warn(run_id);
                    return Ok(columns);
                }
                Err(why) => tracing::warn!("run {run_id}: its columns are made again: {why}"),
            }
        }
        let columns = self.columns_of_rows(run_id).await?;
        columns.warn(run_id);
        Ok(columns)
    }

    /// Runs whose stored columns are not what their rows make. Columns of another layout are not
    /// looked at: nobody reads them.
    pub(super) async fn odd_columns(&self) -> Result<Vec<String>, StoreError> {
        let stored: Vec<String> =
            sqlx::query_scalar("select run_id from run_columns where layout = ? order by run_id")
                .bind(packed::LAYOUT)
                .fetch_all(&self.pool)
                .await
                .map_err(|error| self.error(&error))?;
        let mut odd = Vec::new();
        for run_id in stored {
            let blob: Vec<u8> =
                sqlx::query_scalar("select columns from run_columns where run_id = ?")
                    .bind(&run_id)
                    .fetch_one(&self.pool)
                    .await
                    .map_err(|error| self.error(&error))?;
            if packed::unpack(&blob).ok() != Some(self.columns_of_rows(&run_id).await?) {
                odd.push(run_id);
            }
        }
        Ok(odd)
    }

    async fn columns_of_rows(&self, run_id: &str) -> Result<Columns, StoreError> {
        let mut builder = Builder::default();
        self.each_row(run_id, Fields::All, |sample, blob| {
            let blob = blob.as_ref();
            builder.take(
                &sample,
                blob.map(|(encoding, bytes)| (encoding.as_str(), bytes.as_slice())),
            );
            Ok(())
        })
        .await?;
        Ok(builder.finish())
    }
}
