//! From a living child to its last sample: warm-up, measured requests, and whose CPU time it was.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use contracts::defaults::FOREIGN_CPU_WARN_SHARE;
use contracts::run::{RunFailure, RunSpec};
use contracts::sample::Sample;
use tokio::sync::mpsc;

use super::launch::Link;
use super::ready::{loaded, ready};
use super::story::{Failure, Run};
use crate::host::CpuMeter;
use crate::load::{
    Clock, DriveEnd, DriveOutcome, OfflineEvent, OnlineJob, Phase, drive_online, read_offline,
};
use crate::process::Child;

/// Samples between the load generator and the spool: a full queue holds back the next request.
const SAMPLES_QUEUE_MAX: usize = 64;

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
            let text = run.resolved.text.clone();
            let job = OnlineJob::from_spec(spec, &server, text, &run.active.secrets)
                .map_err(|error| run.failed(error.to_string()))?;
            let on_phase = |phase| begin(phase, cpu);
            Ok(drive_online(&job, Clock::start(), &out, on_phase, &run.stop_load).await)
        }
        Link::Offline { report, watch } => {
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
