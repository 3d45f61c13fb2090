//! The controller's list of agents. Tokens are not here: only where they are read from.

use serde::Serialize;
use sqlx::Row;

use super::{Store, StoreError};

/// One agent as the user added it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentRow {
    /// How `--agent` calls it.
    pub name: String,
    /// `http://host:7070`
    pub url: String,
    /// File that its token is read from.
    pub token_file: Option<String>,
    /// PEM file of the authority that signed its certificate.
    pub ca_file: Option<String>,
}

impl Store {
    /// Adds an agent, or changes the one of that name.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn add_agent(&self, agent: &AgentRow, now_unix_ms: i64) -> Result<(), StoreError> {
        sqlx::query(
            "insert into agent (agent_name, url, token_file, ca_file, added_unix_ms)
             values (?, ?, ?, ?, ?)
             on conflict (agent_name) do update
             set url = excluded.url, token_file = excluded.token_file, ca_file = excluded.ca_file",
        )
        .bind(&agent.name)
        .bind(&agent.url)
        .bind(&agent.token_file)
        .bind(&agent.ca_file)
        .bind(now_unix_ms)
        .execute(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(())
    }

    /// All agents by name.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        let rows = sqlx::query(
            "select agent_name, url, token_file, ca_file from agent order by agent_name",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let read = |row: &sqlx::sqlite::SqliteRow| -> Result<AgentRow, sqlx::Error> {
            Ok(AgentRow {
                name: row.try_get("agent_name")?,
                url: row.try_get("url")?,
                token_file: row.try_get("token_file")?,
                ca_file: row.try_get("ca_file")?,
            })
        };
        rows.iter()
            .map(|row| read(row).map_err(|error| self.error(&error)))
            .collect()
    }

    /// Forgets an agent; its runs stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none of that name.
    pub async fn remove_agent(&self, name: &str) -> Result<(), StoreError> {
        let done = sqlx::query("delete from agent where agent_name = ?")
            .bind(name)
            .execute(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        if done.rows_affected() == 0 {
            return Err(StoreError::NotFound {
                what: "agent",
                id: name.to_owned(),
                path: self.path.clone(),
            });
        }
        Ok(())
    }
}
