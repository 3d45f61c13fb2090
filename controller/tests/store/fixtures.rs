//! Runs, samples, events and a host to store.

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
use controller::record::{RunRecord, SessionFacts};
use controller::store::{NewSession, Store};

pub fn spec() -> RunSpec {
    RunSpec {
        arm: Arm {
            name: None,
            engine: EngineRef::Chapter {
                id: "ch02".to_owned(),
            },
            mode: Mode::Online,
            dtype: None,
            device: Device::Cpu,
            threads: Some(2),
            stream: true,
            options: BTreeMap::new(),
            header_names: Vec::new(),
            extra: BTreeMap::new(),
            no_keepalive: false,
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
            duration_ms: None,
            cache: CacheState::AsIs,
            tokenizer: None,
            allow_failures: AllowFailures::Percent { percent: 50.0 },
        },
        limits: Limits {
            ready_timeout_ms: 1,
            stop_grace_ms: 2,
            request_timeout_ms: 3,
            stall_timeout_ms: 4,
            device_wait_ms: 5,
        },
        salt: String::new(),
        slo: None,
    }
}

pub fn queued(run_id: &str, session_id: &str) -> RunRecord {
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
        look: 0,
        session: SessionFacts {
            run_order: "abba".to_owned(),
            repeat_count: 1,
            created_unix_ms: 1,
            ..SessionFacts::default()
        },
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
        server_report: None,
        file: None,
    }
}

pub fn ended(run: RunRecord) -> RunRecord {
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
pub fn samples() -> Vec<Sample> {
    let warmup = Sample {
        warmup: true,
        requested_tokens: 40,
        ..Sample::default()
    };
    let full = Sample {
        released_ns: Some(1),
        reconnected: true,
        unterminated: true,
        planned_input_tokens: Some(5),
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
        engine_queue_ms: Some(0.5),
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

pub fn events() -> Vec<RunEvent> {
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

pub fn host() -> HostFacts {
    HostFacts {
        fingerprint: "f00d".to_owned(),
        hostname: "bench-1".to_owned(),
        ..HostFacts::default()
    }
}

pub async fn session(store: &Store, session_id: &str) {
    let session = NewSession {
        session_id: session_id.to_owned(),
        facts: SessionFacts {
            run_order: "abba".to_owned(),
            repeat_count: 1,
            created_unix_ms: 1,
            ..SessionFacts::default()
        },
        label: Some("nightly".to_owned()),
        tags: BTreeMap::from([("who".to_owned(), "me".to_owned())]),
        controller_build: "0.1.0+abc".to_owned(),
    };
    store.create_session(&session).await.unwrap();
}

/// A database with one session and one run that was sent.
pub async fn with_run(path: &Path, run_id: &str) -> (Store, RunRecord) {
    let store = Store::open(path).await.unwrap();
    session(&store, "01SESSION").await;
    let run = queued(run_id, "01SESSION");
    store.create_run(&run, &host()).await.unwrap();
    (store, run)
}

/// Samples as they come from an agent, none of them broken.
pub fn ok(samples: Vec<Sample>) -> impl Iterator<Item = Result<Sample, String>> {
    samples.into_iter().map(Ok)
}
