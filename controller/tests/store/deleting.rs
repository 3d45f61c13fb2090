//! Taking runs out; whether the file is whole; copies of it while others write.

use controller::record::RunRecord;
use controller::store::{Deleted, RunFilter, Store};
use sqlx::{Connection, SqliteConnection};

use crate::fixtures::*;

async fn add(store: &Store, run_id: &str, session_id: &str) -> RunRecord {
    let run = queued(run_id, session_id);
    store.create_run(&run, &host()).await.unwrap();
    finish(store, run).await
}

fn ids(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

async fn by_hand(store: &Store, statement: &'static str) {
    let url = format!("sqlite://{}", store.path().display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("pragma foreign_keys = off")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query(statement)
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn runs_go_with_all_their_rows_and_sessions_that_are_empty_then() {
    let folder = tempfile::tempdir().unwrap();
    let (store, running) = with_run(&folder.path().join("bench.db"), "01RUNNING").await;
    for (run_id, session_id) in [
        ("01A", "01SESSION"),
        ("01B", "02"),
        ("01C", "02"),
        ("01D", "03"),
    ] {
        add(&store, run_id, session_id).await;
    }
    let gone = ids(&["01A", "01B", "01D", "01RUNNING", "01NONE"]);
    let deleted = store.delete_runs(&gone).await.unwrap();
    let expected = Deleted {
        runs: 3,
        samples: 9,
        sessions: 1,
    };
    assert_eq!(deleted, expected);
    let left = store.runs(&RunFilter::default()).await.unwrap();
    let left: Vec<&str> = left.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(left, ["01C", "01RUNNING"], "a run under way stays");
    assert!(store.samples("01A").await.unwrap().is_empty());
    assert!(store.events("01A").await.unwrap().is_empty());
    let checked = store.check().await.unwrap();
    assert_eq!((checked.samples, checked.problems.len()), (3, 0));
    assert_eq!(store.delete_runs(&gone).await.unwrap(), Deleted::default());

    // The session's next run finds it again.
    store.delete_runs(&ids(&["01C"])).await.unwrap();
    let next = add(&store, "01NEXT", "02").await;
    assert_eq!(store.run_by_prefix("01NEXT").await.unwrap(), next);
    finish(&store, running).await;
}

#[tokio::test]
async fn the_room_is_free_for_later_or_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("bench.db")).await.unwrap();
    let run = queued("01BIG", "01SESSION");
    store.create_run(&run, &host()).await.unwrap();
    let mut large = samples();
    large[1].text = Some("x".repeat(1 << 20));
    store.finish_run(&ended(run), ok(large), &[]).await.unwrap();
    assert!(store.free_bytes().await.unwrap() < 1 << 20);
    store.delete_runs(&ids(&["01BIG"])).await.unwrap();
    assert!(store.free_bytes().await.unwrap() >= 1 << 20);
    assert!(store.vacuum().await.unwrap() >= 1 << 20);
    assert_eq!(store.free_bytes().await.unwrap(), 0);
    let bytes = std::fs::metadata(store.path()).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes}");
}

#[tokio::test]
async fn what_is_not_whole_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = with_run(&folder.path().join("bench.db"), "01RUNNING").await;
    for run_id in ["01A", "01B", "01C"] {
        add(&store, run_id, "01SESSION").await;
    }
    let sound = store.check().await.unwrap();
    assert_eq!((sound.runs, sound.samples), (4, 9));
    assert_eq!(sound.problems, [""; 0]);
    by_hand(
        &store,
        "delete from sample where run_id = '01A' and sample_index = 1",
    )
    .await;
    by_hand(
        &store,
        "update sample set wall_ms = 9 where run_id = '01B' and wall_ms > 0",
    )
    .await;
    by_hand(&store, "delete from host").await;
    by_hand(
        &store,
        "insert into run_event values ('01GONE', 1, 0, 'log', '{}')",
    )
    .await;
    let problems = store.check().await.unwrap().problems;
    let expected = [
        "run: 4 rows belong to a host that is not there",
        "run_event: 1 rows belong to a run that is not there",
        "run 01A: 2 of its 3 requests are stored",
        "run 01A: its packed columns are not those of its requests",
        "run 01B: its packed columns are not those of its requests",
    ];
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
}

#[tokio::test]
async fn a_copy_is_whole_while_runs_are_being_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let store = Store::open(&path).await.unwrap();
    add(&store, "01FIRST", "01SESSION").await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for i in 0..40 {
                add(&store, &format!("02RUN{i:02}"), "01SESSION").await;
            }
        }
    });
    let mut counts = Vec::new();
    for i in 0.. {
        let last = writer.is_finished();
        let (reader, _) = Store::open_as_is(&path).await.unwrap();
        let copy = folder.path().join(format!("copy{i}.db"));
        reader.copy_to(&copy).await.unwrap();
        reader.close().await;
        let copy = Store::open_read(&copy).await.unwrap();
        let checked = copy.check().await.unwrap();
        assert_eq!(checked.problems, [""; 0]);
        let ended = copy.runs(&RunFilter::default()).await.unwrap();
        let ended = ended.iter().filter(|run| run.status.state.is_final());
        assert_eq!(
            checked.samples,
            3 * ended.count() as u64,
            "no run is half in it"
        );
        counts.push(checked.runs);
        if last {
            break;
        }
    }
    writer.await.unwrap();
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!(counts.last(), Some(&41));
}
