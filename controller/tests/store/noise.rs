//! What `calibrate --runs` found, as rows that `compare` reads back.

use std::collections::BTreeMap;

use contracts::run::Mode;
use controller::compare::judge::Floor;
use controller::store::{FloorKey, NewFloor, Store};

use crate::fixtures::*;

fn floor(metrics: &[(&str, f64)], measured_unix_ms: i64) -> NewFloor {
    let spread = |log_sd| Floor {
        log_sd,
        run_count: 5,
        measured_unix_ms,
    };
    NewFloor {
        key: FloorKey::of(&queued("01RUN", "01SESSION")),
        session_id: format!("01SESSION{measured_unix_ms}"),
        metrics: metrics
            .iter()
            .map(|(metric, log_sd)| ((*metric).to_owned(), spread(*log_sd)))
            .collect(),
    }
}

#[tokio::test]
async fn the_newest_floor_of_a_key_takes_the_place_of_all_its_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, _) = with_run(&path, "01RUN").await;

    let first = floor(&[("wall_ms_p50", 0.0125), ("ttft_ms_p50", 0.03)], 1_000);
    store.set_noise_floor(&first).await.unwrap();
    let second = floor(&[("wall_ms_p50", 0.02)], 2_000);
    store.set_noise_floor(&second).await.unwrap();
    let offline = NewFloor {
        key: FloorKey {
            mode: Mode::Offline,
            ..second.key.clone()
        },
        ..floor(&[("wall_ms_p50", 0.5)], 3_000)
    };
    store.set_noise_floor(&offline).await.unwrap();
    store.close().await;

    let store = Store::open_read(&path).await.unwrap();
    let unknown = FloorKey {
        engine: "ch99".to_owned(),
        ..second.key.clone()
    };
    let found = store
        .noise_floors(&[second.key.clone(), unknown])
        .await
        .unwrap();
    assert_eq!(
        found,
        BTreeMap::from([(second.key.clone(), second.metrics.clone())])
    );
    let all = store.all_noise_floors().await.unwrap();
    let listed: Vec<(Mode, f64, &str)> = all
        .iter()
        .map(|floor| {
            let session = floor.session_id.as_deref().unwrap();
            (floor.key.mode, floor.floor.log_sd, session)
        })
        .collect();
    assert_eq!(
        listed,
        [
            (Mode::Offline, 0.5, "01SESSION3000"),
            (Mode::Online, 0.02, "01SESSION2000")
        ]
    );
    assert_eq!(all[0].hostname, "bench-1");
}
