//! What one database takes over from another, and what it leaves.

use std::path::Path;

use contracts::calibrate::{ClientFloor, FloorLevel};
use contracts::run::RunState;
use controller::import::{ImportError, Source};
use controller::record::RunRecord;
use controller::store::{Merged, RunFilter, Store, StoreError};
use sqlx::migrate::Migrator;
use sqlx::{Connection, SqliteConnection};

use crate::fixtures::*;

/// A run that is stored to its end in a database of this name.
async fn stored(path: &Path, run_id: &str, change: impl Fn(&mut RunRecord)) -> Store {
    let (store, run) = with_run(path, run_id).await;
    let mut run = ended(run);
    change(&mut run);
    let done = store.finish_run(&run, ok(samples()), &events()).await;
    done.unwrap();
    store
}

async fn all(store: &Store) -> Vec<RunRecord> {
    store.runs(&RunFilter::default()).await.unwrap()
}

const NONE: Merged = Merged {
    runs: 0,
    samples: 0,
    sessions: 0,
    there: 0,
    under_way: 0,
};

#[tokio::test]
async fn databases_merge_both_ways_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // A name that a URL would read otherwise.
    let a = stored(&path("a%20?#.db"), "01A", |_| {}).await;
    let b = stored(&path("b.db"), "01B", |_| {}).await;
    let floor = ClientFloor {
        agent_build: "0.1.0".to_owned(),
        host_fingerprint: host().fingerprint,
        levels: vec![FloorLevel::default()],
    };
    b.add_client_floor(&floor, &host(), 5).await.unwrap();

    let merged = a.merge(&b).await.unwrap();
    let one = Merged {
        runs: 1,
        samples: 3,
        ..NONE
    };
    assert_eq!(merged, one, "the session has the same id in both");
    let merged = b.merge(&a).await.unwrap();
    assert_eq!(merged, Merged { there: 1, ..one });
    assert_eq!(all(&a).await, all(&b).await);
    for (to, from) in [(&a, &b), (&b, &a)] {
        assert_eq!(to.merge(from).await.unwrap(), Merged { there: 2, ..NONE });
    }
    for store in [&a, &b] {
        for run_id in ["01A", "01B"] {
            assert_eq!(store.samples(run_id).await.unwrap(), samples());
            assert_eq!(store.events(run_id).await.unwrap(), events());
        }
        let hosts = store.host_documents(&["f00d".to_owned()]).await.unwrap();
        assert_eq!(hosts[0].client_floor.len(), 1);
        assert!(store.check().await.unwrap().problems.is_empty());
    }
}

#[tokio::test]
async fn a_run_under_way_is_left_and_a_made_up_end_gives_way() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _) = with_run(&folder.path().join("ours.db"), "01RUN").await;
    let (theirs, run) = with_run(&folder.path().join("theirs.db"), "01RUN").await;
    let merged = ours.merge(&theirs).await.unwrap();
    assert_eq!(
        merged,
        Merged {
            under_way: 1,
            ..NONE
        }
    );

    let mut lost = run.clone();
    lost.status.state = RunState::Failed;
    ours.finish_run(&lost, ok(Vec::new()), &[]).await.unwrap();
    finish(&theirs, run).await;
    // Theirs first: what the agent said is not replaced by what a controller supposed.
    let merged = theirs.merge(&ours).await.unwrap();
    assert_eq!(merged, Merged { there: 1, ..NONE });
    let merged = ours.merge(&theirs).await.unwrap();
    assert_eq!((merged.runs, merged.there), (1, 0));
    assert_eq!(all(&ours).await, all(&theirs).await);
    assert_eq!(ours.samples("01RUN").await.unwrap(), samples());
}

#[tokio::test]
async fn a_run_that_cannot_be_read_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let a = stored(&path("a.db"), "01A", |_| {}).await;
    let before = all(&a).await;
    for (name, damage) in [
        ("spec", "update run set spec_json = '{}'"),
        (
            "validity",
            "update run set validity_json = '{\"verdict\": 3}'",
        ),
        ("samples", "delete from sample where sample_index = 1"),
    ] {
        let file = path(&format!("{name}.db"));
        let b = stored(&file, "01B", |_| {}).await;
        let mut connection = SqliteConnection::connect(&file.display().to_string())
            .await
            .unwrap();
        sqlx::query(damage).execute(&mut connection).await.unwrap();
        let refused = a.merge(&b).await.unwrap_err();
        assert!(
            matches!(
                refused,
                StoreError::BadRow { .. } | StoreError::BadSample { .. }
            ),
            "{name}: {refused:?}"
        );
        assert_eq!(all(&a).await, before);
    }
}

#[tokio::test]
async fn the_same_id_with_other_requests_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let ours = stored(&folder.path().join("ours.db"), "01RUN", |_| {}).await;
    let theirs = stored(&folder.path().join("theirs.db"), "01RUN", |run| {
        run.status.samples.as_mut().unwrap().sha256 = "other".to_owned();
    })
    .await;
    let more = queued("00EARLIER", "01SESSION");
    theirs.create_run(&more, &host()).await.unwrap();
    finish(&theirs, more).await;
    let before = all(&ours).await;
    let error = ours.merge(&theirs).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::OtherContent { run_id } if run_id == "01RUN"),
        "{error}"
    );
    assert_eq!(all(&ours).await, before);
    // The attached file was let go: the store goes on working.
    assert_eq!(ours.merge(&ours.clone()).await.unwrap().there, 1);
}

/// A database as an earlier build made it, with one run.
async fn of_version(path: &Path, version: i64) {
    let url = format!("sqlite://{}?mode=rwc", path.display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut migrator = Migrator::new(folder).await.unwrap();
    migrator
        .migrations
        .to_mut()
        .retain(|migration| migration.version <= version);
    migrator.run(&mut connection).await.unwrap();
    let spec = serde_json::to_string(&spec()).unwrap();
    for statement in [
        "insert into host values ('f00d', 'old', 'linux', '6', 'cpu', 2, 3, '[]', 4)",
        "insert into session (session_id, run_order, repeat_count, tags_json, controller_build,
                              created_unix_ms) values ('01OLD', 'abba', 1, '{}', '0.1.0', 5)",
        "insert into run (run_id, session_id, arm_letter, block, position, agent_name, agent_id,
                          host_fingerprint, engine, mode, model, workload_key, created_unix_ms,
                          state, spec_json, deadline_s, accepted_unix_ms, warnings_json,
                          validity_json, lifecycle_json)
         values ('01OLDRUN', '01OLD', 'a', 0, 0, 'box', 'id', 'f00d', 'ch02', 'online', 'm', 'w', 6,
                 'done', ?, 7, 8, '[]', '{}', '{}')",
        "insert into sample (run_id, warmup, sample_index, due_ns, start_ns, wall_ms,
                             requested_tokens, done_seen, reused_connection, body_bytes)
         values ('01OLDRUN', 0, 0, 1, 2, 1.5, 40, 0, 0, 0)",
    ] {
        let mut query = sqlx::query(statement);
        if statement.contains('?') {
            query = query.bind(&spec);
        }
        query.execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
}

#[tokio::test]
async fn older_databases_are_read_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Store::open(&folder.path().join("ours.db")).await.unwrap();
    for version in [1, 2] {
        let path = folder.path().join(format!("v{version}.db"));
        of_version(&path, version).await;
        let before = std::fs::read(&path).unwrap();
        let source = Source::open(&path).await.unwrap();
        let merged = ours.merge(&source.store).await.unwrap();
        assert_eq!(
            (merged.runs, merged.there),
            ((version == 1).into(), (version == 2).into())
        );
        source.close().await;
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let beside = std::fs::read_dir(folder.path()).unwrap();
        let beside = beside.filter(|e| {
            let name = e.as_ref().unwrap().file_name();
            name.to_string_lossy()
                .starts_with(&format!("v{version}.db"))
        });
        assert_eq!(beside.count(), 1, "no log is left beside it");
    }
    let runs = all(&ours).await;
    assert_eq!(
        (runs[0].run_id.as_str(), runs[0].hostname.as_str()),
        ("01OLDRUN", "old")
    );
    assert_eq!(ours.columns("01OLDRUN").await.unwrap().requests.len(), 1);
    // Its like is copied as it is: a backup of an old file is an old file.
    let (old, up_to_date) = Store::open_as_is(&folder.path().join("v1.db"))
        .await
        .unwrap();
    let copy = folder.path().join("copy.db");
    old.copy_to(&copy).await.unwrap();
    assert!(!up_to_date && !Store::open_as_is(&copy).await.unwrap().1);
}

#[tokio::test]
async fn files_that_cannot_be_read_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("empty", "");
    write("text", "hello");
    write("none.json", "{}");
    write("later.json", "{\"schema\": 2, \"runs\": []}");
    write(
        "list.json",
        "{\"schema\": 1, \"runs\": [{\"run_id\": \"01A\"}]}",
    );
    write("cut.json", "{\"schema\": 1, \"runs\": [");
    write("more.json", "{\"schema\": 1, \"runs\": []} x");
    write(
        "host.json",
        "{\"schema\": 1, \"hosts\": [{\"host\": {\"hostname\": \"h\"}}], \"runs\": []}",
    );
    stored(&path("cut.db"), "01RUN", |_| {}).await.close().await;
    let whole = std::fs::read(path("cut.db")).unwrap();
    std::fs::write(path("cut.db"), &whole[..whole.len() / 2]).unwrap();
    for (name, words) in [
        ("missing", "cannot be read"),
        ("empty", "neither a chapterbench database nor an export"),
        ("text", "neither a chapterbench database nor an export"),
        ("none.json", "missing field `schema`"),
        ("later.json", "its schema is 2"),
        ("list.json", "missing field `run` at line 1"),
        ("cut.json", "EOF while parsing a list at line 1 column 23"),
        ("more.json", "trailing characters at line 1"),
        ("host.json", "host.host_fingerprint"),
        ("cut.db", "is damaged"),
    ] {
        let source = Source::open(&path(name)).await;
        let error = match source {
            Ok(source) => ImportError::from(source.store.check_pages().await.unwrap_err()),
            Err(error) => error,
        };
        let line = error.to_string();
        assert!(line.contains(words), "{name}: {line}");
        assert!(line.contains(name) || name == "host.json", "{name}: {line}");
    }
}
