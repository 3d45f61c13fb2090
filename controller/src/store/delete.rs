//! Taking runs out, and giving their room back.

use serde::Serialize;

use super::rows::uncount;
use super::{Store, StoreError};

/// What was taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// Runs.
    pub runs: u64,
    /// Their requests.
    pub samples: u64,
    /// Sessions that had no other run.
    pub sessions: u64,
}

const ENDED_OF_THESE: &str = "select run_id from run where state in ('done', 'failed', 'cancelled') \
     and run_id in (select value from json_each(?))";

impl Store {
    /// Takes runs out with all their rows, in one transaction, and sessions that are empty then.
    /// A run that has not ended stays; hosts, floors and reports of servers stay too.
    ///
    /// # Errors
    /// What SQLite says; then nothing was taken out.
    pub async fn delete_runs(&self, run_ids: &[String]) -> Result<Deleted, StoreError> {
        let mut transaction = self.begin().await?;
        let ids = super::rows::json(&run_ids);
        let deleted = async {
            let ended: Vec<String> = sqlx::query_scalar(ENDED_OF_THESE)
                .bind(&ids)
                .fetch_all(&mut *transaction)
                .await?;
            let ended = super::rows::json(&ended);
            let sessions: Vec<String> = sqlx::query_scalar(
                "select distinct session_id from run
                 where run_id in (select value from json_each(?))",
            )
            .bind(&ended)
            .fetch_all(&mut *transaction)
            .await?;
            let mut counts = [0; 3];
            let statements = [
                // Told apart from what a cascade takes, so that it can be counted.
                "delete from sample where run_id in (select value from json_each(?))",
                "delete from run where run_id in (select value from json_each(?))",
                "delete from session where session_id in (select value from json_each(?))
                 and not exists (select 1 from run where run.session_id = session.session_id)",
            ];
            let of = [&ended, &ended, &super::rows::json(&sessions)];
            for ((count, statement), ids) in counts.iter_mut().zip(statements).zip(of) {
                let done = sqlx::query(statement).bind(ids);
                *count = done.execute(&mut *transaction).await?.rows_affected();
            }
            let [samples, runs, sessions] = counts;
            Ok(Deleted {
                runs,
                samples,
                sessions,
            })
        };
        let deleted = deleted.await.map_err(|error| self.error(&error))?;
        let done = transaction.commit().await;
        done.map_err(|error| self.error(&error))?;
        Ok(deleted)
    }

    /// Bytes of the file that hold nothing: what is stored next goes there.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn free_bytes(&self) -> Result<u64, StoreError> {
        let bytes: i64 = sqlx::query_scalar(
            "select freelist_count * page_size from pragma_freelist_count, pragma_page_size",
        )
        .fetch_one(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(uncount(bytes))
    }

    /// Writes the file anew without what holds nothing, which needs as much room again for a
    /// moment, and gives by how many bytes it is smaller.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while others use it; what SQLite says.
    pub async fn vacuum(&self) -> Result<u64, StoreError> {
        self.fold_in_log().await?;
        let before = self.file_bytes();
        let done = sqlx::query("vacuum").execute(&self.pool).await;
        done.map_err(|error| self.error(&error))?;
        self.fold_in_log().await?;
        Ok(before.saturating_sub(self.file_bytes()))
    }

    /// Moves what stands in the write-ahead log into the file.
    async fn fold_in_log(&self) -> Result<(), StoreError> {
        let done = sqlx::query("pragma wal_checkpoint(truncate)");
        let done = done.execute(&self.pool).await;
        done.map(|_| ()).map_err(|error| self.error(&error))
    }

    fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }
}
