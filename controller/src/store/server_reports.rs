//! What `doctor` found of servers: stored as it came, the newest of a server found by its URL.

use contracts::doctor::ServerReport;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, Transaction};
use ulid::Ulid;

use super::rows::{json, parse_json, word};
use super::{Store, StoreError};
use crate::record::StoredReport;

impl Store {
    /// Stores a report and gives it an id.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn add_server_report(
        &self,
        report: ServerReport,
        agent_name: &str,
        now_unix_ms: i64,
    ) -> Result<StoredReport, StoreError> {
        let stored = StoredReport {
            report_id: Ulid::generate().to_string(),
            agent_name: agent_name.to_owned(),
            created_unix_ms: now_unix_ms,
            report,
        };
        let mut transaction = self.begin().await?;
        let inserted = insert(&mut transaction, &stored).await;
        inserted.map_err(|error| self.error(&error))?;
        let done = transaction.commit().await;
        done.map_err(|error| self.error(&error))?;
        Ok(stored)
    }

    /// The newest report of the server at `url`, in whichever of its forms that is written.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn server_report(&self, url: &str) -> Result<Option<StoredReport>, StoreError> {
        let row = sqlx::query(
            "select report_id as server_report_id, agent_name as report_agent_name,
                    created_unix_ms as report_created_unix_ms, report_json
             from server_report where url = ? order by created_unix_ms desc, report_id desc limit 1",
        )
        .bind(base_url(url))
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        match row {
            Some(row) => read(&row)
                .map_err(|error| self.error(&error))?
                .transpose()
                .map_err(|why| self.bad_row("report_json", why)),
            None => Ok(None),
        }
    }
}

/// Stores a report; one that is there stays as it is.
pub(super) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    stored: &StoredReport,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert or ignore into server_report (report_id, url, agent_name, counting,
                                              created_unix_ms, report_json)
         values (?, ?, ?, ?, ?, ?)",
    )
    .bind(&stored.report_id)
    .bind(base_url(&stored.report.url))
    .bind(&stored.agent_name)
    .bind(word(&stored.report.counting))
    .bind(stored.created_unix_ms)
    .bind(json(&stored.report))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// The report of a row that has its columns under the names above; none where they are null.
pub(super) fn read(row: &SqliteRow) -> Result<Option<Result<StoredReport, String>>, sqlx::Error> {
    let document: Option<String> = row.try_get("report_json")?;
    let Some(document) = document else {
        return Ok(None);
    };
    let report_id = row.try_get("server_report_id")?;
    let agent_name = row.try_get("report_agent_name")?;
    let created_unix_ms = row.try_get("report_created_unix_ms")?;
    Ok(Some(parse_json(&document).map(|report| StoredReport {
        report_id,
        agent_name,
        created_unix_ms,
        report,
    })))
}

/// One spelling of a server's URL: host in lower case, no usual port, no `/v1`, no slash at the end.
fn base_url(url: &str) -> String {
    let parsed = reqwest::Url::parse(url);
    let text = parsed.map_or_else(|_| url.to_owned(), |url| url.to_string());
    let text = text.trim_end_matches('/');
    text.strip_suffix("/v1").unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_spelling() {
        for url in [
            "http://gpu:8000",
            "HTTP://GPU:8000/",
            "http://gpu:8000/v1",
            "http://gpu:8000/v1/",
        ] {
            assert_eq!(base_url(url), "http://gpu:8000");
        }
        assert_eq!(base_url("https://gpu:443/llm/v1"), "https://gpu/llm");
        assert_eq!(base_url("no url"), "no url");
    }
}
