//! Specs and statuses for tests: the fake chapter, offline, three requests.

use std::collections::BTreeMap;

use contracts::generate::SamplingParams;
use contracts::run::{
    AllowFailures, Arm, CacheState, Device, Endpoint, EngineRef, Limits, Load, Mode, PromptSource,
    RunSpec, RunState, RunStatus, Workload,
};

/// The usual spec.
pub fn fake_spec() -> RunSpec {
    RunSpec {
        arm: Arm {
            name: None,
            engine: EngineRef::Chapter {
                id: "fake".to_owned(),
            },
            mode: Mode::Offline,
            dtype: None,
            device: Device::Cpu,
            threads: None,
            stream: true,
            options: BTreeMap::new(),
            header_names: Vec::new(),
            extra: BTreeMap::new(),
            no_keepalive: false,
        },
        workload: Workload {
            model: "dummy:tiny-llm".to_owned(),
            prompts: PromptSource::Texts {
                texts: vec!["Why?".to_owned()],
            },
            endpoint: Endpoint::Auto,
            sampling: SamplingParams::default(),
            load: Load::Closed { concurrency: 1 },
            n_runs: 3,
            warmup: 1,
            duration_ms: None,
            cache: CacheState::AsIs,
            tokenizer: None,
            allow_failures: AllowFailures::Count { n: 0 },
        },
        limits: Limits {
            ready_timeout_ms: 10_000,
            stop_grace_ms: 2_000,
            request_timeout_ms: 10_000,
            stall_timeout_ms: 10_000,
            device_wait_ms: 0,
        },
        salt: String::new(),
        slo: None,
    }
}

/// A run of it that was just accepted.
pub fn fake_status() -> RunStatus {
    RunStatus {
        run_id: ulid::Ulid::generate().to_string(),
        state: RunState::Queued,
        spec: fake_spec(),
        deadline_s: 60,
        created_unix_ms: 0,
        ended_unix_ms: None,
        failure: None,
        warnings: Vec::new(),
        provenance: None,
        validity: Default::default(),
        lifecycle: Default::default(),
        samples: None,
    }
}
