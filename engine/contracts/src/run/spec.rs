//! What a run is asked to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PromptSource;
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
    /// What the nonces of cold prompts are made from beside seed and index: session and block, so
    /// that both arms of a block get the same prompts and no two blocks do. No part of the
    /// workload's key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
    /// What a good request is, where the user said so: for figures, not for the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
}

/// What a request must meet to count as good (`--goodput`). One that lacks a metric that is named
/// here does not meet it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Time to first token, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Time per output token, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// Wall time, at most: from due in an open loop, else from sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<f64>,
}

/// What is being judged: engine, mode and how it is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// What the user calls it, for people; none where its engine's name says enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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
    /// Options by name: those that only this chapter knows, or the choices that an engine's entry
    /// in `engines.toml` offers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Names of the headers that are sent beside our own; their values are secrets and travel in
    /// [`Secrets`](crate::api::Secrets).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub header_names: Vec<String>,
    /// Fields put into each request's body, over those of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Value>,
    /// A connection for each request; connecting then counts in the wall time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_keepalive: bool,
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
    /// A server that runs already and is left running.
    Url {
        /// `http://host:port` or `https://…`, with or without `/v1`.
        url: String,
        /// The model's name there; none asks `/v1/models`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        served_name: Option<String>,
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
    /// Measured requests; with `duration_ms`, the most that it may come to.
    pub n_runs: u32,
    /// Send measured requests for this long, then wait for the last of them; none: `n_runs` of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Requests before measuring.
    pub warmup: u32,
    /// What the prompts do to an engine's caches.
    pub cache: CacheState,
    /// A model directory, `.gguf` file or `tokenizer.json` that counts and makes tokens for
    /// servers of others; none: the model's own where the agent can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// How many failed requests a run may have.
    pub allow_failures: AllowFailures,
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

/// How requests are offered. Warm-up requests come first under the same load and hand over to the
/// measured ones without a pause: at least as many as there are slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// The next request follows the last answer, in each of `concurrency` slots.
    Closed {
        /// Slots.
        concurrency: u32,
    },
    /// Requests come at their times, whatever became of those before. The schedule is made
    /// beforehand from the sampling's seed.
    Open {
        /// Requests a second.
        rate_per_s: f64,
        /// How the times are spread.
        arrival: Arrival,
        /// In flight at once, at most; what is due beyond it waits in the client, and is seen to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_in_flight: Option<u32>,
    },
    /// All requests are due at once (`--rate inf`).
    Burst {
        /// As in [`Load::Open`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_in_flight: Option<u32>,
    },
    /// Requests come at the times of [`PromptSource::Trace`].
    Trace {
        /// As in [`Load::Open`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_in_flight: Option<u32>,
    },
}

/// How the times of an open loop are spread around their rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// Equal gaps.
    Constant,
    /// Exponential gaps: independent users.
    Poisson,
    /// Gamma gaps: below 1 in bursts, 1 is Poisson, above it more even.
    Gamma {
        /// Shape of the distribution (vLLM's burstiness).
        shape: f64,
    },
}

/// What the prompts do to an engine's caches: a part of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// Prompts are sent as they are.
    AsIs,
    /// Each prompt begins with a nonce that no other request of any run has had.
    Cold,
    /// Prompts are sent as they are, and warm-up sends the very prompts that are measured.
    Warm,
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
