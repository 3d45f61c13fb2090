//! What `calibrate --client` found, as rows.

use contracts::calibrate::{ClientFloor, FloorLevel, Spread};
use controller::store::Store;
use sqlx::{Connection, Row};

use crate::fixtures::*;

#[tokio::test]
async fn a_floor_has_a_row_for_each_number_of_streams() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let level = |streams: u32| FloorLevel {
        streams,
        requests: streams * 3,
        ttft_error_ms: Spread {
            p50: 0.25,
            p99: f64::from(streams),
        },
        ..FloorLevel::default()
    };
    let floor = ClientFloor {
        agent_build: "0.1.0+abc".to_owned(),
        host_fingerprint: host().fingerprint,
        levels: vec![level(1), level(100)],
    };
    let store = Store::open(&path).await.unwrap();
    for now_unix_ms in [1_000, 2_000] {
        store
            .add_client_floor(&floor, &host(), now_unix_ms)
            .await
            .unwrap();
    }
    store.close().await;
    let url = format!("sqlite://{}", path.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let rows = sqlx::query(
        "select hostname, measured_unix_ms, stream_count, request_count, ttft_error_p99_ms, level_json
         from client_floor join host using (host_fingerprint)
         order by measured_unix_ms, stream_count",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    assert_eq!(rows.len(), 4);
    let last = rows.last().unwrap();
    assert_eq!(last.get::<String, _>("hostname"), "bench-1");
    assert_eq!(last.get::<i64, _>("measured_unix_ms"), 2_000);
    assert_eq!(last.get::<i64, _>("request_count"), 300);
    assert_eq!(last.get::<f64, _>("ttft_error_p99_ms"), 100.0);
    let stored: FloorLevel = serde_json::from_str(last.get("level_json")).unwrap();
    assert_eq!(stored, level(100));
}
