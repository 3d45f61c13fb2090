//! What the online drive is asked to do: from a spec and a server to a job. Doing it is
//! [`drive`](super::drive)'s matter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contracts::api::Secrets;
use contracts::defaults;
use contracts::run::{AllowFailures, Load, PromptSource, RunSpec, Workload};
use engine::text::Text;

use super::answer::TokenCounter;
use super::client::{Target, TargetError, Timeouts};
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
    /// How requests are offered.
    pub load: Load,
    /// For [`Load::Trace`], the times of the trace's requests since its start, in order.
    pub trace_due_ms: Arc<[u64]>,
    /// Requests before measuring, at least one for each slot.
    pub warmup: u32,
    /// Measured requests; with a duration, at most.
    pub n_runs: u32,
    /// How long measured requests are sent.
    pub duration: Option<Duration>,
    /// Whether connections are kept.
    pub keepalive: bool,
    /// How many of them may fail.
    pub allow_failures: AllowFailures,
    /// How long each wait of a request may take.
    pub timeouts: Timeouts,
    /// Counts tokens where the server does not say, and beside what it says.
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
        let route = Route::resolve(workload.endpoint, server.chat_template);
        // Our own servers always say how many tokens they made.
        let counter = text.clone().filter(|_| !server.ours).map(counter);
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
            load: workload.load.clone(),
            trace_due_ms: trace_due_ms(&workload.prompts),
            warmup: warmup(workload),
            n_runs: workload.n_runs,
            duration: workload.duration_ms.map(Duration::from_millis),
            keepalive: !spec.arm.no_keepalive,
            allow_failures: workload.allow_failures,
            timeouts: Timeouts {
                connect: defaults::CONNECT_TIMEOUT,
                first_byte: Duration::from_millis(spec.limits.stall_timeout_ms),
                stall: Duration::from_millis(spec.limits.stall_timeout_ms),
                total: Duration::from_millis(spec.limits.request_timeout_ms),
            },
            counter,
        })
    }
}

impl OnlineJob {
    /// Requests that may be in flight at once, where that is known: slots, or a cap.
    pub(super) fn slots(&self) -> Option<u32> {
        slots(&self.load)
    }
}

/// Requests that may be in flight at once under this load, where that is known.
pub(super) fn slots(load: &Load) -> Option<u32> {
    match load {
        Load::Closed { concurrency } => Some(*concurrency),
        Load::Open { max_in_flight, .. }
        | Load::Burst { max_in_flight }
        | Load::Trace { max_in_flight } => *max_in_flight,
    }
}

/// At least one request for each slot, so that all of them hand over warm; none if none are asked.
pub(super) fn warmup(workload: &Workload) -> u32 {
    match workload.warmup {
        0 => 0,
        asked => asked.max(slots(&workload.load).unwrap_or(0)),
    }
}

fn trace_due_ms(prompts: &PromptSource) -> Arc<[u64]> {
    match prompts {
        PromptSource::Trace { requests } => requests.iter().map(|r| r.due_ms).collect(),
        _ => Arc::default(),
    }
}

/// Counts without special tokens. A text that cannot be tokenised has no count worth a failure of
/// the request that gave it.
fn counter(text: Text) -> TokenCounter {
    Arc::new(move |words| text.count(words).unwrap_or_default())
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
        assert_eq!((job.slots(), job.duration), (Some(1), None));
        assert!(job.keepalive && job.counter.is_none());
        assert_eq!(job.bodies.route, Route::Chat);
        assert!(job.bodies.stream && job.bodies.return_token_ids);
        assert_eq!(job.bodies.sampling.max_tokens, 9);
        assert_eq!(job.timeouts.total, Duration::from_millis(3));
        assert_eq!(job.timeouts.stall, Duration::from_millis(4));
    }

    #[test]
    fn each_slot_warms_up_unless_none_should() {
        let warmup = |asked: u32, load: Value| {
            let spec = spec(|s| {
                s["workload"]["warmup"] = json!(asked);
                s["workload"]["load"] = load.clone();
            });
            let job = OnlineJob::from_spec(&spec, &server(), None, &Secrets::default());
            job.unwrap().warmup
        };
        let closed = json!({"kind": "closed", "concurrency": 8});
        assert_eq!(warmup(3, closed.clone()), 8);
        assert_eq!(warmup(30, closed.clone()), 30);
        assert_eq!(warmup(0, closed), 0);
        let capped = json!({"kind": "burst", "max_in_flight": 5});
        assert_eq!(warmup(1, capped), 5);
        assert_eq!(warmup(1, json!({"kind": "burst"})), 1);
    }

    #[test]
    fn a_source_without_prompts_is_refused_by_field() {
        let spec = spec(|s| s["workload"]["prompts"]["texts"] = json!([]));
        let error = OnlineJob::from_spec(&spec, &server(), None, &Secrets::default());
        let error = error.err().unwrap().to_string();
        assert!(error.contains("workload.prompts"), "{error}");
    }
}
