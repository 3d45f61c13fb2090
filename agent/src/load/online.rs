//! The online drive: warm-up and measured requests over HTTP, in the order and at the times that
//! the load asks. Today that is a closed loop of one slot; a slot knows nothing of its neighbours,
//! so that more of them, or a schedule, change this file and not the client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contracts::api::Secrets;
use contracts::defaults;
use contracts::run::{AllowFailures, Load, RunSpec};
use contracts::sample::Sample;
use engine::text::Text;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::TokenCounter;
use super::client::{Client, ClientConfig, Shared, Target, TargetError, Timeouts};
use super::clock::Clock;
use super::tally::{DriveEnd, DriveOutcome, Phase, Tally, spool_gone};
use super::workload::{Bodies, Route};
use crate::prompts::{PromptError, Prompts};

/// A server as the caller knows it.
#[derive(Debug, Clone)]
pub struct Server {
    /// `http://host:port`, with or without `/v1`.
    pub base_url: String,
    /// The name that it serves.
    pub model: String,
    /// Whether its model has a chat template, for `--endpoint auto`.
    pub chat_template: bool,
    /// Whether it is of our making, so that it knows `return_token_ids`.
    pub ours: bool,
}

/// All that the online drive needs.
#[derive(Clone)]
pub struct OnlineJob {
    /// Where the server is.
    pub target: Target,
    /// What is sent.
    pub bodies: Bodies,
    /// Headers beside our own, an API key among them: values are secrets.
    pub headers: BTreeMap<String, String>,
    /// Requests before measuring.
    pub warmup: u32,
    /// Measured requests.
    pub n_runs: u32,
    /// How many of them may fail.
    pub allow_failures: AllowFailures,
    /// How long each wait of a request may take.
    pub timeouts: Timeouts,
    /// Counts tokens where the server does not say. Always none today: our own servers always send
    /// `usage`; foreign ones, of which some do not, come later.
    pub counter: Option<TokenCounter>,
}

/// A spec that cannot be driven online; the message names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The server's address.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The source of prompts.
    #[error(transparent)]
    Prompts(#[from] PromptError),
    /// A field of the spec.
    #[error("{field}: {why}")]
    Field {
        /// Path of the field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl OnlineJob {
    /// What `spec` asks of `server`.
    pub fn from_spec(
        spec: &RunSpec,
        server: &Server,
        text: Option<Text>,
        secrets: &Secrets,
    ) -> Result<Self, JobError> {
        let workload = &spec.workload;
        let Load::Closed { concurrency: 1 } = workload.load else {
            return Err(JobError::Field {
                field: "workload.load",
                why: "only one request at a time is possible yet".to_owned(),
            });
        };
        let route = Route::resolve(workload.endpoint, server.chat_template);
        Ok(Self {
            target: Target::parse(&server.base_url)?,
            bodies: Bodies {
                route,
                model: server.model.clone(),
                prompts: Arc::new(Prompts::open(spec, route, text)?),
                sampling: workload.sampling.clone(),
                stream: spec.arm.stream,
                return_token_ids: server.ours,
                extra: spec.arm.extra.clone(),
            },
            headers: secrets.headers.clone(),
            warmup: workload.warmup,
            n_runs: workload.n_runs,
            allow_failures: workload.allow_failures,
            timeouts: Timeouts {
                connect: defaults::CONNECT_TIMEOUT,
                first_byte: Duration::from_millis(spec.limits.stall_timeout_ms),
                stall: Duration::from_millis(spec.limits.stall_timeout_ms),
                total: Duration::from_millis(spec.limits.request_timeout_ms),
            },
            counter: None,
        })
    }
}

/// Makes all requests of `job` and sends each sample to `out` between requests, failed ones too.
///
/// `on_phase` is called as a phase begins, before its first request; it may take its time. When
/// `cancel` fires (the caller's order, or its child has died) the request under way becomes a
/// sample of class `aborted` and the drive returns. The receiver of `out` must go on receiving
/// until then: a full queue holds back the next request, never the one under way.
pub async fn drive_online(
    job: &OnlineJob,
    clock: Clock,
    out: &mpsc::Sender<Sample>,
    mut on_phase: impl FnMut(Phase),
    cancel: &CancellationToken,
) -> DriveEnd {
    let mut tally = Tally::new(job.warmup, job.n_runs, job.allow_failures);
    let mut slot = match Slot::new(job, clock) {
        Ok(slot) => slot,
        Err(message) => {
            let stage = Phase::Warmup.stage();
            return tally.end(DriveOutcome::Failed { stage, message });
        }
    };
    let mut begun = None;
    while let Some((phase, index)) = tally.next() {
        if begun.replace(phase) != Some(phase) {
            on_phase(phase);
        }
        if cancel.is_cancelled() {
            return tally.end(DriveOutcome::Cancelled);
        }
        let sample = match slot.one(phase, index, cancel).await {
            Ok(sample) => sample,
            Err(message) => {
                let stage = phase.stage();
                return tally.end(DriveOutcome::Failed { stage, message });
            }
        };
        let failed = tally.add(phase, &sample);
        if out.send(sample).await.is_err() {
            return tally.end(spool_gone(phase.stage()));
        }
        if cancel.is_cancelled() {
            return tally.end(DriveOutcome::Cancelled);
        }
        if let Some(outcome) = failed {
            return tally.end(outcome);
        }
    }
    tally.end(DriveOutcome::Done)
}

/// One place in the closed loop: a client that makes one request after the other. It hands over
/// from warm-up to measurement with its connection open.
struct Slot<'a> {
    job: &'a OnlineJob,
    clock: Clock,
    client: Client,
}

impl<'a> Slot<'a> {
    fn new(job: &'a OnlineJob, clock: Clock) -> Result<Self, String> {
        let config = ClientConfig {
            target: job.target.clone(),
            route: job.bodies.route,
            stream: job.bodies.stream,
            headers: job.headers.clone(),
            timeouts: job.timeouts,
            keepalive: true,
            counted: job.counter.is_some(),
        };
        let shared = Shared::new(config, clock).map_err(|e| e.to_string())?;
        let client = Client::new(shared);
        Ok(Self { job, clock, client })
    }

    /// Makes one request. Its body is ready before its clock starts.
    async fn one(
        &mut self,
        phase: Phase,
        index: u32,
        cancel: &CancellationToken,
    ) -> Result<Sample, String> {
        let warmup = phase == Phase::Warmup;
        let body = self.job.bodies.body(warmup, index, &[]);
        let body = body.map_err(|e| e.to_string())?;
        // In a closed loop a request is due when the one before has ended and its slot is free.
        let start_ns = self.clock.now_ns();
        let mut sample = Sample {
            index,
            warmup,
            due_ns: start_ns,
            start_ns,
            requested_tokens: body.requested_tokens,
            planned_input_tokens: body.planned_input_tokens,
            ..Sample::default()
        };
        let counter = self.job.counter.as_ref();
        let ended = self.client.request(&body.bytes, &mut sample, cancel).await;
        ended.answer.settle(&mut sample, ended.end, counter);
        Ok(sample)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(change: impl Fn(&mut Value)) -> RunSpec {
        let mut spec = json!({
            "arm": {
                "engine": {"kind": "chapter", "id": "ch02"}, "mode": "online", "dtype": null,
                "device": {"kind": "cpu"}, "threads": null, "stream": true,
            },
            "workload": {
                "model": "dummy:tiny-llm", "prompts": {"kind": "texts", "texts": ["p"]},
                "endpoint": "auto", "sampling": {"max_tokens": 9},
                "load": {"kind": "closed", "concurrency": 1}, "n_runs": 20, "warmup": 3,
                "cache": "as_is", "allow_failures": {"kind": "count", "n": 0},
            },
            "limits": {
                "ready_timeout_ms": 1, "stop_grace_ms": 2, "request_timeout_ms": 3,
                "stall_timeout_ms": 4, "device_wait_ms": 5,
            },
        });
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    fn server() -> Server {
        Server {
            base_url: "http://127.0.0.1:8000".into(),
            model: "m".into(),
            chat_template: true,
            ours: true,
        }
    }

    #[test]
    fn a_spec_becomes_a_job() {
        let job =
            OnlineJob::from_spec(&spec(|_| ()), &server(), None, &Secrets::default()).unwrap();
        assert_eq!((job.warmup, job.n_runs), (3, 20));
        assert_eq!(job.bodies.route, Route::Chat);
        assert!(job.bodies.stream && job.bodies.return_token_ids);
        assert_eq!(job.bodies.sampling.max_tokens, 9);
        assert_eq!(job.timeouts.total, Duration::from_millis(3));
        assert_eq!(job.timeouts.stall, Duration::from_millis(4));
    }

    #[test]
    fn what_cannot_be_driven_is_refused_by_field() {
        let wide = spec(|s| s["workload"]["load"]["concurrency"] = json!(8));
        let empty = spec(|s| s["workload"]["prompts"]["texts"] = json!([]));
        for (spec, field) in [(wide, "workload.load"), (empty, "workload.prompts")] {
            let error = OnlineJob::from_spec(&spec, &server(), None, &Secrets::default())
                .err()
                .unwrap();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
