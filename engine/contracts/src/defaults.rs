//! Every default and every limit that more than one program knows, each once.
//!
//! A limit that only one room knows is a constant in that room.

use std::time::Duration;

/// Requests sent before measuring, kept apart, never in an average.
pub const WARMUP: u32 = 3;
/// Measured requests of one run.
pub const N_RUNS: u32 = 20;
/// Ceiling of generated tokens of one request.
pub const MAX_TOKENS: u32 = 40;
/// The embedded model: no network, over in seconds.
pub const MODEL: &str = "dummy:tiny-llm";
/// The prompt of a run that names none.
pub const PROMPT: &str = "Explain in a few sentences why the sky is blue.";
/// Seed of sampling and of schedules.
pub const SEED: u64 = 0;
/// Where an agent listens when nothing else is said.
pub const AGENT_LISTEN: &str = "127.0.0.1:7070";
/// Where `engine serve` listens when nothing else is said.
pub const SERVE_LISTEN: &str = "127.0.0.1:8000";

/// How long a server may take until `/health` answers 200.
pub const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a child may take to end after SIGTERM before SIGKILL.
pub const STOP_GRACE: Duration = Duration::from_secs(10);
/// A whole request, from sent to done.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Silence between two reads of one answer, the first byte included.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Opening a connection to a measured server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A run that is longer is ended as failed.
pub const RUN_DEADLINE: Duration = Duration::from_secs(4 * 3600);

/// Foreign share of the machine's CPU during a run above which a warning is stored and shown.
pub const FOREIGN_CPU_WARN_SHARE: f64 = 0.05;
/// A greedy step whose two best logits are closer than this is a near tie: in f32 on a CPU,
/// tokens must agree up to the first such step and are not judged after it.
pub const NEAR_TIE_LOGITS: f32 = 0.02;

/// Measured requests of one run, at most.
pub const N_RUNS_MAX: u32 = 1_000_000;
/// Warm-up requests of one run, at most.
pub const WARMUP_MAX: u32 = 100_000;
/// Threads that an engine computes with, at most: more than hosts have cores, and each costs memory.
pub const THREADS_MAX: u32 = 1024;
/// Prompts of one spec, at most.
pub const PROMPTS_MAX: usize = 100_000;
/// Text of one prompt, in bytes, at most.
pub const PROMPT_BYTES_MAX: usize = 4 << 20;
/// Body of one request to an agent or to the engine's server, in bytes, at most.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Samples of one page of `GET /v1/runs/{id}/samples`, at most.
pub const SAMPLES_PAGE_MAX: usize = 1_000;
/// Last lines of a child's output that a failure carries.
pub const LOG_TAIL_LINES: usize = 50;
