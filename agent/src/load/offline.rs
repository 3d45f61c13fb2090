//! The offline reader: the worker's lines, as they come on the report descriptor, become samples.
//! Starting and ending the worker is the caller's matter.
//!
//! The worker's clock starts when its model is loaded. Its instants are moved to the run's clock
//! by the moment its `loaded` line was read; differences between them stay the worker's own.

use std::os::fd::OwnedFd;
use std::time::Duration;

use contracts::generate::{GenerateResult, QUEUE_MS};
use contracts::host::BuildFacts;
use contracts::run::{AllowFailures, ModelFacts, RunSpec, Stage};
use contracts::sample::{ErrorClass, Sample, TokenSource};
use contracts::worker::WorkerLine;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::{engine_timing, failure, firm_steps, sha256_of_ids, sha256_of_text};
use super::clock::{Clock, ms_between};
use super::online::{slots, warmup};
use super::tally::{DriveEnd, DriveOutcome, Phase, Tally, spool_gone};

/// Bytes of one line, at most: a result with the ids of a million tokens.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// What the reader expects of a worker, and how long it waits.
#[derive(Debug, Clone)]
pub struct OfflineWatch {
    /// Requests before measuring.
    pub warmup: u32,
    /// Measured requests.
    pub n_runs: u32,
    /// Requests under way at once.
    pub concurrency: u32,
    /// How many of them may fail.
    pub allow_failures: AllowFailures,
    /// The ceiling that was asked for, where requests do not differ.
    pub requested_tokens: u32,
    /// What was asked of each warm-up request; empty where they do not differ.
    pub warmup_asked: Vec<Asked>,
    /// What was asked of each measured request; likewise.
    pub asked: Vec<Asked>,
    /// Until the model is loaded.
    pub ready_timeout: Duration,
    /// From one line to the next: no longer than one request, since whatever is in flight was
    /// submitted before the latest line.
    pub request_timeout: Duration,
}

impl OfflineWatch {
    /// What `spec` says.
    pub fn from_spec(spec: &RunSpec) -> Self {
        Self {
            warmup: warmup(&spec.workload),
            n_runs: spec.workload.n_runs,
            concurrency: slots(&spec.workload.load).unwrap_or(1),
            allow_failures: spec.workload.allow_failures,
            requested_tokens: spec.workload.sampling.max_tokens,
            warmup_asked: Vec::new(),
            asked: Vec::new(),
            ready_timeout: Duration::from_millis(spec.limits.ready_timeout_ms),
            request_timeout: Duration::from_millis(spec.limits.request_timeout_ms),
        }
    }

    /// A sample of which only what was asked is known.
    fn sample(&self, warmup: bool, index: u32) -> Sample {
        let asked = match warmup {
            true => &self.warmup_asked,
            false => &self.asked,
        };
        let asked = asked.get(index as usize).copied().unwrap_or(Asked {
            max_tokens: self.requested_tokens,
            planned_input_tokens: None,
        });
        Sample {
            index,
            warmup,
            requested_tokens: asked.max_tokens,
            planned_input_tokens: asked.planned_input_tokens,
            ..Sample::default()
        }
    }
}

/// What one request was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its ceiling.
    pub max_tokens: u32,
    /// Tokens that its prompt was made to have, where it was made.
    pub planned_input_tokens: Option<u32>,
}

/// What the caller is told between samples.
#[derive(Debug)]
pub enum OfflineEvent {
    /// The model is loaded.
    Loaded {
        /// Build of the worker.
        build: BuildFacts,
        /// What it loaded.
        model: Box<ModelFacts>,
    },
    /// A phase begins.
    Phase(Phase),
}

/// Reads a worker's lines until its last, its end, a failure or `cancel`; each sample goes to
/// `out`. `report` is the read end of a pipe.
///
/// Where several requests are in flight, their lines come in the order in which they end; all of a
/// phase have ended before the next begins.
///
/// Unlike online, a cancel leaves no `aborted` sample: the worker reports between requests, so
/// nothing is known of the one under way. One that outlives its time is a failed request, since
/// that much is known; the worker cannot be asked for another, so that it ends the run.
pub async fn read_offline(
    report: OwnedFd,
    watch: &OfflineWatch,
    clock: Clock,
    out: &mpsc::Sender<Sample>,
    on_event: impl FnMut(OfflineEvent),
    cancel: &CancellationToken,
) -> DriveEnd {
    let tally = Tally::new(watch.warmup, watch.n_runs, watch.allow_failures);
    let report = match Receiver::from_owned_fd(report) {
        Ok(report) => BufReader::new(report),
        Err(e) => {
            return tally.end(DriveOutcome::Failed {
                stage: Stage::Spawn,
                message: format!("the worker's report descriptor: {e}"),
            });
        }
    };
    let mut reader = Reader {
        report,
        watch,
        clock,
        out,
        on_event,
        tally,
        loaded_ns: None,
        asked_ns: 0,
        begun: None,
        open: Vec::new(),
    };
    let outcome = tokio::select! {
        biased;
        () = cancel.cancelled() => DriveOutcome::Cancelled,
        outcome = reader.run() => outcome,
    };
    reader.tally.end(outcome)
}

struct Reader<'a, F> {
    report: BufReader<Receiver>,
    watch: &'a OfflineWatch,
    clock: Clock,
    out: &'a mpsc::Sender<Sample>,
    on_event: F,
    tally: Tally,
    /// When the worker's clock started, on ours.
    loaded_ns: Option<u64>,
    /// When the latest line was read, on ours: the worker has been at its next request since.
    asked_ns: u64,
    begun: Option<Phase>,
    /// Requests of the phase begun that have not ended, the last first.
    open: Vec<u32>,
}

impl<F: FnMut(OfflineEvent)> Reader<'_, F> {
    async fn run(&mut self) -> DriveOutcome {
        loop {
            let line = match self.line().await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    return DriveOutcome::WorkerGone {
                        stage: self.stage(),
                    };
                }
                Err(Unread::Late(wait)) => return self.late(wait).await,
                Err(Unread::Bad(message)) => return self.failed(message),
            };
            self.asked_ns = self.clock.now_ns();
            let outcome = match line {
                WorkerLine::Loaded { build, model } => {
                    self.loaded_ns = Some(self.asked_ns);
                    let model = Box::new(model);
                    (self.on_event)(OfflineEvent::Loaded { build, model });
                    self.begin_phase();
                    None
                }
                WorkerLine::Request {
                    index,
                    warmup,
                    start_ns,
                    done_ns,
                    result,
                } => {
                    let times = (start_ns, done_ns);
                    self.request(index, warmup, times, result).await
                }
                WorkerLine::Done => Some(match self.tally.next() {
                    None => DriveOutcome::Done,
                    Some(_) => self.failed("the worker stopped before its last request".into()),
                }),
            };
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Takes one request's line. An outcome if it ends the run.
    async fn request(
        &mut self,
        index: u32,
        warmup: bool,
        (start_ns, done_ns): (u64, u64),
        result: Result<GenerateResult, String>,
    ) -> Option<DriveOutcome> {
        let expected = self.tally.next();
        let (Some(loaded_ns), Some((phase, next))) = (self.loaded_ns, expected) else {
            return Some(self.failed("the worker reported a request that was not asked".into()));
        };
        // They are submitted in order: those under way are the first that have not ended.
        let mut under_way = self.open.iter().rev().take(self.watch.concurrency as usize);
        let place = under_way.position(|open| *open == index);
        let Some(place) = place.filter(|_| (phase == Phase::Warmup) == warmup) else {
            return Some(self.failed(format!(
                "the worker reported request {index} where {next} was due"
            )));
        };
        self.open.remove(self.open.len() - 1 - place);
        let mut sample = self.watch.sample(warmup, index);
        let start_ns = loaded_ns.saturating_add(start_ns);
        let done_ns = loaded_ns.saturating_add(done_ns);
        sample.due_ns = start_ns;
        sample.start_ns = start_ns;
        sample.sent_ns = Some(start_ns);
        sample.done_ns = Some(done_ns);
        sample.wall_ms = Some(ms_between(start_ns, done_ns));
        fill(&mut sample, result);
        let failed = self.tally.add(phase, index, sample.error.as_ref());
        if self.out.send(sample).await.is_err() {
            return Some(spool_gone(phase.stage()));
        }
        if failed.is_none() {
            self.begin_phase();
        }
        failed
    }

    /// Tells the caller if the next request is the first of its phase.
    fn begin_phase(&mut self) {
        if let Some((phase, _)) = self.tally.next()
            && self.begun.replace(phase) != Some(phase)
        {
            let requests = match phase {
                Phase::Warmup => self.watch.warmup,
                Phase::Measure => self.watch.n_runs,
            };
            self.open = (0..requests).rev().collect();
            (self.on_event)(OfflineEvent::Phase(phase));
        }
    }

    /// The next line; none at the end of the report.
    async fn line(&mut self) -> Result<Option<WorkerLine>, Unread> {
        let wait = match self.loaded_ns {
            None => self.watch.ready_timeout,
            Some(_) => self.watch.request_timeout,
        };
        let mut bytes = Vec::new();
        let mut bounded = (&mut self.report).take(LINE_BYTES_MAX);
        let read = bounded.read_until(b'\n', &mut bytes);
        tokio::time::timeout(wait, read)
            .await
            .map_err(|_| Unread::Late(wait))?
            .map_err(|e| Unread::Bad(format!("the worker's report: {e}")))?;
        // A line cut off by the worker's death is no line.
        if bytes.pop() != Some(b'\n') {
            if bytes.len() as u64 + 1 >= LINE_BYTES_MAX {
                return Err(Unread::Bad(format!(
                    "a worker's line has more than {LINE_BYTES_MAX} bytes"
                )));
            }
            return Ok(None);
        }
        let line = serde_json::from_slice(&bytes);
        line.map(Some).map_err(|e| {
            Unread::Bad(format!(
                "the worker's line cannot be read ({e}); is it another build?"
            ))
        })
    }

    /// The outcome of a wait that ended: the request under way has failed, of several the first.
    async fn late(&mut self, wait: Duration) -> DriveOutcome {
        let under_way = self.tally.next().zip(self.open.last().copied());
        let (Some(_), Some(((phase, _), index))) = (self.loaded_ns, under_way) else {
            let what = match self.loaded_ns {
                None => "the model was not loaded",
                Some(_) => "the worker did not end",
            };
            return self.failed(format!("{what} within {wait:?}"));
        };
        let message = format!("not done within {wait:?}");
        let sample = Sample {
            due_ns: self.asked_ns,
            start_ns: self.asked_ns,
            sent_ns: Some(self.asked_ns),
            error: Some(failure(ErrorClass::TotalTimeout, message.clone())),
            ..self.watch.sample(phase == Phase::Warmup, index)
        };
        let outcome = self.tally.add(phase, index, sample.error.as_ref());
        if self.out.send(sample).await.is_err() {
            return spool_gone(phase.stage());
        }
        outcome.unwrap_or(DriveOutcome::Failed {
            stage: phase.stage(),
            message: format!("request {} was {message}; the worker is stuck", index + 1),
        })
    }

    fn stage(&self) -> Stage {
        match (self.loaded_ns, self.tally.next()) {
            (None, _) => Stage::Load,
            (Some(_), Some((phase, _))) => phase.stage(),
            (Some(_), None) => Stage::Measure,
        }
    }

    fn failed(&self, message: String) -> DriveOutcome {
        DriveOutcome::Failed {
            stage: self.stage(),
            message,
        }
    }
}

/// Why there is no next line.
enum Unread {
    /// It did not come in time.
    Late(Duration),
    /// It is not what a worker says.
    Bad(String),
}

/// What one `generate` gave.
fn fill(sample: &mut Sample, result: Result<GenerateResult, String>) {
    let result = match result {
        Ok(result) => result,
        Err(message) => {
            sample.error = Some(failure(ErrorClass::Engine, message));
            return;
        }
    };
    let metrics = &result.metrics;
    sample.engine_wall_ms = Some(metrics.wall_ms);
    sample.engine_queue_ms = metrics.extras.get(QUEUE_MS).copied();
    sample.input_tokens = Some(metrics.input_tokens);
    sample.firm_steps = firm_steps(metrics);
    sample.finish_reason = Some(result.finish_reason);
    sample.output_sha256 = Some(sha256_of_text(&result.text));
    sample.input_ids_sha256 = Some(sha256_of_ids(&result.input_ids));
    if metrics.output_tokens == 0 {
        let message = "the engine made no token";
        sample.error = Some(failure(ErrorClass::NoTokens, message));
    } else {
        sample.output_tokens = Some(metrics.output_tokens);
        sample.token_source = Some(TokenSource::Engine);
        engine_timing(sample, Some(metrics));
    }
    sample.text = Some(result.text);
    sample.output_ids = Some(result.output_ids);
}
