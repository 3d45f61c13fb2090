//! From a living child to its last sample: ready, warm-up, measured requests, and what is known of
//! the engine by then.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use contracts::defaults::FOREIGN_CPU_WARN_SHARE;
use contracts::host::BuildFacts;
use contracts::run::{EngineRef, ModelFacts, Provenance, RunFailure, RunSpec, Stage};
use contracts::sample::Sample;
use contracts::worker::Health;
use tokio::sync::mpsc;

use super::launch::Link;
use super::story::{Failure, Run};
use crate::host::CpuMeter;
use crate::load::{
    Clock, DriveEnd, DriveOutcome, OfflineEvent, OfflineWatch, OnlineJob, Phase, Server,
    drive_online, read_offline,
};
use crate::process::{self, Child, ReadyError};

/// Samples between the load generator and the spool: a full queue holds back the next request.
const SAMPLES_QUEUE_MAX: usize = 64;
/// The name under which our own server serves whatever it has loaded.
const SERVED_NAME: &str = "default";

/// Gets the child ready, then makes all requests and spools their samples.
pub(super) async fn all(
    run: &Run,
    child: &Child,
    link: Link,
    spawned: Instant,
) -> Result<(), Failure> {
    let spec = run.active.record.status().spec;
    let cpu = CpuWatch {
        run,
        meter: Mutex::new(None),
    };
    let (out, samples) = mpsc::channel(SAMPLES_QUEUE_MAX);
    let driven = drive(run, child, link, &spec, spawned, out, &cpu);
    let (end, stored) = tokio::join!(driven, store(run, &spec, samples, &cpu));
    cpu.end();
    judge(run, end?, stored)
}

/// Makes all requests. `out` is dropped at the end, which is what ends [`store`].
async fn drive(
    run: &Run,
    child: &Child,
    link: Link,
    spec: &RunSpec,
    spawned: Instant,
    out: mpsc::Sender<Sample>,
    cpu: &CpuWatch<'_>,
) -> Result<DriveEnd, Failure> {
    match link {
        Link::Online { addr, instance } => {
            let server = ready(
                run,
                child,
                &format!("http://{addr}"),
                &instance,
                spec,
                spawned,
            )
            .await?;
            let job = OnlineJob::from_spec(spec, &server)
                .map_err(|error| run.failed(error.to_string()))?;
            let on_phase = |phase| begin(phase, cpu);
            Ok(drive_online(&job, Clock::start(), &out, on_phase, &run.stop_load).await)
        }
        Link::Offline { report } => {
            let watch = OfflineWatch::from_spec(spec);
            let on_event = |event| match event {
                OfflineEvent::Loaded { build, model } => loaded(run, &build, Some(*model), spawned),
                OfflineEvent::Phase(phase) => begin(phase, cpu),
            };
            Ok(read_offline(
                report,
                &watch,
                Clock::start(),
                &out,
                on_event,
                &run.stop_load,
            )
            .await)
        }
    }
}

/// Waits for the server's health, and notes what it says of itself.
async fn ready(
    run: &Run,
    child: &Child,
    base_url: &str,
    instance: &str,
    spec: &RunSpec,
    spawned: Instant,
) -> Result<Server, Failure> {
    let timeout = Duration::from_millis(spec.limits.ready_timeout_ms);
    let answer = process::wait_ready(
        child,
        &format!("{base_url}/health"),
        Some(instance),
        timeout,
    )
    .await;
    let answer = answer.map_err(|error| match error {
        ReadyError::Died { .. } => Failure::Gone(Stage::Load),
        other => run.failed(other.to_string()),
    })?;
    let health: Health = serde_json::from_value(answer.health_json)
        .map_err(|error| run.failed(format!("the server's /health: {error}")))?;
    let chat_template = health
        .model
        .as_ref()
        .is_some_and(|model| model.chat_template);
    loaded(run, &health.build, health.model, spawned);
    Ok(Server {
        base_url: base_url.to_owned(),
        model: SERVED_NAME.to_owned(),
        chat_template,
        ours: true,
    })
}

/// What was stored, for the status.
#[derive(Default)]
struct Stored {
    failed: u32,
    mismatched: u32,
    spool_ended: bool,
}

/// Takes samples to the spool as they come. Ends when the load generator has.
async fn store(
    run: &Run,
    spec: &RunSpec,
    mut samples: mpsc::Receiver<Sample>,
    cpu: &CpuWatch<'_>,
) -> Stored {
    let mut stored = Stored::default();
    while let Some(sample) = samples.recv().await {
        let total = if sample.warmup {
            spec.workload.warmup
        } else {
            spec.workload.n_runs
        };
        let done = sample.index + 1;
        if !sample.warmup {
            stored.failed += u32::from(sample.error.is_some());
            stored.mismatched += u32::from(counts_differ(&sample));
            if done == total {
                // Now and not later: what comes after the last answer is not the measurement.
                cpu.end();
            }
        }
        run.active.record.progress(done.into(), total.into());
        if !run.writer.sample(sample).await {
            stored.spool_ended = true;
            // The sender sees the queue closed and ends the drive.
            break;
        }
    }
    stored
}

fn counts_differ(sample: &Sample) -> bool {
    matches!((sample.usage_tokens, sample.local_tokens), (Some(usage), Some(local)) if usage != local)
}

fn judge(run: &Run, end: DriveEnd, stored: Stored) -> Result<(), Failure> {
    let record = &run.active.record;
    record.update(|status| status.validity.failed_requests = stored.failed);
    if stored.mismatched > 0 {
        let message = format!(
            "in {} requests the server's count of tokens differs from the tokenizer's; figures use the server's",
            stored.mismatched
        );
        record.warn("token_count_mismatch", message);
    }
    if stored.spool_ended {
        return Err(run.failed("the spool took no more samples"));
    }
    match end.outcome {
        DriveOutcome::Done => Ok(()),
        DriveOutcome::Failed { stage, message } => Err(Failure::Failed(RunFailure {
            stage,
            message,
            log_tail: Vec::new(),
        })),
        DriveOutcome::WorkerGone { stage } => Err(Failure::Gone(stage)),
        DriveOutcome::Cancelled => Err(run.failed("ended on order")),
    }
}

/// A phase begins: before its first request.
fn begin(phase: Phase, cpu: &CpuWatch<'_>) {
    cpu.run.enter(phase.stage());
    if phase == Phase::Measure {
        cpu.begin();
    }
}

/// What is known before the engine says anything.
pub(super) fn begin_provenance(run: &Run, engine_sha256: String) {
    let provenance = Provenance {
        agent_build: build_word(&engine::cli::build_facts()),
        engine_binary_sha256: Some(engine_sha256),
        host_fingerprint: run.bench.facts.fingerprint.clone(),
        definition: contracts::DEFINITION.to_owned(),
        ..Provenance::default()
    };
    run.active.record.update(|status| {
        let chapter = match &status.spec.arm.engine {
            EngineRef::Chapter { id } => Some(id),
            EngineRef::Named { chapter, .. } => chapter.as_ref(),
        };
        let title = chapter.and_then(|id| engine::chapters::find(id).ok());
        status.provenance = Some(Provenance {
            engine_title: title.map(|chapter| chapter.title.to_owned()),
            ..provenance
        });
    });
}

/// What the engine says of itself once it has loaded: on record, and on disk for the case that we die.
fn loaded(run: &Run, build: &BuildFacts, model: Option<ModelFacts>, spawned: Instant) {
    let ready_ms = spawned.elapsed().as_secs_f64() * 1e3;
    run.active.record.update(|status| {
        status.lifecycle.ready_ms = Some(ready_ms);
        let provenance = status.provenance.get_or_insert_default();
        provenance.engine_build = Some(build_word(build));
        provenance.engine_profile = Some(build.profile.clone());
        provenance.model = model;
    });
    if let Err(error) = run.folder.save(&run.active.record.status()) {
        tracing::warn!(run = %run.active.id, %error, "the run's status could not be saved");
    }
}

/// `0.1.0+3fa1c2d`; without a commit the version alone.
fn build_word(build: &BuildFacts) -> String {
    if build.commit.is_empty() {
        build.version.clone()
    } else {
        format!("{}+{}", build.version, build.commit)
    }
}

/// Who used the CPU while requests were measured.
struct CpuWatch<'a> {
    run: &'a Run,
    meter: Mutex<Option<CpuMeter>>,
}

impl CpuWatch<'_> {
    fn begin(&self) {
        let meter = CpuMeter::start();
        if let Err(error) = &meter {
            tracing::warn!(run = %self.run.active.id, %error, "the CPU's use cannot be measured");
        }
        *self.meter.lock().unwrap_or_else(PoisonError::into_inner) = meter.ok();
    }

    /// The first call after `begin` counts.
    fn end(&self) {
        let meter = self
            .meter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(used) = meter.and_then(|meter| meter.read().ok()) else {
            return;
        };
        let record = &self.run.active.record;
        record.update(|status| {
            status.validity.foreign_cpu_during = used.foreign_share;
            status.validity.agent_cpu_ms = Some(used.own_ms);
        });
        if let Some(share) = used
            .foreign_share
            .filter(|share| *share > FOREIGN_CPU_WARN_SHARE)
        {
            record.warn(
                "foreign_cpu",
                format!(
                    "others used {:.0} % of the CPU while measuring",
                    share * 100.0
                ),
            );
        }
    }
}
