//! Who answers: an agent, its host, what it can run.

use serde::{Deserialize, Serialize};

/// `GET /v1/host`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Checked before any work.
    pub protocol: u32,
    /// Stable: kept in the agent's state folder.
    pub agent_id: String,
    /// New with each start of the agent.
    pub boot_id: String,
    /// The agent's build.
    pub build: BuildFacts,
    /// Stable facts of the machine.
    pub host: HostFacts,
    /// Facts that change.
    pub state: HostState,
    /// The chapters it can run.
    pub chapters: Vec<ChapterFacts>,
    /// The engines its config names.
    pub engines: Vec<EngineFacts>,
    /// The run in progress.
    #[serde(default)]
    pub busy_with: Option<String>,
    /// Set when a child could not be ended: nothing runs until a person has looked.
    #[serde(default)]
    pub quarantine: Option<String>,
}

/// What a program was built from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFacts {
    /// Version of the crate.
    pub version: String,
    /// Commit, with `-dirty` if the tree had changes; empty where it is not known.
    pub commit: String,
    /// `debug` or `release`.
    pub profile: String,
    /// Features that change what it can do (`cuda`, `metal`).
    pub features: Vec<String>,
}

/// Stable facts of a machine. The fingerprint is a SHA-256 over all but `hostname`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// SHA-256 (hex) over the stable facts and the machine id.
    pub fingerprint: String,
    /// For people.
    pub hostname: String,
    /// `linux x86_64`.
    pub platform: String,
    /// Kernel release.
    pub kernel: String,
    /// Model name of the CPU.
    pub cpu_model: String,
    /// Logical cores that this process may use.
    pub cores: u32,
    /// Memory, at most the container's limit.
    pub memory_bytes: u64,
    /// GPUs that NVML sees.
    pub gpus: Vec<GpuFacts>,
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// As NVML counts.
    pub index: u32,
    /// Product name.
    pub name: String,
    /// Stable id.
    pub uuid: String,
    /// Memory.
    pub memory_bytes: u64,
    /// Driver.
    pub driver: String,
}

/// Facts of a machine that change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// Load average of one minute.
    pub load_1m: f64,
    /// Memory available.
    pub memory_available_bytes: u64,
    /// For people: clocks of two machines are never compared.
    pub now_unix_ms: i64,
    /// Clock of the cores now, their mean, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<f64>,
    /// The hottest sensor of the processor, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_celsius: Option<f64>,
    /// A state for each GPU that NVML sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuState>,
}

/// Facts of a GPU that change; none where NVML does not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// As NVML counts.
    pub index: u32,
    /// Clock of the multiprocessors.
    #[serde(default)]
    pub sm_clock_mhz: Option<u32>,
    /// Temperature of the die.
    #[serde(default)]
    pub celsius: Option<u32>,
    /// Why its clock is held down (`sw_thermal_slowdown`, `hw_power_brake`, …); idling is none.
    #[serde(default)]
    pub throttled_by: Vec<String>,
    /// Processes on it that are not ours, `name (pid 123)`.
    #[serde(default)]
    pub foreign_processes: Vec<String>,
}

/// A row of the chapters' table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChapterFacts {
    /// `ch01`
    pub id: String,
    /// `baseline`
    pub title: String,
    /// One line: what it adds.
    pub adds: String,
    /// Whether its server hands out tokens as they come.
    pub streams: bool,
    /// Whether its greedy tokens must equal ch01's.
    pub same_tokens: bool,
    /// Left out of users' lists.
    #[serde(default)]
    pub hidden: bool,
}

/// An engine that the agent's config names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineFacts {
    /// Name in `engines.toml`.
    pub name: String,
    /// `chapterbench` or `server`.
    pub kind: String,
    /// For another build of ours: SHA-256 (hex) of the executable.
    #[serde(default)]
    pub binary_sha256: Option<String>,
}
