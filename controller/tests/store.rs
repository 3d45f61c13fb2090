//! The store on real SQLite files: what is written once, what is refused, and who may write when.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use contracts::generate::{FinishReason, SamplingParams};
use contracts::host::HostFacts;
use contracts::run::{
    AllowFailures, Arm, CacheState, Device, Endpoint, EngineRef, EventKind, Lifecycle, Limits,
    Load, Mode, PromptSource, Provenance, RunEvent, RunFailure, RunSpec, RunState, RunStatus,
    SampleTotals, Stage, Validity, Warning, Workload,
};
use contracts::sample::{ErrorClass, EventTimes, Sample, SampleError, TimingSource, TokenSource};
use contracts::stats::BenchStats;
use controller::record::RunRecord;
use controller::store::{AgentRow, NewSession, RunFilter, Store, StoreError, Stored};
use sqlx::{Connection, Row};

fn spec() -> RunSpec {
    RunSpec {
        arm: Arm {
            engine: EngineRef::Chapter {
                id: "ch02".to_owned(),
            },
            mode: Mode::Online,
            dtype: None,
            device: Device::Cpu,
            threads: Some(2),
            stream: true,
            options: BTreeMap::new(),
        },
        workload: Workload {
            model: "dummy:tiny-llm".to_owned(),
            prompts: PromptSource::Texts {
                texts: vec!["why 'is' it \u{1F600}?".to_owned()],
            },
            endpoint: Endpoint::Auto,
            sampling: SamplingParams {
                temperature: 0.7,
                ..SamplingParams::default()
            },
            load: Load::Closed { concurrency: 1 },
            n_runs: 2,
            warmup: 1,
            cache: CacheState::AsIs,
            allow_failures: AllowFailures::Percent { percent: 50.0 },
        },
        limits: Limits {
            ready_timeout_ms: 1,
            stop_grace_ms: 2,
            request_timeout_ms: 3,
            stall_timeout_ms: 4,
            device_wait_ms: 5,
        },
    }
}

fn queued(run_id: &str, session_id: &str) -> RunRecord {
    RunRecord {
        run_id: run_id.to_owned(),
        session_id: session_id.to_owned(),
        arm_letter: "b".to_owned(),
        block: 1,
        position: 2,
        agent_name: "box".to_owned(),
        agent_id: "01AGENT".to_owned(),
        host_fingerprint: "f00d".to_owned(),
        hostname: "bench-1".to_owned(),
        engine: "ch02".to_owned(),
        workload_key: "beef".to_owned(),
        label: Some("nightly".to_owned()),
        tags: BTreeMap::from([("who".to_owned(), "me".to_owned())]),
        controller_build: "0.1.0+abc".to_owned(),
        created_unix_ms: 1_700_000_000_000,
        status: RunStatus {
            run_id: run_id.to_owned(),
            state: RunState::Queued,
            spec: spec(),
            deadline_s: 14_400,
            created_unix_ms: 0,
            ended_unix_ms: None,
            failure: None,
            warnings: Vec::new(),
            provenance: None,
            validity: Validity::default(),
            lifecycle: Lifecycle::default(),
            samples: None,
        },
        stats: None,
    }
}

fn ended(run: RunRecord) -> RunRecord {
    let status = RunStatus {
        state: RunState::Failed,
        created_unix_ms: 5,
        ended_unix_ms: Some(6),
        failure: Some(RunFailure {
            stage: Stage::Measure,
            message: "died".to_owned(),
            log_tail: vec!["last".to_owned(), "words".to_owned()],
        }),
        warnings: vec![Warning {
            code: "foreign_cpu".to_owned(),
            message: "busy".to_owned(),
        }],
        provenance: Some(Provenance {
            agent_build: "0.1.0".to_owned(),
            engine_build: Some("0.1.0+3fa1c2d".to_owned()),
            definition: "v1".to_owned(),
            ..Provenance::default()
        }),
        validity: Validity {
            foreign_cpu_during: Some(0.125),
            ..Validity::default()
        },
        lifecycle: Lifecycle {
            ready_ms: Some(12.5),
            killed: true,
            ..Lifecycle::default()
        },
        samples: Some(SampleTotals {
            count: 3,
            sha256: "cafe".to_owned(),
        }),
        ..run.status.clone()
    };
    let stats = BenchStats {
        req_per_s: 0.1 + 0.2,
        tok_per_s: 32.6,
        wall_ms: 1_224.000_000_000_000_2,
        output_tokens: 39.0,
        n_runs: 1,
        ttft_ms: 41.2,
        tpot_ms: 0.0,
        wall_times: vec![1_224.000_000_000_000_2, 1e-3],
    };
    RunRecord {
        status,
        stats: Some(stats),
        ..run
    }
}

/// A warm-up request, one with every field set, and a failed one.
fn samples() -> Vec<Sample> {
    let warmup = Sample {
        warmup: true,
        requested_tokens: 40,
        ..Sample::default()
    };
    let full = Sample {
        index: 0,
        warmup: false,
        due_ns: 1,
        start_ns: 2,
        connected_ns: Some(3),
        sent_ns: Some(4),
        headers_ns: Some(5),
        first_event_ns: Some(6),
        first_content_ns: Some(7),
        last_content_ns: Some(8),
        finish_ns: Some(9),
        done_ns: Some(1 << 62),
        event_times: Some(EventTimes {
            encoding: contracts::sample::EVENT_TIMES_ENCODING.to_owned(),
            base64: "AAH/gA==".to_owned(),
        }),
        wall_ms: Some(0.1 + 0.2),
        ttft_ms: Some(41.2),
        tpot_ms: Some(28.7),
        timing_source: Some(TimingSource::Client),
        engine_wall_ms: Some(1.5),
        input_tokens: Some(11),
        output_tokens: Some(39),
        token_source: Some(TokenSource::Usage),
        usage_tokens: Some(39),
        local_tokens: Some(38),
        requested_tokens: 40,
        first_event_tokens: Some(1),
        finish_reason: Some(FinishReason::Length),
        done_seen: true,
        reused_connection: true,
        bytes: 4096,
        status: Some(200),
        output_sha256: Some("ab".to_owned()),
        text: Some("blue\n\u{1F600}".to_owned()),
        output_ids: Some(vec![1, 2, u32::MAX]),
        input_ids_sha256: Some("cd".to_owned()),
        firm_steps: Some(7),
        error: None,
    };
    let failed = Sample {
        index: 1,
        requested_tokens: 40,
        error: Some(SampleError {
            class: ErrorClass::HttpStatus,
            message: "500".to_owned(),
        }),
        ..Sample::default()
    };
    vec![warmup, full, failed]
}

fn events() -> Vec<RunEvent> {
    let state = EventKind::State {
        state: RunState::Starting,
    };
    let log = EventKind::Log {
        line: "loading".to_owned(),
    };
    vec![
        RunEvent {
            seq: 1,
            at_ms: 0,
            what: state,
        },
        RunEvent {
            seq: 2,
            at_ms: 7,
            what: log,
        },
    ]
}

fn host() -> HostFacts {
    HostFacts {
        fingerprint: "f00d".to_owned(),
        hostname: "bench-1".to_owned(),
        ..HostFacts::default()
    }
}

async fn session(store: &Store, session_id: &str) {
    let session = NewSession {
        session_id: session_id.to_owned(),
        run_order: "abba".to_owned(),
        repeat_count: 1,
        label: Some("nightly".to_owned()),
        tags: BTreeMap::from([("who".to_owned(), "me".to_owned())]),
        controller_build: "0.1.0+abc".to_owned(),
        created_unix_ms: 1,
    };
    store.create_session(&session).await.unwrap();
}

/// A database with one session and one run that was sent.
async fn with_run(path: &Path, run_id: &str) -> (Store, RunRecord) {
    let store = Store::open(path).await.unwrap();
    session(&store, "01SESSION").await;
    let run = queued(run_id, "01SESSION");
    store.create_run(&run, &host()).await.unwrap();
    (store, run)
}

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
    let stored = store.finish_run(&run, &samples(), &events()).await.unwrap();
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
    store.finish_run(&run, &samples(), &events()).await.unwrap();
    let other = RunRecord {
        stats: None,
        ..run.clone()
    };
    assert_eq!(
        store.finish_run(&other, &[], &[]).await.unwrap(),
        Stored::Before
    );
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), run);
    assert_eq!(store.samples("01RUN").await.unwrap().len(), 3);

    let stranger = ended(queued("01OTHER", "01SESSION"));
    let refused = store
        .finish_run(&stranger, &samples(), &[])
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
    let made_up = store.finish_run(&lost, &[], &[]).await.unwrap();
    assert_eq!(made_up, Stored::Now);
    let again = store.finish_run(&lost, &[], &[]).await.unwrap();
    assert_eq!(again, Stored::Before);

    let real = ended(run);
    for expected in [Stored::Now, Stored::Before] {
        let stored = store.finish_run(&real, &samples(), &events()).await;
        assert_eq!(stored.unwrap(), expected);
    }
    let late = store.finish_run(&lost, &[], &[]).await.unwrap();
    assert_eq!(late, Stored::Before);
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), real);
    assert_eq!(store.samples("01RUN").await.unwrap(), samples());
    assert_eq!(store.events("01RUN").await.unwrap(), events());
}

#[tokio::test]
async fn a_file_that_was_taken_away_is_not_written_to_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    let (store, run) = with_run(&path, "01RUN").await;
    std::fs::remove_file(&path).unwrap();
    let lost = store.finish_run(&ended(run), &samples(), &events()).await;
    assert!(matches!(lost, Err(StoreError::Removed(_))), "{lost:?}");
}

#[tokio::test]
async fn nothing_is_half_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    // The second of two samples with one index breaks the key, after the run was updated.
    let mut twice = samples();
    twice.extend(samples());
    store
        .finish_run(&ended(run.clone()), &twice, &events())
        .await
        .unwrap_err();
    assert_eq!(store.run_by_prefix("01RUN").await.unwrap(), run);
    assert!(store.samples("01RUN").await.unwrap().is_empty());
    assert!(store.events("01RUN").await.unwrap().is_empty());
    // And the run can still be stored.
    let stored = store
        .finish_run(&ended(run), &samples(), &events())
        .await
        .unwrap();
    assert_eq!(stored, Stored::Now);
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
    store.finish_run(&ended(run), &many, &[]).await.unwrap();
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
    store.finish_run(&ended(first), &[], &[]).await.unwrap();
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
                    known: 1,
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
    let error = store.finish_run(&ended(run), &[], &[]).await.unwrap_err();
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
                    .finish_run(&ended(run), &samples(), &events())
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
        .finish_run(&ended(run), &samples(), &[])
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
