//! Runs and samples for this crate's tests: one plain run, changed by the test that needs it.

use std::collections::BTreeMap;

use contracts::generate::{FinishReason, SamplingParams};
use contracts::run::{
    AllowFailures, Arm, CacheState, Device, Endpoint, EngineRef, Lifecycle, Limits, Load, Mode,
    ModelFacts, PromptSource, Provenance, RunSpec, RunState, RunStatus, Validity, Workload,
};
use contracts::sample::{ErrorClass, Sample, SampleError, TimingSource, TokenSource};

use crate::compare::{Input, Measured};
use crate::record::{RunRecord, RunWithSamples, SessionFacts};
use crate::stats::bench::bench_stats;
use crate::stats::gaps::GapCounts;
use crate::stats::window::Shape;

/// 2026-02-01 12:00:00 UTC.
pub const NOON_UNIX_MS: i64 = 1_769_947_200_000;

/// A finished run of a chapter, without figures.
pub fn run(id: &str, engine: &str, mode: Mode) -> RunRecord {
    RunRecord {
        run_id: id.to_owned(),
        session_id: "01SESSION".to_owned(),
        arm_letter: "a".to_owned(),
        block: 0,
        position: 0,
        agent_name: "local".to_owned(),
        agent_id: "agent-1".to_owned(),
        host_fingerprint: "f1".to_owned(),
        hostname: "bench-1".to_owned(),
        engine: engine.to_owned(),
        workload_key: "w1".to_owned(),
        label: None,
        tags: BTreeMap::new(),
        controller_build: "0.1.0+abc1234".to_owned(),
        look: 0,
        session: SessionFacts::default(),
        created_unix_ms: NOON_UNIX_MS,
        status: status(id, engine, mode),
        stats: None,
        server_report: None,
        file: None,
    }
}

fn status(id: &str, engine: &str, mode: Mode) -> RunStatus {
    RunStatus {
        run_id: id.to_owned(),
        state: RunState::Done,
        spec: RunSpec {
            arm: Arm {
                name: None,
                engine: EngineRef::Chapter {
                    id: engine.to_owned(),
                },
                mode,
                dtype: None,
                device: Device::Cpu,
                threads: None,
                stream: true,
                options: BTreeMap::new(),
                header_names: Vec::new(),
                extra: BTreeMap::new(),
                no_keepalive: false,
            },
            workload: workload(),
            limits: Limits {
                ready_timeout_ms: 60_000,
                stop_grace_ms: 10_000,
                request_timeout_ms: 600_000,
                stall_timeout_ms: 120_000,
                device_wait_ms: 0,
            },
            salt: String::new(),
            slo: None,
        },
        deadline_s: 14_400,
        created_unix_ms: NOON_UNIX_MS,
        ended_unix_ms: Some(NOON_UNIX_MS + 30_000),
        failure: None,
        warnings: Vec::new(),
        provenance: Some(provenance(engine)),
        validity: Validity {
            foreign_cpu_before: Some(0.01),
            foreign_cpu_during: Some(0.02),
            agent_cpu_ms: Some(12.0),
            failed_requests: 0,
            ..Validity::default()
        },
        lifecycle: Lifecycle {
            ready_ms: Some(152.0),
            grace_ms: None,
            stop_ms: Some(11.0),
            exit: Some("exit 0".to_owned()),
            killed: false,
            swept: 0,
            rss_bytes_max: Some(120 << 20),
        },
        samples: None,
    }
}

fn workload() -> Workload {
    Workload {
        model: "dummy:tiny-llm".to_owned(),
        prompts: PromptSource::Texts {
            texts: vec!["Why is the sky blue?".to_owned()],
        },
        endpoint: Endpoint::Auto,
        sampling: SamplingParams::default(),
        load: Load::Closed { concurrency: 1 },
        n_runs: 20,
        warmup: 3,
        duration_ms: None,
        cache: CacheState::AsIs,
        tokenizer: None,
        allow_failures: AllowFailures::Count { n: 0 },
    }
}

fn provenance(engine: &str) -> Provenance {
    let title = match engine {
        "ch01" => Some("baseline"),
        "ch02" => Some("token loop"),
        _ => None,
    };
    Provenance {
        agent_build: "0.1.0+abc1234".to_owned(),
        engine_build: Some("0.1.0+abc1234".to_owned()),
        engine_binary_sha256: Some("b1".to_owned()),
        engine_profile: Some("release".to_owned()),
        engine_title: title.map(str::to_owned),
        model: Some(ModelFacts {
            name: "dummy:tiny-llm".to_owned(),
            family: "llama".to_owned(),
            sha256: "m1".to_owned(),
            tokenizer_sha256: "t1".to_owned(),
            parameters: 13_000_000,
            weights: "f32".to_owned(),
            context_tokens: 2048,
            threads: 2,
            chat_template: true,
        }),
        host_fingerprint: "f1".to_owned(),
        definition: contracts::DEFINITION.to_owned(),
        ..Provenance::default()
    }
}

/// A measured, successful offline request.
pub fn sample(index: u32, wall_ms: f64, tokens: u32) -> Sample {
    let start_ns = u64::from(index) * 2_000_000_000;
    Sample {
        index,
        due_ns: start_ns,
        start_ns,
        sent_ns: Some(start_ns),
        done_ns: Some(start_ns + (wall_ms * 1e6) as u64),
        wall_ms: Some(wall_ms),
        input_tokens: Some(9),
        output_tokens: Some(tokens),
        token_source: Some(TokenSource::Engine),
        requested_tokens: 40,
        finish_reason: Some(FinishReason::Length),
        text: Some("Light scatters".to_owned()),
        output_ids: Some(vec![5, 6, 7, 8]),
        firm_steps: Some(4),
        ..Sample::default()
    }
}

/// A measured, successful online request from `sent_ms` to `done_ms`, due when it was sent, with 10
/// tokens.
pub fn sent(index: u32, sent_ms: u64, done_ms: u64) -> Sample {
    let sent_ns = sent_ms * 1_000_000;
    Sample {
        due_ns: sent_ns,
        start_ns: sent_ns,
        sent_ns: Some(sent_ns),
        done_ns: Some(done_ms * 1_000_000),
        token_source: Some(TokenSource::Usage),
        ..sample(index, (done_ms - sent_ms) as f64, 10)
    }
}

/// A measured request that failed.
pub fn failed_sample(index: u32, class: ErrorClass) -> Sample {
    Sample {
        index,
        requested_tokens: 40,
        error: Some(SampleError {
            class,
            message: "the server answered 500".to_owned(),
        }),
        ..Sample::default()
    }
}

/// The run with one measured request for each wall time, 40 tokens each, after one of warm-up.
pub fn with_walls(run: RunRecord, walls_ms: &[f64]) -> RunWithSamples {
    let mut warmup = sample(0, 5000.0, 40);
    warmup.warmup = true;
    let measured = (0u32..).zip(walls_ms).map(|(i, ms)| sample(i, *ms, 40));
    finish(run, std::iter::once(warmup).chain(measured).collect())
}

/// As [`with_walls`], and each request has a TTFT and a TPOT by `source`.
pub fn with_timing(run: RunRecord, walls_ms: &[f64], source: TimingSource) -> RunWithSamples {
    let mut run = with_walls(run, walls_ms);
    for sample in &mut run.samples {
        sample.ttft_ms = Some(41.25);
        sample.tpot_ms = Some(28.7);
        sample.timing_source = Some(source);
    }
    finish(run.run, run.samples)
}

/// A run as a comparison takes it. Its input lives as long as the test's process.
pub fn in_comparison(run: &RunWithSamples) -> Measured<'_> {
    Measured {
        run: &run.run,
        input: Box::leak(Box::new(Input::of_samples(run))),
    }
}

/// The run with these samples and the figures that they come to.
pub fn finish(mut run: RunRecord, samples: Vec<Sample>) -> RunWithSamples {
    run.stats = bench_stats(&samples, Shape::of(&run.status));
    RunWithSamples {
        run,
        samples,
        gaps: GapCounts::default(),
    }
}
