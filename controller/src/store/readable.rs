//! Whether a run of a file of others can be read back. One that cannot, taken over as it is, would make
//! every list and comparison of this database fail.

use super::{Store, StoreError};

impl Store {
    /// Reads the run's documents and counts its requests.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] names the column; [`StoreError::BadSample`] for fewer or more requests than
    /// the run says it has, and for an id that is none; what SQLite says.
    pub(super) async fn must_be_readable(&self, run_id: &str) -> Result<(), StoreError> {
        let bad = |why: String| StoreError::BadSample {
            run_id: run_id.to_owned(),
            why,
        };
        let run = match self.run_by_prefix(run_id).await {
            Err(StoreError::NotFound { .. }) => return Err(bad("that is not an id".to_owned())),
            run => run?,
        };
        let Some(said) = run.status.samples else {
            return Ok(());
        };
        let count: i64 = sqlx::query_scalar("select count(*) from sample where run_id = ?")
            .bind(run_id)
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        if u64::try_from(count) == Ok(said.count) {
            return Ok(());
        }
        Err(bad(format!(
            "it has {count} requests here and had {}",
            said.count
        )))
    }
}
