//! What a run is asked to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::generate::SamplingParams;

/// An arm plus a workload: all that a run needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// What is being judged.
    pub arm: Arm,
    /// What work is asked of it.
    pub workload: Workload,
    /// How long each wait may take.
    pub limits: Limits,
}

/// What is being judged: engine, mode and how it is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Which engine.
    pub engine: EngineRef,
    /// In-process or over HTTP.
    pub mode: Mode,
    /// Type of the weights in memory; none is f32 on a CPU, as stored on a GPU and for GGUF.
    pub dtype: Option<Dtype>,
    /// Where it computes.
    pub device: Device,
    /// Threads of the engine; none is all cores.
    pub threads: Option<u32>,
    /// Online: ask for a stream where the engine can. Offline: no meaning, kept true.
    pub stream: bool,
    /// Options that only this chapter knows, by name (the fake chapter's clock).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// An engine by name: never a command, never a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EngineRef {
    /// One of our chapters, from the agent's own build.
    Chapter {
        /// `ch01`, …
        id: String,
    },
    /// An engine that the agent's own config names.
    Named {
        /// Name in `engines.toml`.
        name: String,
        /// The chapter to run, where the entry is another build of ours.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chapter: Option<String>,
    },
}

/// How an engine is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// `generate` is called in-process, in a child of the agent.
    Offline,
    /// A server is started and asked over HTTP.
    Online,
}

/// Type of weights in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// Brain float.
    Bf16,
}

/// Where an engine computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Device {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU by ordinal.
    Cuda {
        /// As NVML counts.
        index: u32,
    },
    /// An Apple GPU.
    Metal {
        /// As Metal counts.
        index: u32,
    },
}

/// What work is asked: equal on both sides of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A directory, a `.gguf` file, a hub id, or `dummy:NAME`.
    pub model: String,
    /// Where prompts come from.
    pub prompts: PromptSource,
    /// Chat template or plain completion; `auto` is chat if the model has a template.
    pub endpoint: Endpoint,
    /// Sampling and the ceiling.
    pub sampling: SamplingParams,
    /// How requests are offered.
    pub load: Load,
    /// Measured requests.
    pub n_runs: u32,
    /// Requests before measuring.
    pub warmup: u32,
    /// What the prompts do to an engine's caches.
    pub cache: CacheState,
    /// How many failed requests a run may have.
    pub allow_failures: AllowFailures,
}

/// Where prompts come from. Request `i` (warm-up counted apart) takes prompt `i mod n`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PromptSource {
    /// Given word for word.
    Texts {
        /// At least one.
        texts: Vec<String>,
    },
}

/// Which of OpenAI's endpoints, and so whether the chat template is applied; offline alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// Chat if the model has a template, else completions.
    Auto,
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// How requests are offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// The next request follows the last answer, in each of `concurrency` slots.
    Closed {
        /// Slots.
        concurrency: u32,
    },
}

/// What the prompts do to an engine's caches: a part of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// Prompts are sent as they are.
    AsIs,
}

/// How many failed requests a run may have before it fails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AllowFailures {
    /// At most this many.
    Count {
        /// 0: one failed request fails the run.
        n: u32,
    },
    /// At most this share of the measured requests.
    Percent {
        /// 0 to 100.
        percent: f64,
    },
}

/// How long each wait of a run may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Spawn to `/health` 200, or to the offline worker's "loaded".
    pub ready_timeout_ms: u64,
    /// SIGTERM to SIGKILL.
    pub stop_grace_ms: u64,
    /// A whole request.
    pub request_timeout_ms: u64,
    /// Silence within one answer.
    pub stall_timeout_ms: u64,
    /// Wait for a device that another run holds; 0 refuses at once.
    pub device_wait_ms: u64,
}
