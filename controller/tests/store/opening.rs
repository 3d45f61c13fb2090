//! Files that are not ours, newer, read-only or missing: refused as they are.

use controller::store::{Store, StoreError};
use sqlx::Connection;

use crate::fixtures::*;

#[tokio::test]
async fn files_that_are_not_ours_are_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.db");
    std::fs::write(
        &text,
        "not a database, but long enough to have a header of a hundred bytes".repeat(20),
    )
    .unwrap();
    let foreign = folder.path().join("foreign.db");
    let url = format!("sqlite://{}?mode=rwc", foreign.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("create table bookmark (url text)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    for path in [&text, &foreign, &folder.path().to_path_buf()] {
        let before = std::fs::read(path).ok();
        for opened in [Store::open(path).await, Store::open_read(path).await] {
            let error = opened.unwrap_err();
            assert!(
                matches!(error, StoreError::NotOurs(_)),
                "{}: {error}",
                path.display()
            );
        }
        assert_eq!(std::fs::read(path).ok(), before);
    }
}

#[tokio::test]
async fn a_newer_database_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    Store::open(&path).await.unwrap().close().await;
    let url = format!("sqlite://{}", path.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'the future', true, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    for opened in [Store::open(&path).await, Store::open_read(&path).await] {
        let error = opened.unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Newer {
                    found: 9999,
                    known: 3,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_read_only_file_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    store.close().await;
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    let store = Store::open_read(&path).await.unwrap();
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), run);
    // The connection itself is read-only, whatever the command is.
    let error = store
        .finish_run(&ended(run), ok(Vec::new()), &[])
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
}

#[tokio::test]
async fn a_missing_file_is_not_made_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let error = Store::open_read(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Missing(_)), "{error}");
    assert!(!path.exists());
}
