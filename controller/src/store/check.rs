//! Whether the file is whole: its pages, its references, and each run's requests.

use serde::Serialize;
use sqlx::Row;

use super::rows::uncount;
use super::{Store, StoreError};

/// Problems of one kind that are listed, pages' own alike: enough to see what it is.
const PROBLEMS_MAX: u32 = 100;

/// What a look at the whole file found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Runs.
    pub runs: u64,
    /// Their requests.
    pub samples: u64,
    /// Each in a line; none says that the file is whole.
    pub problems: Vec<String>,
}

/// Runs that say how many requests they have, and have another number.
const MISCOUNTED: &str = "select run.run_id, run.sample_count, \
       (select count(*) from sample where sample.run_id = run.run_id) as row_count \
     from run where state in ('done', 'failed', 'cancelled') and sample_count is not null \
       and sample_count != row_count \
     order by run.run_id limit ?";

impl Store {
    /// Reads all pages, follows all references and counts each run's requests.
    ///
    /// # Errors
    /// What SQLite says where it cannot go on.
    pub async fn check(&self) -> Result<Checked, StoreError> {
        let error = |error: sqlx::Error| self.error(&error);
        let mut problems: Vec<String> = sqlx::query_scalar("pragma integrity_check(100)")
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        problems.retain(|line| line != "ok");
        let references = sqlx::query(
            "select \"table\" as child, parent, count(*) as row_count
             from pragma_foreign_key_check group by 1, 2 order by 1, 2",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        for row in references {
            problems.push(format!(
                "{}: {} rows belong to a {} that is not there",
                row.try_get::<String, _>("child").map_err(error)?,
                row.try_get::<i64, _>("row_count").map_err(error)?,
                row.try_get::<String, _>("parent").map_err(error)?,
            ));
        }
        let miscounted = sqlx::query(MISCOUNTED)
            .bind(PROBLEMS_MAX)
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        for row in miscounted {
            problems.push(format!(
                "run {}: {} of its {} requests are stored",
                row.try_get::<String, _>("run_id").map_err(error)?,
                row.try_get::<i64, _>("row_count").map_err(error)?,
                row.try_get::<i64, _>("sample_count").map_err(error)?,
            ));
        }
        let (runs, samples) = self.totals().await?;
        Ok(Checked {
            runs,
            samples,
            problems,
        })
    }

    /// Runs and requests that are stored.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn totals(&self) -> Result<(u64, u64), StoreError> {
        let (runs, samples): (i64, i64) =
            sqlx::query_as("select (select count(*) from run), (select count(*) from sample)")
                .fetch_one(&self.pool)
                .await
                .map_err(|error| self.error(&error))?;
        Ok((uncount(runs), uncount(samples)))
    }

    /// Reads all pages of a file before others rely on it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]; what SQLite says.
    pub async fn check_pages(&self) -> Result<(), StoreError> {
        let found: String = sqlx::query_scalar("pragma quick_check(1)")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        match found.as_str() {
            "ok" => Ok(()),
            _ => Err(StoreError::Damaged(self.path.clone())),
        }
    }
}
