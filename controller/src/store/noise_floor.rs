//! How much equal runs of one engine differ on a host, as `calibrate --runs` found it: what
//! `compare` holds a difference of two single runs against.
//!
//! For `compare`: [`Store::noise_floors`] with [`FloorKey::of`] each side's run gives, for each key
//! that has one, the [`Floor`] of every metric under the name that its row has.

use std::collections::BTreeMap;

use contracts::run::Mode;
use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite};

use super::rows::{parse_word, word};
use super::{Store, StoreError};
use crate::compare::judge::Floor;
use crate::record::RunRecord;

/// What a floor is of. Builds and options are not in it: a floor is the spread of equal runs, not
/// their level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FloorKey {
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// `ch01`, or the name of an engine.
    pub engine: String,
    /// How it was driven.
    pub mode: Mode,
    /// Key of the work.
    pub workload_key: String,
}

impl FloorKey {
    /// The key of what a run is one more of.
    pub fn of(run: &RunRecord) -> Self {
        Self {
            host_fingerprint: run.host_fingerprint.clone(),
            engine: run.engine.clone(),
            mode: run.status.spec.arm.mode,
            workload_key: run.workload_key.clone(),
        }
    }
}

/// Floors by what they are of, then by metric: `wall_ms_p50`, `tok_per_s`, …
pub type NoiseFloors = BTreeMap<FloorKey, BTreeMap<String, Floor>>;

/// Floors of one key, from one set of equal runs.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFloor {
    /// What they are of. Its host is stored.
    pub key: FloorKey,
    /// Session that the runs are in.
    pub session_id: String,
    /// By metric.
    pub metrics: BTreeMap<String, Floor>,
}

/// A floor as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredFloor {
    /// What it is of.
    #[serde(flatten)]
    pub key: FloorKey,
    /// For people.
    pub hostname: String,
    /// `wall_ms_p50`, `tok_per_s`, …
    pub metric: String,
    /// The spread.
    #[serde(flatten)]
    pub floor: Floor,
    /// Session that the runs are in.
    pub session_id: Option<String>,
}

const SELECT: &str = "select noise_floor.*, host.hostname from noise_floor
     join host on host.host_fingerprint = noise_floor.host_fingerprint";

impl Store {
    /// Stores the floors of one key; those that it had before give way, of all metrics.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn set_noise_floor(&self, new: &NewFloor) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let stored = async {
            sqlx::query(
                "delete from noise_floor where host_fingerprint = ? and engine = ? and mode = ?
                 and workload_key = ?",
            )
            .bind(&new.key.host_fingerprint)
            .bind(&new.key.engine)
            .bind(word(&new.key.mode))
            .bind(&new.key.workload_key)
            .execute(&mut *transaction)
            .await?;
            for (metric, floor) in &new.metrics {
                sqlx::query(
                    "insert into noise_floor (host_fingerprint, engine, mode, workload_key, metric,
                         run_count, log_sd, measured_unix_ms, session_id)
                     values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .bind(&new.key.host_fingerprint)
                .bind(&new.key.engine)
                .bind(word(&new.key.mode))
                .bind(&new.key.workload_key)
                .bind(metric)
                .bind(floor.run_count)
                .bind(floor.log_sd)
                .bind(floor.measured_unix_ms)
                .bind(&new.session_id)
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

    /// The floors of each key that has some.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn noise_floors(&self, keys: &[FloorKey]) -> Result<NoiseFloors, StoreError> {
        let mut found = NoiseFloors::new();
        for key in keys {
            let mut query = sqlx::QueryBuilder::<Sqlite>::new(SELECT);
            query.push(" where noise_floor.host_fingerprint = ");
            query.push_bind(&key.host_fingerprint);
            query.push(" and engine = ").push_bind(&key.engine);
            query.push(" and mode = ").push_bind(word(&key.mode));
            query
                .push(" and workload_key = ")
                .push_bind(&key.workload_key);
            let rows = query
                .build()
                .fetch_all(&self.pool)
                .await
                .map_err(|error| self.error(&error))?;
            for row in &rows {
                let stored = self.read_floor(row)?;
                let of = found.entry(key.clone()).or_default();
                of.insert(stored.metric, stored.floor);
            }
        }
        Ok(found)
    }

    /// All floors, by host, engine, mode, work and metric.
    ///
    /// # Errors
    /// What SQLite says; a row that cannot be read back.
    pub async fn all_noise_floors(&self) -> Result<Vec<StoredFloor>, StoreError> {
        let mut query = sqlx::QueryBuilder::<Sqlite>::new(SELECT);
        query.push(" order by hostname, engine, mode, workload_key, metric");
        let rows = query
            .build()
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        rows.iter().map(|row| self.read_floor(row)).collect()
    }

    fn read_floor(&self, row: &SqliteRow) -> Result<StoredFloor, StoreError> {
        let mode: String = row.try_get("mode").map_err(|error| self.error(&error))?;
        let mode = parse_word(&mode).map_err(|why| self.bad_row("noise_floor.mode", why))?;
        let read = || -> Result<StoredFloor, sqlx::Error> {
            Ok(StoredFloor {
                key: FloorKey {
                    host_fingerprint: row.try_get("host_fingerprint")?,
                    engine: row.try_get("engine")?,
                    mode,
                    workload_key: row.try_get("workload_key")?,
                },
                hostname: row.try_get("hostname")?,
                metric: row.try_get("metric")?,
                floor: Floor {
                    log_sd: row.try_get("log_sd")?,
                    run_count: row.try_get("run_count")?,
                    measured_unix_ms: row.try_get("measured_unix_ms")?,
                },
                session_id: row.try_get("session_id")?,
            })
        };
        read().map_err(|error| self.error(&error))
    }
}
