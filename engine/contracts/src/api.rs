//! Bodies of the agent's HTTP API and the one shape of its errors.
//!
//! | call | answer |
//! |---|---|
//! | `GET /health` | `{"status":"ok"}`, open to all |
//! | `GET /v1/host` | [`HostInfo`](crate::host::HostInfo) |
//! | `POST /v1/check` with [`CheckRequest`] | 200 [`CheckAnswer`], or 422 naming the field: could this spec run here |
//! | `POST /v1/doctor` with [`DoctorRequest`] | [`ServerReport`](crate::doctor::ServerReport): what a server does; takes as long as its answers. 409 busy; 422 no URL of a server; 502 it cannot be reached |
//! | `POST /v1/calibrate` with [`CalibrateRequest`] | [`ClientFloor`](crate::calibrate::ClientFloor): this agent's own floor; 409 busy |
//! | `POST /v1/runs` with [`StartRun`] | 202 [`RunStatus`]; 409 another spec or busy; 422 cannot run; 503 quarantined |
//! | `GET /v1/runs` | [`RunList`] |
//! | `GET /v1/runs/{id}` | [`RunStatus`] |
//! | `GET /v1/runs/{id}/events?after=N` | server-sent events: `id:` is the seq, `data:` a [`RunEvent`](crate::run::RunEvent); ends after a final state |
//! | `GET /v1/runs/{id}/samples?from=N&limit=M` | NDJSON of [`Sample`](crate::sample::Sample), in a final state; else 409 |
//! | `POST /v1/runs/{id}/cancel` | 200 [`RunStatus`], in every state |
//! | `DELETE /v1/runs/{id}` | 204, also if it is not there; 409 before a final state |
//!
//! Every call but `/health` needs `Authorization: Bearer TOKEN` where the agent has a token, and
//! `chapterbench-protocol: 1` ([`PROTOCOL_HEADER`]); another protocol is refused with 426 before any work.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::run::{RunSpec, RunStatus};

/// Header that carries [`PROTOCOL`](crate::PROTOCOL).
pub const PROTOCOL_HEADER: &str = "chapterbench-protocol";

/// `POST /v1/runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// ULID made by the controller; the key of idempotence.
    pub run_id: String,
    /// What to do.
    pub spec: RunSpec,
    /// Seconds after which the agent ends the run as failed.
    pub deadline_s: u64,
    /// Values that are never stored.
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub secrets: Secrets,
}

/// Header values of requests to a measured server, by lower-case name: an API key among them, as
/// `authorization`. Held in memory only; [`Arm::header_names`](crate::run::Arm::header_names) is
/// what is stored.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets {
    /// Values by name.
    pub headers: BTreeMap<String, String>,
}

impl Secrets {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }
}

impl fmt::Debug for Secrets {
    /// Names only: this must be safe to log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.headers.keys()).finish()
    }
}

/// `POST /v1/doctor`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoctorRequest {
    /// `http://host:port` or `https://…`, with or without `/v1`.
    pub url: String,
    /// The model's name there; none asks `/v1/models`.
    #[serde(default)]
    pub served_name: Option<String>,
    /// Of each probe.
    pub request_timeout_ms: u64,
    /// Values that are never stored.
    #[serde(default)]
    pub secrets: Secrets,
}

/// `POST /v1/calibrate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrateRequest {
    /// Streams at once, one measurement each.
    pub streams: Vec<u32>,
}

/// `POST /v1/check`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// What would be run.
    pub spec: RunSpec,
    /// Also say which executable would run it: one that is not known yet is read whole for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_binary: bool,
}

/// Answer of `POST /v1/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnswer {
    /// The model as the agent would load it: its absolute path, or its name.
    pub model: String,
    /// SHA-256 (hex) of the engine's executable, where it was asked for and an engine is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_binary_sha256: Option<String>,
}

/// `GET /v1/runs`: what the spool holds, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunList {
    /// Runs not yet acknowledged.
    pub runs: Vec<RunStatus>,
}

/// Body of every answer that is not 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

/// What went wrong, for a program and for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// For programs.
    pub code: ErrorCode,
    /// One line that says what to do.
    pub message: String,
    /// The field of the spec, if one is at fault (`arm.engine.id`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The run or process that holds what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// Kinds of API errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 401.
    Unauthorized,
    /// 426.
    Protocol,
    /// 400: not the JSON that this call takes.
    BadRequest,
    /// 404.
    NotFound,
    /// 409: another run is in progress.
    Busy,
    /// 409: this id has another spec.
    Conflict,
    /// 409: not in a state that allows this.
    WrongState,
    /// 422.
    CannotRun,
    /// 502: the server that was to be looked at cannot be reached.
    Unreachable,
    /// 503.
    Quarantined,
    /// 500.
    Internal,
}
