//! What is stored comes back whole and once, by whatever road.

use contracts::run::{RunFailure, RunState, Stage};
use contracts::sample::Sample;
use controller::record::RunRecord;
use controller::store::{AgentRow, RunFilter, Store, StoreError, Stored};
use sqlx::{Connection, Row};

use crate::fixtures::*;

#[tokio::test]
async fn a_run_comes_back_as_it_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    assert_eq!(
        store.runs(&RunFilter::default()).await.unwrap(),
        std::slice::from_ref(&run)
    );

    let run = ended(run);
    let stored = store
        .finish_run(&run, ok(samples()), &events())
        .await
        .unwrap();
    assert_eq!(stored, Stored::Now);
    store.close().await;

    let store = Store::open_read(&path).await.unwrap();
    let back = store
        .with_samples(store.run_by_prefix("01r").await.unwrap())
        .await
        .unwrap();
    assert_eq!(back.run, run);
    assert_eq!(back.samples, samples());
    assert_eq!(store.events("01RUN").await.unwrap(), events());
}

#[tokio::test]
async fn the_end_of_a_run_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let run = ended(run);
    store
        .finish_run(&run, ok(samples()), &events())
        .await
        .unwrap();
    let other = RunRecord {
        stats: None,
        ..run.clone()
    };
    assert_eq!(
        store.finish_run(&other, ok(Vec::new()), &[]).await.unwrap(),
        Stored::Before
    );
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), run);
    assert_eq!(store.samples("01RUN").await.unwrap().len(), 3);

    let stranger = ended(queued("01OTHER", "01SESSION"));
    let refused = store
        .finish_run(&stranger, ok(samples()), &[])
        .await
        .unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { .. }), "{refused}");
    assert!(store.samples("01OTHER").await.unwrap().is_empty());
}

#[tokio::test]
async fn the_agents_own_end_replaces_one_that_the_controller_made_up() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let mut lost = run.clone();
    lost.status.state = RunState::Failed;
    lost.status.failure = Some(RunFailure {
        stage: Stage::Preflight,
        message: "lost".to_owned(),
        log_tail: Vec::new(),
    });
    let made_up = store.finish_run(&lost, ok(Vec::new()), &[]).await.unwrap();
    assert_eq!(made_up, Stored::Now);
    let again = store.finish_run(&lost, ok(Vec::new()), &[]).await.unwrap();
    assert_eq!(again, Stored::Before);

    let real = ended(run);
    for expected in [Stored::Now, Stored::Before] {
        let stored = store.finish_run(&real, ok(samples()), &events()).await;
        assert_eq!(stored.unwrap(), expected);
    }
    let late = store.finish_run(&lost, ok(Vec::new()), &[]).await.unwrap();
    assert_eq!(late, Stored::Before);
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), real);
    assert_eq!(store.samples("01RUN").await.unwrap(), samples());
    assert_eq!(store.events("01RUN").await.unwrap(), events());
}

#[tokio::test]
async fn a_file_that_was_taken_away_is_not_written_to_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    for another_is_there in [false, true] {
        let (store, run) = with_run(&path, "01RUN").await;
        // While it is there, so that the other one is not given its number.
        std::fs::write(folder.path().join("other"), "").unwrap();
        std::fs::remove_file(&path).unwrap();
        if another_is_there {
            std::fs::rename(folder.path().join("other"), &path).unwrap();
        }
        let lost = store
            .finish_run(&ended(run), ok(samples()), &events())
            .await;
        assert!(matches!(lost, Err(StoreError::Removed(_))), "{lost:?}");
    }
}

#[tokio::test]
async fn nothing_is_half_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    // The second of two samples with one index breaks the key, after the run was updated.
    let mut twice = samples();
    twice.extend(samples());
    store
        .finish_run(&ended(run.clone()), ok(twice), &events())
        .await
        .unwrap_err();
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), run);
    assert!(store.samples("01RUN").await.unwrap().is_empty());
    assert!(store.events("01RUN").await.unwrap().is_empty());
    // And the run can still be stored.
    let stored = store
        .finish_run(&ended(run), ok(samples()), &events())
        .await
        .unwrap();
    assert_eq!(stored, Stored::Now);
}

#[tokio::test]
async fn a_sample_that_cannot_be_read_undoes_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    // Beyond the first insert, so that there is something to undo.
    let good = (0..700).map(|index| {
        Ok(Sample {
            index,
            ..Sample::default()
        })
    });
    let broken = good.chain([Err("sample 700 cannot be read".to_owned())]);
    let error = store
        .finish_run(&ended(run.clone()), broken, &events())
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::BadSample { .. }), "{error}");
    let words = error.to_string();
    assert!(
        words.contains("01RUN") && words.contains("sample 700"),
        "{words}"
    );
    assert!(store.samples("01RUN").await.unwrap().is_empty());
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), run);
}

#[tokio::test]
async fn many_samples_take_many_inserts() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let many: Vec<Sample> = (0..1203)
        .map(|index| Sample {
            index,
            ..Sample::default()
        })
        .collect();
    store
        .finish_run(&ended(run), ok(many.clone()), &[])
        .await
        .unwrap();
    assert_eq!(store.samples("01RUN").await.unwrap(), many);
}

#[tokio::test]
async fn prefixes_must_be_unique() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = with_run(&folder.path().join("bench.db"), "01AB").await;
    store
        .create_run(&queued("01AC", "01SESSION"), &host())
        .await
        .unwrap();
    assert_eq!(store.run_by_prefix("01ab").await.unwrap().run_id, "01AB");
    let error = store.run_by_prefix("01A").await.unwrap_err();
    assert!(matches!(&error, StoreError::Ambiguous { matches, .. } if matches.len() == 2));
    for nothing in ["01AD", "", "%", "' or 1=1"] {
        let error = store.run_by_prefix(nothing).await.unwrap_err();
        assert!(
            matches!(error, StoreError::NotFound { .. }),
            "{nothing}: {error}"
        );
    }
}

#[tokio::test]
async fn filters_let_through_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let (store, first) = with_run(&folder.path().join("bench.db"), "01A").await;
    session(&store, "01OTHER").await;
    let second = RunRecord {
        created_unix_ms: 1_700_000_000_001,
        ..queued("01B", "01OTHER")
    };
    store.create_run(&second, &host()).await.unwrap();
    store
        .finish_run(&ended(first), ok(Vec::new()), &[])
        .await
        .unwrap();
    let ids = |filter: RunFilter| {
        let store = store.clone();
        async move {
            let runs = store.runs(&filter).await.unwrap();
            runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>()
        }
    };
    assert_eq!(ids(RunFilter::default()).await, ["01A", "01B"]);
    assert_eq!(
        ids(RunFilter {
            unfinished: true,
            ..RunFilter::default()
        })
        .await,
        ["01B"]
    );
    assert_eq!(
        ids(RunFilter {
            limit: Some(1),
            ..RunFilter::default()
        })
        .await,
        ["01B"]
    );
}

#[tokio::test]
async fn agents_are_added_changed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("bench.db")).await.unwrap();
    let row = AgentRow {
        name: "box".to_owned(),
        url: "http://box:7070".to_owned(),
        token_file: Some("/run/token".to_owned()),
        ca_file: None,
    };
    store.add_agent(&row, 1).await.unwrap();
    let moved = AgentRow {
        url: "http://box:7071".to_owned(),
        ..row
    };
    store.add_agent(&moved, 2).await.unwrap();
    assert_eq!(store.agents().await.unwrap(), [moved]);
    store.remove_agent("box").await.unwrap();
    let error = store.remove_agent("box").await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let writers = (0..6).map(|writer: u32| {
        let path = path.clone();
        // The first open makes the file: six at once must not trip over each other either.
        tokio::spawn(async move {
            let store = Store::open(&path).await.unwrap();
            let session_id = format!("01S{writer}");
            session(&store, &session_id).await;
            for n in 0..5 {
                let run = queued(&format!("01R{writer}{n}"), &session_id);
                store.create_run(&run, &host()).await.unwrap();
                store
                    .finish_run(&ended(run), ok(samples()), &events())
                    .await
                    .unwrap();
            }
            store.close().await;
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let store = Store::open_read(&path).await.unwrap();
    assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 30);
}

#[tokio::test]
async fn views_are_ready_for_percentiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    store
        .finish_run(&ended(run), ok(samples()), &[])
        .await
        .unwrap();
    store.close().await;
    let url = format!("sqlite://{}", path.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let rows = sqlx::query("select * from run_request")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1, "warm-up and failed requests are left out");
    let row = rows.first().unwrap();
    assert_eq!(row.get::<f64, _>("wall_ms"), 0.1 + 0.2);
    assert_eq!(row.get::<String, _>("engine"), "ch02");
    let row = sqlx::query("select * from run_summary")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(row.get::<String, _>("engine_build"), "0.1.0+3fa1c2d");
    assert_eq!(row.get::<f64, _>("foreign_cpu_share"), 0.125);
    assert_eq!(
        row.get::<Option<f64>, _>("tpot_ms"),
        None,
        "0.0 says not measured"
    );
}
