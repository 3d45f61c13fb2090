//! Sessions are found by the start of their id, and each extension is counted once.

use controller::store::RunFilter;

use crate::fixtures::{host, queued, session, with_run};

#[tokio::test]
async fn a_session_is_found_by_the_start_of_its_id_and_extended_once_for_each_call() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let id = run.session_id.clone();
    let prefix = id.to_lowercase();
    let found = store.sessions_of(&prefix).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&id));
    for none in ["", "01NOPE", "%", "' or 1 = 1"] {
        assert!(store.sessions_of(none).await.unwrap().is_empty(), "{none}");
    }
    let twin = format!("{id}X");
    session(&store, &twin).await;
    let both = store.sessions_of(&prefix).await.unwrap();
    assert_eq!(both, [id.clone(), twin.clone()]);

    assert!(store.extend_session(&id, 0, 3).await.unwrap());
    let again = store.extend_session(&id, 0, 3).await.unwrap();
    assert!(!again, "another command was quicker");
    let mut added = queued("01RUN2", &id);
    added.look = 1;
    store.create_run(&added, &host()).await.unwrap();
    let runs = store.runs(&RunFilter::default()).await.unwrap();
    let of = |field: fn(&controller::record::RunRecord) -> u32| {
        runs.iter().map(field).collect::<Vec<_>>()
    };
    assert_eq!(of(|run| run.session.extended_count), [1, 1]);
    let planned = of(|run| run.session.planned_count);
    assert_eq!(planned, [4, 4], "one pass at first, three more");
    assert_eq!(of(|run| run.look), [0, 1]);
}
