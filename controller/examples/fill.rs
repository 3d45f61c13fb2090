//! Makes databases of the sizes that `benches/store.py` measures, through the program's own store.
//!
//! usage: fill DB sides RUNS REQUESTS    two arms of one session, so many runs a side
//!        fill DB list RUNS              so many small runs
//!        fill DB store SAMPLES          one run, stored from a file of lines as a run's end is;
//!                                       prints the ms that it took, and ms of CPU
//!
//! Answers are 40 tokens with text, ids and event times; all is made from the numbers of run and
//! request, so that every call makes the same.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::path::Path;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::generate::{FinishReason, SamplingParams};
use contracts::host::HostFacts;
use contracts::run::{
    AllowFailures, Arm, CacheState, Device, Endpoint, EngineRef, Lifecycle, Limits, Load, Mode,
    PromptSource, Provenance, RunSpec, RunState, RunStatus, Validity, Workload,
};
use contracts::sample::{EVENT_TIMES_ENCODING, EventTimes, Sample, TimingSource, TokenSource};
use controller::record::{RunRecord, SessionFacts};
use controller::stats::bench::BenchAccumulator;
use controller::stats::window::Shape;
use controller::store::{NewSession, Store};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use sha2::{Digest as _, Sha256};

/// Tokens of an answer.
const TOKENS: u32 = 40;
/// Requests under way at a time.
const SLOTS: u64 = 16;
/// One answer in so many parts from the base's at a near tie.
const PARTS_ONE_IN: u32 = 1_000;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match words.as_slice() {
            [db, "sides", runs, requests] => sides(db, runs.parse()?, requests.parse()?).await,
            [db, "list", runs] => list(db, runs.parse()?).await,
            [db, "store", samples] => store(db, samples.parse()?).await,
            _ => anyhow::bail!("usage: fill DB sides RUNS REQUESTS | list RUNS | store SAMPLES"),
        }
    })
}

async fn sides(db: &str, runs: u32, requests: u32) -> anyhow::Result<()> {
    let store = opened(db, "01SIDES", runs).await?;
    for position in 0..2 * runs {
        let run = record("01SIDES", position, requests);
        let samples = (0..requests).map(|index| sample(position, index));
        let mut figures = BenchAccumulator::new(Shape::of(&run.status));
        samples.clone().for_each(|sample| figures.add(&sample));
        let ended = RunRecord {
            stats: figures.finish(),
            ..run
        };
        store.create_run(&queued(&ended), &host()).await?;
        store.finish_run(&ended, samples.map(Ok), &[]).await?;
    }
    store.close().await;
    Ok(())
}

async fn list(db: &str, runs: u32) -> anyhow::Result<()> {
    let store = opened(db, "01LIST", runs).await?;
    for position in 0..runs {
        let run = record("01LIST", position, 1);
        let sample = sample(position, 0);
        let mut figures = BenchAccumulator::new(Shape::of(&run.status));
        figures.add(&sample);
        let stats = figures.finish().map(|stats| {
            let wall_times = vec![stats.wall_ms; 20];
            contracts::stats::BenchStats {
                wall_times,
                ..stats
            }
        });
        let ended = RunRecord { stats, ..run };
        store.create_run(&queued(&ended), &host()).await?;
        store
            .finish_run(&ended, std::iter::once(Ok(sample)), &[])
            .await?;
    }
    store.close().await;
    Ok(())
}

async fn store(db: &str, samples: u32) -> anyhow::Result<()> {
    let store = opened(db, "01STORE", 1).await?;
    let run = record("01STORE", 0, samples);
    let mut lines = BufWriter::new(tempfile::tempfile()?);
    let mut figures = BenchAccumulator::new(Shape::of(&run.status));
    for index in 0..samples {
        let sample = sample(0, index);
        figures.add(&sample);
        serde_json::to_writer(&mut lines, &sample)?;
        lines.write_all(b"\n")?;
    }
    let mut lines = lines.into_inner()?;
    lines.rewind()?;
    let ended = RunRecord {
        stats: figures.finish(),
        ..run
    };
    store.create_run(&queued(&ended), &host()).await?;
    writeln!(std::io::stderr(), "storing")?;
    let (started, cpu) = (Instant::now(), cpu_ms()?);
    let samples = BufReader::new(lines).split(b'\n').map(|line| {
        let line = line.map_err(|error| error.to_string())?;
        serde_json::from_slice(&line).map_err(|error| error.to_string())
    });
    store.finish_run(&ended, samples, &[]).await?;
    let (ms, cpu_ms) = (started.elapsed().as_millis(), cpu_ms()? - cpu);
    writeln!(std::io::stdout(), "{ms} {cpu_ms}")?;
    store.close().await;
    Ok(())
}

/// CPU time of this process, in user and kernel.
fn cpu_ms() -> anyhow::Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let ms = |time: TimeVal| time.num_milliseconds();
    Ok(ms(usage.user_time()) + ms(usage.system_time()))
}

async fn opened(db: &str, session_id: &str, repeat_count: u32) -> anyhow::Result<Store> {
    let store = Store::open(Path::new(db)).await?;
    let session = NewSession {
        session_id: session_id.to_owned(),
        facts: SessionFacts {
            run_order: "abba".to_owned(),
            repeat_count,
            created_unix_ms: 1_700_000_000_000,
            ..SessionFacts::default()
        },
        label: None,
        tags: BTreeMap::new(),
        controller_build: "0.1.0".to_owned(),
    };
    store.create_session(&session).await?;
    Ok(store)
}

fn host() -> HostFacts {
    HostFacts {
        fingerprint: "f00d".to_owned(),
        hostname: "bench".to_owned(),
        ..HostFacts::default()
    }
}

/// As it is stored before it is sent.
fn queued(ended: &RunRecord) -> RunRecord {
    let mut run = ended.clone();
    run.status.state = RunState::Queued;
    run.status.created_unix_ms = 0;
    run.stats = None;
    run
}

/// A run that is done, ch01 and ch02 in turn: a b, b a, a b, …
fn record(session_id: &str, position: u32, requests: u32) -> RunRecord {
    let (block, second) = (position / 2, position % 2);
    let arm = (second + block) % 2;
    let engine = ["ch01", "ch02"][arm as usize].to_owned();
    let run_id = format!("{session_id}{position:018}");
    let created_unix_ms = 1_700_000_000_000 + i64::from(position) * 60_000;
    let status = RunStatus {
        run_id: run_id.clone(),
        state: RunState::Done,
        spec: spec(&engine, requests),
        deadline_s: 14_400,
        created_unix_ms,
        ended_unix_ms: Some(created_unix_ms + 50_000),
        failure: None,
        warnings: Vec::new(),
        provenance: Some(Provenance {
            agent_build: "0.1.0+3fa1c2d".to_owned(),
            engine_build: Some("0.1.0+3fa1c2d".to_owned()),
            host_fingerprint: "f00d".to_owned(),
            definition: contracts::DEFINITION.to_owned(),
            ..Provenance::default()
        }),
        validity: Validity {
            foreign_cpu_during: Some(0.01),
            ..Validity::default()
        },
        lifecycle: Lifecycle::default(),
        samples: None,
    };
    RunRecord {
        run_id,
        session_id: session_id.to_owned(),
        arm_letter: ["a", "b"][arm as usize].to_owned(),
        block,
        position,
        agent_name: "local".to_owned(),
        agent_id: "01AGENT".to_owned(),
        host_fingerprint: "f00d".to_owned(),
        hostname: "bench".to_owned(),
        engine,
        workload_key: "beef".to_owned(),
        label: None,
        tags: BTreeMap::new(),
        controller_build: "0.1.0".to_owned(),
        look: 0,
        session: SessionFacts::default(),
        created_unix_ms,
        status,
        stats: None,
        server_report: None,
        file: None,
    }
}

fn spec(engine: &str, requests: u32) -> RunSpec {
    RunSpec {
        arm: Arm {
            name: None,
            engine: EngineRef::Chapter {
                id: engine.to_owned(),
            },
            mode: Mode::Online,
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
                texts: vec!["Why is the sky blue?".to_owned()],
            },
            endpoint: Endpoint::Auto,
            sampling: SamplingParams::default(),
            load: Load::Closed {
                concurrency: SLOTS as u32,
            },
            n_runs: requests,
            warmup: 0,
            duration_ms: None,
            cache: CacheState::AsIs,
            tokenizer: None,
            allow_failures: AllowFailures::Percent { percent: 0.0 },
        },
        limits: Limits {
            ready_timeout_ms: 60_000,
            stop_grace_ms: 5_000,
            request_timeout_ms: 600_000,
            stall_timeout_ms: 120_000,
            device_wait_ms: 0,
        },
        salt: String::new(),
        slo: None,
    }
}

/// One request's answer: about 500 ms, its first token after about 40.
fn sample(run: u32, index: u32) -> Sample {
    let mut noise = Noise(u64::from(run) << 32 | u64::from(index));
    let due_ns = u64::from(index) / SLOTS * 500_000_000 + u64::from(index) % SLOTS * 1_000;
    let sent_ns = due_ns + 20_000;
    let mut deltas = vec![35_000 + noise.below(10_000)];
    deltas.extend((1..TOKENS).map(|_| 11_000 + noise.below(1_500)));
    let wall_us: u32 = deltas.iter().sum::<u32>() + 50;
    let first_us = deltas.first().copied().unwrap_or_default();
    let at = |us: u32| Some(sent_ns + u64::from(us) * 1_000);
    let mut ids: Vec<u32> = (0..TOKENS).map(|i| index % 97 * 40 + i).collect();
    let parts = run % 4 == 1 && index % PARTS_ONE_IN == 0;
    if let Some(last) = ids.last_mut().filter(|_| parts) {
        *last += 1;
    }
    let text: String = ids.iter().map(|id| format!(" w{id}")).collect();
    Sample {
        index,
        due_ns,
        start_ns: due_ns + 5_000,
        sent_ns: Some(sent_ns),
        headers_ns: at(1_000),
        first_event_ns: at(1_100),
        first_content_ns: at(first_us),
        last_content_ns: at(wall_us - 50),
        finish_ns: at(wall_us - 20),
        done_ns: at(wall_us),
        event_times: event_times(&deltas),
        wall_ms: Some(f64::from(wall_us) / 1e3),
        ttft_ms: Some(f64::from(first_us) / 1e3),
        tpot_ms: Some(f64::from(wall_us - 50 - first_us) / 1e3 / f64::from(TOKENS - 1)),
        timing_source: Some(TimingSource::Client),
        engine_wall_ms: Some(f64::from(wall_us) / 1e3 - 0.4),
        input_tokens: Some(12),
        output_tokens: Some(TOKENS),
        token_source: Some(TokenSource::Usage),
        usage_tokens: Some(TOKENS),
        requested_tokens: TOKENS,
        first_event_tokens: Some(1),
        finish_reason: Some(FinishReason::Length),
        done_seen: true,
        reused_connection: true,
        bytes: 9_000,
        status: Some(200),
        output_sha256: Some(hex::encode(Sha256::digest(&text))),
        text: Some(text),
        output_ids: Some(ids),
        firm_steps: Some(TOKENS - 1),
        ..Sample::default()
    }
}

fn event_times(deltas: &[u32]) -> Option<EventTimes> {
    let bytes: Vec<u8> = deltas.iter().flat_map(|us| us.to_le_bytes()).collect();
    let blob = zstd::bulk::compress(&bytes, 1).ok()?;
    Some(EventTimes {
        encoding: EVENT_TIMES_ENCODING.to_owned(),
        base64: STANDARD.encode(blob),
    })
}

/// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers on every machine.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(limit)) as u32
    }
}
