//! The load generator's own error on a host, as `calibrate --client` found it.

use contracts::calibrate::ClientFloor;
use contracts::host::HostFacts;

use super::rows::json;
use super::write::save_host;
use super::{Store, StoreError};

impl Store {
    /// Stores a floor, a row for each number of streams, and the host it was measured on.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn add_client_floor(
        &self,
        floor: &ClientFloor,
        host: &HostFacts,
        now_unix_ms: i64,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let stored = async {
            save_host(&mut transaction, host, now_unix_ms).await?;
            for level in &floor.levels {
                sqlx::query(
                    "insert into client_floor (host_fingerprint, measured_unix_ms, stream_count,
                         agent_build, request_count, ttft_error_p50_ms, ttft_error_p99_ms,
                         itl_error_p50_ms, itl_error_p99_ms, wall_error_p50_ms, wall_error_p99_ms,
                         level_json)
                     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .bind(&host.fingerprint)
                .bind(now_unix_ms)
                .bind(level.streams)
                .bind(&floor.agent_build)
                .bind(level.requests)
                .bind(level.ttft_error_ms.p50)
                .bind(level.ttft_error_ms.p99)
                .bind(level.itl_error_ms.p50)
                .bind(level.itl_error_ms.p99)
                .bind(level.wall_error_ms.p50)
                .bind(level.wall_error_ms.p99)
                .bind(json(level))
                .execute(&mut *transaction)
                .await?;
            }
            Ok(())
        };
        stored.await.map_err(|error| self.error(&error))?;
        transaction
            .commit()
            .await
            .map_err(|error| self.error(&error))
    }
}
