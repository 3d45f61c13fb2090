//! How a run stands, what it says of itself, and its events.

use serde::{Deserialize, Serialize};

use super::{RunSpec, Validity};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Accepted, not begun.
    Queued,
    /// Preflight, spawn, load.
    Starting,
    /// Warm-up requests.
    Warming,
    /// Measured requests.
    Measuring,
    /// The child is being stopped and swept.
    Stopping,
    /// Ended as asked.
    Done,
    /// Ended with an error.
    Failed,
    /// Ended on order.
    Cancelled,
}

impl RunState {
    /// Whether nothing will change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// What was under way when a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Device lock, memory, disk, leftovers.
    Preflight,
    /// The child could not be started.
    Spawn,
    /// The child lives and is not ready.
    Load,
    /// Warm-up requests.
    Warmup,
    /// Measured requests.
    Measure,
    /// Stopping and sweeping.
    Stop,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// What was under way.
    pub stage: Stage,
    /// One line: what failed, what to do.
    pub message: String,
    /// The child's last output lines, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_tail: Vec<String>,
}

/// `GET /v1/runs/{id}`: everything about a run but its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// The id that the controller gave (ULID).
    pub run_id: String,
    /// Where it stands.
    pub state: RunState,
    /// What was asked.
    pub spec: RunSpec,
    /// Seconds the run may take.
    pub deadline_s: u64,
    /// When it was accepted, for people only.
    pub created_unix_ms: i64,
    /// When it ended, for people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ms: Option<i64>,
    /// Set if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
    /// Doubts about the measurement.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// What ran where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Figures that say whether the measurement can be believed.
    #[serde(default)]
    pub validity: Validity,
    /// How long start and stop took, and how the child ended.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Set in a final state: what `/samples` will give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleTotals>,
}

/// Total of a run's sample lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleTotals {
    /// Lines, warm-up included.
    pub count: u64,
    /// SHA-256 (hex) of all lines with their line ends, in order.
    pub sha256: String,
}

/// A doubt about a measurement: data, stored and shown wherever the run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// `foreign_cpu`, `token_count_mismatch`, …
    pub code: String,
    /// One line for people.
    pub message: String,
}

/// What ran where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Build of the agent.
    pub agent_build: String,
    /// Build that the engine reports (`0.1.0+3fa1c2d`), if it does.
    #[serde(default)]
    pub engine_build: Option<String>,
    /// SHA-256 (hex) of the engine's executable.
    #[serde(default)]
    pub engine_binary_sha256: Option<String>,
    /// Whether the engine is a debug or a release build, as it reports.
    #[serde(default)]
    pub engine_profile: Option<String>,
    /// Title of the chapter (`baseline`, `token loop`), for the printed table.
    #[serde(default)]
    pub engine_title: Option<String>,
    /// What the engine loaded.
    #[serde(default)]
    pub model: Option<ModelFacts>,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// Id of the definitions.
    pub definition: String,
    /// The command line of a server that the agent's config names, as it was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// SHA-256 (hex) of the tokenizer that counted and made tokens here, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_sha256: Option<String>,
    /// The model's name in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_name: Option<String>,
}

/// What an engine loaded, as it reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// The name that was asked for.
    pub name: String,
    /// `llama`, `qwen2`, `qwen3`, `fake`.
    pub family: String,
    /// SHA-256 (hex) over the weights, the config and the tokenizer.
    pub sha256: String,
    /// SHA-256 (hex) of the tokenizer alone.
    pub tokenizer_sha256: String,
    /// Parameters.
    pub parameters: u64,
    /// Type of the weights in memory (`f32`, `q4_1 as stored`).
    pub weights: String,
    /// Longest sequence, prompt and answer together.
    pub context_tokens: u32,
    /// Threads in use.
    pub threads: u32,
    /// Whether it has a chat template.
    pub chat_template: bool,
}

/// How a child's life went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// Spawn to ready.
    #[serde(default)]
    pub ready_ms: Option<f64>,
    /// SIGTERM to SIGKILL, as this run has it: the spec's, or the longer one of the engine's entry.
    /// None: at once, or nothing is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// SIGTERM to nothing left.
    #[serde(default)]
    pub stop_ms: Option<f64>,
    /// `exit 0`, `signal 9`, …
    #[serde(default)]
    pub exit: Option<String>,
    /// Whether SIGKILL was needed.
    #[serde(default)]
    pub killed: bool,
    /// Descendants that had left the group and were swept.
    #[serde(default)]
    pub swept: u32,
    /// Largest resident memory of the child.
    #[serde(default)]
    pub rss_bytes_max: Option<u64>,
}

/// One line of a run's story, in order of `seq` from 1 without gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// 1, 2, …
    pub seq: u64,
    /// Since the run was accepted, on the agent's monotonic clock.
    pub at_ms: u64,
    /// What happened.
    pub what: EventKind,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// A new state; a final one is the last event.
    State {
        /// The state entered.
        state: RunState,
    },
    /// At most two a second.
    Progress {
        /// Requests ended in this phase.
        done: u64,
        /// Requests of this phase.
        total: u64,
    },
    /// A doubt.
    Warning {
        /// The doubt.
        warning: Warning,
    },
    /// A line of the child's output.
    Log {
        /// Without its line end.
        line: String,
    },
}
