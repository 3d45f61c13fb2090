//! Sessions: finding one, and counting how often it was extended.

use super::{Store, StoreError};

/// Ids that are given where a prefix is not unique.
const SHOWN: u32 = 3;

impl Store {
    /// Ids of the sessions that start with `prefix` (upper or lower case), a few at most.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn sessions_of(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let wanted = prefix.to_ascii_uppercase();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        // The upper end of the range: no ULID has a character above `Z`.
        sqlx::query_scalar(
            "select session_id from session where session_id >= ? and session_id < ?
             order by session_id limit ?",
        )
        .bind(&wanted)
        .bind(format!("{wanted}["))
        .bind(SHOWN)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))
    }

    /// Counts one more extension, by `repeat_count` passes, of a session that has `extended_count` of
    /// them. False where another command has extended it since.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn extend_session(
        &self,
        session_id: &str,
        extended_count: u32,
        repeat_count: u32,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query(
            "update session set extended_count = extended_count + 1,
                 planned_count = max(planned_count, repeat_count) + ?
             where session_id = ? and extended_count = ?",
        )
        .bind(repeat_count)
        .bind(session_id)
        .bind(extended_count)
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        transaction
            .commit()
            .await
            .map_err(|error| self.error(&error))?;
        Ok(done.rows_affected() == 1)
    }
}
