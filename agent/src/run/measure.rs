//! From an engine that is ready to its last sample: warm-up, measured requests, whose CPU time it
//! was, and whether the measurement can be believed. The limits are in [`validity`].

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contracts::run::{Load, RunFailure, RunSpec, Workload};
use contracts::sample::Sample;
use tokio::sync::mpsc;

use super::ready::{Ready, loaded};
use super::story::{Failure, Run};
use super::validity;
use crate::host::CpuMeter;
use crate::load::{
    Clock, DriveEnd, DriveOutcome, Gauges, OfflineEvent, OnlineJob, Phase, drive_online,
    read_offline,
};

/// Samples between the load generator and the spool: a full queue holds back the next request.
const SAMPLES_QUEUE_MAX: usize = 64;

/// Makes all requests and spools their samples.
pub(super) async fn all(run: &Run, ready: Ready, spawned: Instant) -> Result<(), Failure> {
    let spec = run.active.record.status().spec;
    let watch = Watch::new(run);
    let (out, samples) = mpsc::channel(SAMPLES_QUEUE_MAX);
    let driven = drive(run, ready, &spec, spawned, out, &watch);
    let (end, stored) = tokio::join!(driven, store(run, &spec, samples, &watch));
    watch.cpu_end();
    let end = end?;
    doubt(run, &end, &stored.gauges);
    conclude(run, end, stored.spool_ended)
}

/// Makes all requests. `out` is dropped at the end, which is what ends [`store`].
async fn drive(
    run: &Run,
    ready: Ready,
    spec: &RunSpec,
    spawned: Instant,
    out: mpsc::Sender<Sample>,
    watch: &Watch<'_>,
) -> Result<DriveEnd, Failure> {
    match ready {
        Ready::Online { server, text } => {
            let job = OnlineJob::from_spec(spec, &server, text, &run.active.secrets)
                .map_err(|error| run.failed(error.to_string()))?;
            let on_phase = |phase| watch.begin(phase);
            Ok(drive_online(&job, Clock::start(), &out, on_phase, &run.stop_load).await)
        }
        Ready::Offline {
            report,
            watch: expected,
        } => {
            let on_event = |event| match event {
                OfflineEvent::Loaded { build, model } => loaded(run, &build, Some(*model), spawned),
                OfflineEvent::Phase(phase) => watch.begin(phase),
            };
            Ok(read_offline(
                report,
                &expected,
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
struct Stored {
    gauges: Gauges,
    spool_ended: bool,
}

/// Takes samples to the spool as they come. Ends when the load generator has.
async fn store(
    run: &Run,
    spec: &RunSpec,
    mut samples: mpsc::Receiver<Sample>,
    watch: &Watch<'_>,
) -> Stored {
    let mut stored = Stored {
        gauges: Gauges::new(spec),
        spool_ended: false,
    };
    let mut progress = Progress::new(&spec.workload);
    while let Some(sample) = samples.recv().await {
        stored.gauges.see(&sample);
        let (done, total) = progress.after(&sample, watch.measured_for());
        if !sample.warmup && done == total && spec.workload.duration_ms.is_none() {
            // Now and not later: what comes after the last answer is not the measurement.
            watch.cpu_end();
        }
        run.active.record.progress(done, total);
        if !run.writer.sample(sample).await {
            stored.spool_ended = true;
            // The sender sees the queue closed and ends the drive.
            break;
        }
    }
    stored
}

/// Requests ended of those to come, by phase.
struct Progress<'a> {
    workload: &'a Workload,
    warmup: u64,
    measured: u64,
}

impl<'a> Progress<'a> {
    fn new(workload: &'a Workload) -> Self {
        Self {
            workload,
            warmup: 0,
            measured: 0,
        }
    }

    /// Counts `sample`. Done and total of its phase; where time decides how many requests there
    /// will be, the total is what has ended by now, carried on to the end of that time.
    fn after(&mut self, sample: &Sample, measured_for: Option<Duration>) -> (u64, u64) {
        if sample.warmup {
            self.warmup += 1;
            // There are more than were asked for where there are more slots.
            return (self.warmup, self.warmup.max(self.workload.warmup.into()));
        }
        self.measured += 1;
        let most = u64::from(self.workload.n_runs);
        let total = match (self.workload.duration_ms, measured_for) {
            (None, _) => most,
            (Some(_), None) => self.measured,
            (Some(duration_ms), Some(passed)) => {
                let passed_ms = (passed.as_millis() as f64).clamp(1.0, duration_ms as f64);
                (self.measured as f64 * duration_ms as f64 / passed_ms) as u64
            }
        };
        (
            self.measured,
            total.clamp(self.measured, most.max(self.measured)),
        )
    }
}

/// Puts the validity figures on record, and what they cast doubt on.
fn doubt(run: &Run, end: &DriveEnd, seen: &Gauges) {
    let record = &run.active.record;
    for (code, answers, words) in [
        (
            "token_count_mismatch",
            seen.tokens_differ(),
            "requests the server's count of tokens differs from the tokenizer's; figures use the server's",
        ),
        (
            "max_tokens_exceeded",
            seen.too_long(),
            "answers there are more tokens than were asked for at most; the server does not keep to --max-tokens",
        ),
        (
            "events_hold_several_tokens",
            seen.undercounted(),
            "answers events were counted, for want of usage, and hold several tokens each: tokens, tok/s and TPOT are wrong; give --tokenizer",
        ),
    ] {
        if answers > 0 {
            record.warn(code, format!("in {answers} {words}"));
        }
    }
    let unstored = end.gauges.as_ref().map_or(0, |gauges| gauges.unstored);
    if unstored > 0 {
        let message = format!(
            "{unstored} more requests were due and not sent when the run was ended; they are not among its samples"
        );
        record.warn("unsent_not_stored", message);
    }
    let mut doubts = Vec::new();
    record.update(|status| {
        let validity = &mut status.validity;
        let basis = seen.tell(validity);
        if let Some(gauges) = &end.gauges {
            gauges.tell(validity);
        }
        let asked_per_s = match status.spec.workload.load {
            Load::Open { rate_per_s, .. } => Some(rate_per_s),
            _ => None,
        };
        validity::judge(validity, &basis, asked_per_s);
        doubts.clone_from(&validity.doubts);
    });
    for doubt in doubts {
        record.warn(validity::warning_code(&doubt), doubt.message.clone());
    }
}

fn conclude(run: &Run, end: DriveEnd, spool_ended: bool) -> Result<(), Failure> {
    if spool_ended {
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

/// What the run is at, since when, and who uses the CPU meanwhile.
struct Watch<'a> {
    run: &'a Run,
    measuring: Mutex<Measuring>,
}

#[derive(Default)]
struct Measuring {
    since: Option<Instant>,
    meter: Option<CpuMeter>,
}

impl<'a> Watch<'a> {
    fn new(run: &'a Run) -> Self {
        Self {
            run,
            measuring: Mutex::default(),
        }
    }

    /// A phase begins.
    fn begin(&self, phase: Phase) {
        self.run.enter(phase.stage());
        if phase == Phase::Warmup {
            return;
        }
        let meter = CpuMeter::start();
        if let Err(error) = &meter {
            tracing::warn!(run = %self.run.active.id, %error, "the CPU's use cannot be measured");
        }
        let mut measuring = self.lock();
        measuring.since = Some(Instant::now());
        measuring.meter = meter.ok();
    }

    /// How long requests have been measured.
    fn measured_for(&self) -> Option<Duration> {
        self.lock().since.map(|since| since.elapsed())
    }

    /// The measurement is over. The first call after its beginning counts.
    fn cpu_end(&self) {
        let meter = self.lock().meter.take();
        let Some(used) = meter.and_then(|meter| meter.read().ok()) else {
            return;
        };
        let beside = self.run.resolved.engine.runs_beside_us();
        let foreign_share = used.foreign_share.filter(|_| !beside);
        self.run.active.record.update(|status| {
            status.validity.foreign_cpu_during = foreign_share;
            status.validity.agent_cpu_ms = Some(used.own_ms);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Measuring> {
        // No holder of it can panic half way through a change.
        self.measuring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::fake_spec;

    #[test]
    fn progress_counts_what_ended_whatever_its_index() {
        let spec = fake_spec();
        let mut progress = Progress::new(&spec.workload);
        let at = |warmup, index| Sample {
            warmup,
            index,
            ..Sample::default()
        };
        assert_eq!(progress.after(&at(true, 5), None), (1, 1));
        assert_eq!(progress.after(&at(false, 2), None), (1, 3));
        // More slots than requests asked for: all of them warm up.
        assert_eq!(progress.after(&at(true, 0), None), (2, 2));
        assert_eq!(progress.after(&at(false, 0), None), (2, 3));
    }

    #[test]
    fn with_a_duration_progress_follows_the_time() {
        let mut spec = fake_spec();
        spec.workload.n_runs = 1_000;
        spec.workload.duration_ms = Some(10_000);
        let mut progress = Progress::new(&spec.workload);
        let mut after = |ms| progress.after(&Sample::default(), Some(Duration::from_millis(ms)));
        assert_eq!(after(1_000), (1, 10));
        assert_eq!(after(4_000), (2, 5));
        // What was in flight at the end drains.
        assert_eq!(after(12_000), (3, 3));
    }
}
