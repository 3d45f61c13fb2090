//! The load generator's own floor on this host: it is driven against a server on a known schedule
//! that writes down what it did, and its figures are compared with that log, request by request.
//!
//! [`run`] is the whole of `POST /v1/calibrate`; `server` starts, asks and ends the server,
//! `compare` holds the figures' definitions and is pure. The load generator is the real one.

mod compare;
mod server;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use contracts::calibrate::{ClientFloor, FloorLevel};
use contracts::generate::SamplingParams;
use contracts::run::{
    AllowFailures, Arm, CacheState, Device, Endpoint, EngineRef, Limits, Load, Mode, PromptSource,
    RunSpec, Workload,
};
use nix::sys::resource::UsageWho;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::host::cpu_time;
use crate::load::{Clock, DriveOutcome, JobError, OnlineJob, Server, drive_online};
use crate::metronome::MODEL;
use crate::run::check::Refusal;
use crate::run::{Bench, StartError, build_word};
use server::Metronome;

/// Numbers of streams in one calibration, at most: each takes seconds.
const LEVELS_MAX: usize = 8;
/// Streams at once, at most: the log of one level is held in memory.
const STREAMS_MAX: u32 = 10_000;
/// One level takes a few seconds by its schedule; a host that needs this long says nothing.
const LEVEL_LIMIT: Duration = Duration::from_secs(90);
/// Tokens of an answer: with the metronome's own times about half a second.
const TOKENS: u32 = 50;
/// Words of a prompt.
const PROMPT_WORDS: usize = 32;
/// Measured requests of a level: so many for each slot, and at least so many.
const ROUNDS: u32 = 2;
const REQUESTS_MIN: u32 = 8;
/// Samples between the load generator and the comparison.
const SAMPLES_QUEUE_MAX: usize = 64;
/// Waits of one request: far beyond the schedule.
const REQUEST_LIMIT_MS: u64 = 30_000;

/// Why there is no floor.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A number of streams that cannot be measured.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The host is at work, or may not be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The metronome, or the load against it.
    #[error("calibration: {0:#}")]
    Failed(#[from] anyhow::Error),
}

/// Measures each number of streams in turn. Nothing else runs on this host meanwhile; the server
/// is ended whatever happens, also when `cancel` fires.
///
/// # Errors
/// [`CalibrateError`].
pub async fn run(
    bench: Arc<Bench>,
    streams: &[u32],
    cancel: CancellationToken,
) -> Result<ClientFloor, CalibrateError> {
    check(streams)?;
    let (reserved, lock) = bench.reserve("a calibration").await?;
    let metronome = Metronome::start(&bench, lock, TOKENS).await?;
    let mut levels = Vec::new();
    let mut failed = None;
    for &streams in streams {
        let level = tokio::select! {
            level = tokio::time::timeout(LEVEL_LIMIT, level(&metronome, streams)) => level,
            () = cancel.cancelled() => break,
            () = reserved.closing.cancelled() => break,
        };
        let late = || anyhow::anyhow!("{streams} streams took over {LEVEL_LIMIT:?}");
        match level.unwrap_or_else(|_| Err(late())) {
            Ok(level) => levels.push(level),
            Err(error) => {
                failed = Some(error.context(format!("{streams} streams")));
                break;
            }
        }
    }
    let complete = levels.len() == streams.len();
    if let Err(error) = metronome.stop().await {
        // As after a run: what is left would disturb whatever is measured next.
        let dirt = format!("a calibration: {error:#}");
        if let Err(error) = bench.state.set_quarantine(&dirt) {
            tracing::error!(%error, "quarantine could not be written down");
        }
        return Err(error.context("the host is quarantined").into());
    }
    match failed {
        Some(error) => Err(error.into()),
        None if complete => Ok(ClientFloor {
            agent_build: build_word(&engine::cli::build_facts()),
            host_fingerprint: bench.facts.fingerprint.clone(),
            levels,
        }),
        None => Err(anyhow::anyhow!("ended on order").into()),
    }
}

fn check(streams: &[u32]) -> Result<(), Refusal> {
    if streams.is_empty() || streams.len() > LEVELS_MAX {
        let message = format!("name 1 to {LEVELS_MAX} numbers of streams");
        return Err(Refusal::new("streams", message));
    }
    if let Some(wrong) = streams.iter().find(|n| !(1..=STREAMS_MAX).contains(*n)) {
        let message = format!("{wrong} is not between 1 and {STREAMS_MAX}");
        return Err(Refusal::new("streams", message));
    }
    Ok(())
}

async fn level(metronome: &Metronome, streams: u32) -> anyhow::Result<FloorLevel> {
    let measured = (streams * ROUNDS).max(REQUESTS_MIN);
    let spec = closed_loop(&metronome.url(), streams, streams, measured, TOKENS);
    let job = job(&spec, &metronome.url())?;
    // Dropped with this future, when the level takes too long or is ended on order.
    let stop = CancellationToken::new();
    let _dropped = stop.clone().drop_guard();
    let (out, mut queue) = mpsc::channel(SAMPLES_QUEUE_MAX);
    let collect = async {
        let mut samples = Vec::new();
        while let Some(sample) = queue.recv().await {
            samples.push(sample);
        }
        samples
    };
    let drive = async {
        let end = drive_online(&job, Clock::start(), &out, |_| (), &stop).await;
        drop(out);
        end
    };
    let ((end, samples), cpu_ms) = cpu_of(async { tokio::join!(drive, collect) }).await;
    if let DriveOutcome::Failed { message, .. } = end.outcome {
        anyhow::bail!("{message}");
    }
    let log = metronome.log().await?;
    Ok(compare::level(streams, &samples, &log, cpu_ms))
}

/// What a closed loop of chat requests with fixed prompts asks of the metronome at `url`.
pub fn closed_loop(url: &str, streams: u32, warmup: u32, measured: u32, tokens: u32) -> RunSpec {
    RunSpec {
        arm: Arm {
            name: None,
            engine: EngineRef::Url {
                url: url.to_owned(),
                served_name: Some(MODEL.to_owned()),
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
            model: MODEL.to_owned(),
            prompts: PromptSource::Texts {
                texts: vec![vec!["word"; PROMPT_WORDS].join(" ")],
            },
            endpoint: Endpoint::Chat,
            sampling: SamplingParams {
                max_tokens: tokens,
                ..SamplingParams::default()
            },
            load: Load::Closed {
                concurrency: streams,
            },
            n_runs: measured,
            duration_ms: None,
            warmup,
            cache: CacheState::AsIs,
            tokenizer: None,
            // A lost request is a finding here.
            allow_failures: AllowFailures::Percent { percent: 100.0 },
        },
        limits: Limits {
            ready_timeout_ms: REQUEST_LIMIT_MS,
            stop_grace_ms: REQUEST_LIMIT_MS,
            request_timeout_ms: REQUEST_LIMIT_MS,
            stall_timeout_ms: REQUEST_LIMIT_MS,
            device_wait_ms: 0,
        },
        salt: String::new(),
        slo: None,
    }
}

/// The job of a spec by [`closed_loop`].
///
/// # Errors
/// A URL that is none.
pub fn job(spec: &RunSpec, url: &str) -> Result<OnlineJob, JobError> {
    let server = Server {
        base_url: url.to_owned(),
        model: MODEL.to_owned(),
        chat_template: true,
        ours: false,
    };
    OnlineJob::from_spec(spec, &server, None, &Default::default())
}

/// What `work` gives, and the CPU time of this process meanwhile, ms.
async fn cpu_of<T>(work: impl Future<Output = T>) -> (T, f64) {
    let of = UsageWho::RUSAGE_SELF;
    let before = cpu_time(of);
    let done = work.await;
    let used = cpu_time(of).zip(before);
    let used = used.map(|(after, before)| after.saturating_sub(before));
    (done, used.unwrap_or_default().as_secs_f64() * 1e3)
}
