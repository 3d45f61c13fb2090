//! What an engine that is a child of the agent says: the offline worker's lines, the server's health.
//!
//! Command lines (the executable is ours, or another build of ours):
//!
//! ```text
//! EXE engine serve   --chapter ch01 --model M [--dtype f32] [--device cpu] [--threads N]
//!                    [--option k=v] --listen-fd 3 --instance ID
//! EXE engine offline --job-fd 4 --report-fd 5
//! EXE engine keeper  …            (the agent's own build only)
//! ```
//!
//! The server answers `/health` from its first moment: 503 `loading`, then 200 `ok`, or 503
//! `failed`. A child that cannot load writes one line to stderr and exits 1 (the offline worker 2,
//! where the job is at fault).

use serde::{Deserialize, Serialize};

use crate::generate::{GenerateResult, SamplingParams};
use crate::host::BuildFacts;
use crate::run::{Device, Dtype, Endpoint, ModelFacts, PromptSource};

/// `GET /health` of our server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// `loading` or `failed` (503), or `ok` (200).
    pub status: String,
    /// The id that the agent gave at spawn.
    #[serde(default)]
    pub instance: Option<String>,
    /// Chapter's id.
    pub chapter: String,
    /// Build of the engine.
    pub build: BuildFacts,
    /// What it loaded, once it has.
    #[serde(default)]
    pub model: Option<ModelFacts>,
}

/// All that an offline worker needs: one JSON document on its job descriptor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfflineJob {
    /// Chapter's id.
    pub chapter: String,
    /// Model as the engine resolves it.
    pub model: String,
    /// Type of weights, if asked.
    pub dtype: Option<Dtype>,
    /// Where to compute.
    pub device: Device,
    /// Threads, if asked.
    pub threads: Option<u32>,
    /// The chapter's own options.
    #[serde(default)]
    pub options: std::collections::BTreeMap<String, String>,
    /// Prompts: always [`PromptSource::Texts`] or [`PromptSource::Conversations`] whose history is
    /// complete; what had to be made, the agent has made.
    pub prompts: PromptSource,
    /// Prompts of warm-up requests; none: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_prompts: Option<PromptSource>,
    /// Ceiling of each measured request; empty: the sampling's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceilings: Vec<u32>,
    /// Ceiling of each warm-up request; empty: the sampling's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warmup_ceilings: Vec<u32>,
    /// Template or not.
    pub endpoint: Endpoint,
    /// Sampling and ceiling; request `i` draws with `seed + i`.
    pub sampling: SamplingParams,
    /// Requests before measuring.
    pub warmup: u32,
    /// Measured requests.
    pub n_runs: u32,
    /// Requests in flight at once, in each phase; 1 is `generate`, one call after another. Left out
    /// where it is 1, so that an older build takes the job.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub concurrency: u32,
    /// Whether the worker goes on after a failed `generate`.
    pub continue_on_error: bool,
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// One NDJSON line on the report descriptor, written between requests, or between steps where
/// several are in flight; then those of a phase come in the order in which they end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkerLine {
    /// The model is loaded; warm-up begins.
    Loaded {
        /// Build of the engine.
        build: BuildFacts,
        /// What it loaded.
        model: ModelFacts,
    },
    /// One `generate` returned.
    Request {
        /// From 0 within its phase.
        index: u32,
        /// Which phase.
        warmup: bool,
        /// Call of `generate` or of `submit`, ns since the worker's clock origin (its `loaded`).
        start_ns: u64,
        /// Return of `generate`, or of the step that ended it.
        done_ns: u64,
        /// What it gave, or one line that says why not.
        result: Result<GenerateResult, String>,
    },
    /// All requests are done; the worker exits 0.
    Done,
}
