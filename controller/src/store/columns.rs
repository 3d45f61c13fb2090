//! A run's columns: stored with its end, read instead of its rows.
//!
//! The rows stay the truth. Where columns are missing, of another layout or damaged they are made
//! again from the rows, and where only reading is wanted that is all: nothing is written.

use sqlx::{Row as _, Sqlite, Transaction};

use super::samples::Fields;
use super::{Store, StoreError};
use crate::columns::{Builder, Columns, packed};

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
        let columns = builder.finish();
        columns.warn(run_id);
        Ok(columns)
    }
}
