//! A run's columns: stored with its rows, made again from them, and never in a reader's way.

use std::collections::BTreeSet;
use std::path::Path;

use contracts::sample::Sample;
use controller::columns::Columns;
use controller::record::RunLine;
use controller::selector::Selector;
use controller::store::{RunFilter, Store};
use sqlx::Connection;

use crate::fixtures::*;

/// Requests of which some fail, with event times that can be read.
fn many(count: u32) -> Vec<Sample> {
    let deltas = [50_000u32, 10_000, 12_000].map(u32::to_le_bytes);
    let blob = zstd::bulk::compress(deltas.as_flattened(), 1).unwrap();
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, blob);
    let [_, full, failed] = <[Sample; 3]>::try_from(samples()).unwrap();
    let sample = |index: u32| {
        let mut sample = if index % 7 == 6 {
            failed.clone()
        } else {
            full.clone()
        };
        sample.index = index;
        sample.due_ns = u64::from(index) * 1_000_003;
        sample.wall_ms = sample.wall_ms.map(|ms| ms + f64::from(index));
        sample.text = sample.text.map(|text| format!("{text} {index}"));
        if let Some(times) = &mut sample.event_times {
            times.base64.clone_from(&base64);
        }
        sample
    };
    (0..count).map(sample).collect()
}

async fn sql(path: &Path, statement: &'static str) -> u64 {
    let url = format!("sqlite://{}", path.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let done = sqlx::query(statement).execute(&mut connection).await;
    connection.close().await.unwrap();
    done.unwrap().rows_affected()
}

#[tokio::test]
async fn columns_are_those_of_the_rows_however_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    let stored = many(1_203);
    let run = ended(run);
    store
        .finish_run(&run, ok(stored.clone()), &[])
        .await
        .unwrap();
    let columns = store.columns("01RUN").await.unwrap();
    let whole = store.with_samples(run).await.unwrap();
    assert_eq!(columns, Columns::of(&stored, &whole.gaps));
    assert_eq!((columns.failed, columns.requests.len()), (171, 1_032));
    assert_eq!(columns.gaps.mean_ms(), Some(11.0));
    store.close().await;

    // Another layout, a damaged blob, a database from before there were columns.
    for broken in [
        "update run_columns set layout = layout + 1",
        "update run_columns set layout = layout - 1, columns = x'0102'",
        "delete from run_columns",
    ] {
        assert_eq!(sql(&path, broken).await, 1);
        let reader = Store::open_read(&path).await.unwrap();
        assert_eq!(reader.columns("01RUN").await.unwrap(), columns, "{broken}");
        reader.close().await;
    }
    let written = sql(&path, "delete from run_columns").await;
    assert_eq!(written, 0, "who only reads writes none");
}

#[tokio::test]
async fn columns_go_with_their_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    store
        .finish_run(&ended(run), ok(many(3)), &[])
        .await
        .unwrap();
    store.close().await;
    assert_eq!(sql(&path, "delete from run").await, 1);
    assert_eq!(sql(&path, "delete from run_columns").await, 0);
    let store = Store::open_read(&path).await.unwrap();
    assert_eq!(store.columns("01RUN").await.unwrap(), Columns::default());
}

#[tokio::test]
async fn what_was_said_is_read_of_the_requests_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let mut stored = samples();
    stored.extend(many(40).split_off(2));
    store
        .finish_run(&ended(run), ok(stored.clone()), &[])
        .await
        .unwrap();
    let wanted = BTreeSet::from([0, 9, 1_000]);
    let spoken = store.spoken("01RUN", &wanted).await.unwrap();
    assert_eq!(spoken.keys().copied().collect::<Vec<_>>(), [0, 9]);
    let ninth = stored.iter().find(|sample| sample.index == 9).unwrap();
    assert_eq!(spoken[&9].text, ninth.text);
    assert_eq!(spoken[&9].ids, ninth.output_ids);
    assert_eq!(spoken[&9].firm_steps, Some(7));
}

#[tokio::test]
async fn who_reads_is_not_held_up_while_a_large_run_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    let reads = std::cell::Cell::new(0);
    // A reader comes by while the transaction is open, and storing waits until it has its answer.
    let stored = many(5_000).into_iter().map(|sample| {
        if sample.index % 1_500 == 1_499 {
            let path = path.clone();
            let reading = std::thread::spawn(move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    let reader = Store::open_read(&path).await.unwrap();
                    let lines = reader.run_lines(&RunFilter::default()).await.unwrap();
                    let count = reader.samples("01RUN").await.unwrap().len();
                    (lines, count)
                })
            });
            let (lines, count) = reading.join().unwrap();
            assert_eq!(lines, [RunLine::of(&run)], "as it was before");
            assert_eq!(count, 0);
            reads.set(reads.get() + 1);
        }
        Ok(sample)
    });
    store
        .finish_run(&ended(run.clone()), stored, &[])
        .await
        .unwrap();
    assert_eq!(reads.get(), 3);
    assert_eq!(store.samples("01RUN").await.unwrap().len(), 5_000);
}

/// Two sessions; what a selector means is among what SQLite lets through for it.
#[tokio::test]
async fn narrowing_by_a_selector_leaves_out_none_that_it_means() {
    let folder = tempfile::tempdir().unwrap();
    let (store, first) = with_run(&folder.path().join("bench.db"), "01A").await;
    store
        .finish_run(&ended(first), ok(many(3)), &[])
        .await
        .unwrap();
    session(&store, "01OTHER").await;
    let mut second = queued("01B", "01OTHER");
    second.engine = "vllm".to_owned();
    second.arm_letter = "a".to_owned();
    second.agent_name = "lab".to_owned();
    second.status.spec.arm.engine = contracts::run::EngineRef::Named {
        name: "vllm".to_owned(),
        chapter: None,
    };
    store.create_run(&second, &host()).await.unwrap();
    let all = store.runs(&RunFilter::default()).await.unwrap();
    for (word, expected) in [
        ("ch02", vec!["01A"]),
        ("ch02:online", vec!["01A"]),
        ("engine:vllm", vec!["01B"]),
        ("label:nightly", vec!["01A", "01B"]),
        ("label:nightly@lab", vec!["01B"]),
        ("label:nightly#b", vec!["01A"]),
        ("label:nightly%0.1.0", vec!["01A", "01B"]),
        ("run:01a", vec!["01A"]),
        ("session:01o", vec!["01B"]),
        ("ch02:offline", vec![]),
        ("ch02@lab", vec![]),
    ] {
        let selector = Selector::parse(word).unwrap();
        let narrowed = RunFilter {
            selectors: vec![selector.clone()],
            ..RunFilter::default()
        };
        let runs = store.runs(&narrowed).await.unwrap();
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        assert_eq!(ids, expected, "{word}");
        let meant = all.iter().filter(|run| selector.matches(run));
        for run in meant {
            assert!(ids.contains(&run.run_id.as_str()), "{word}: {}", run.run_id);
        }
    }
}

#[tokio::test]
async fn lines_and_light_records_are_those_of_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (store, first) = with_run(&folder.path().join("bench.db"), "01A").await;
    store
        .create_run(&queued("01B", "01SESSION"), &host())
        .await
        .unwrap();
    store
        .finish_run(&ended(first), ok(many(3)), &[])
        .await
        .unwrap();
    let mut runs = store.runs(&RunFilter::default()).await.unwrap();
    let lines = store.run_lines(&RunFilter::default()).await.unwrap();
    assert_eq!(lines, runs.iter().map(RunLine::of).collect::<Vec<_>>());
    let newest = RunFilter {
        limit: Some(1),
        ..RunFilter::default()
    };
    let newest = store.run_lines(&newest).await.unwrap();
    assert_eq!(newest[0].run_id, "01B");

    let light = store.runs_without_walls(&RunFilter::default()).await;
    let light = light.unwrap();
    let whole = store.with_walls(light[0].clone()).await.unwrap();
    assert_eq!(whole, runs[0]);
    let walls = &mut runs[0].stats.as_mut().unwrap().wall_times;
    assert!(!walls.is_empty());
    walls.clear();
    assert_eq!(light, runs);
}
