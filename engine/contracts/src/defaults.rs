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
/// The identity of a model that a server runs and nobody named: it compares with its like only.
pub const MODEL_UNNAMED: &str = "unnamed";
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

/// All probes of `doctor` together: about twenty short answers of a slow server.
pub const DOCTOR_TIME: Duration = Duration::from_secs(600);
/// One probe of `doctor`, at most 64 tokens.
pub const DOCTOR_PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Foreign share of the machine's CPU during a run above which a warning is stored and shown.
pub const FOREIGN_CPU_WARN_SHARE: f64 = 0.05;
/// A greedy step whose two best logits are closer than this is a near tie: in f32 on a CPU,
/// tokens must agree up to the first such step and are not judged after it.
pub const NEAR_TIE_LOGITS: f32 = 0.02;

/// Dispatch lag of which more makes a run client-bound: the client, not the schedule or the server,
/// decided when requests went out.
pub const DISPATCH_LAG_P99_MS_MAX: f64 = 10.0;
/// Share of one core that the load generator's thread may use before a run is client-bound.
pub const CLIENT_BUSY_SHARE_MAX: f64 = 0.85;
/// Share of the asked slots that must be in flight in the steady part, else a run is client-bound.
pub const IN_FLIGHT_SHARE_MIN: f64 = 0.975;
/// Share of the offered rate that must be achieved, else a run is degraded: the server is saturated.
pub const ACHIEVED_SHARE_MIN: f64 = 0.95;
/// Share of failed requests above which a run is degraded.
pub const ERROR_SHARE_MAX: f64 = 0.01;
/// Share of broken-off answers above which a run is degraded.
pub const TRUNCATED_SHARE_MAX: f64 = 0.0;
/// With `ignore_eos`, share of answers shorter than asked above which a run is degraded.
pub const SHORT_SHARE_MAX: f64 = 0.0;
/// Share of prompts of another length than made above which a run is degraded.
pub const INPUT_MISMATCH_SHARE_MAX: f64 = 0.0;
/// Share of answers counted differently by server and tokenizer above which a run is degraded.
pub const TOKEN_MISMATCH_SHARE_MAX: f64 = 0.05;
/// Drift of the median wall time within a run above which it is degraded.
pub const DRIFT_SHARE_MAX: f64 = 0.25;
/// Measured requests below which drift is not judged.
pub const DRIFT_REQUESTS_MIN: u32 = 30;

/// Slots of a closed loop, and a cap of an open one, at most.
pub const CONCURRENCY_MAX: u32 = 50_000;
/// Requests a second of an open loop, at most.
pub const RATE_PER_S_MAX: f64 = 100_000.0;
/// Streams at once that `calibrate --client` measures.
pub const CALIBRATE_STREAMS: [u32; 3] = [1, 100, 1000];
/// Extra headers, and extra body fields, of one spec, at most.
pub const EXTRAS_MAX: usize = 64;
/// Measured requests of one run, at most.
pub const N_RUNS_MAX: u32 = 1_000_000;
/// Warm-up requests of one run, at most.
pub const WARMUP_MAX: u32 = 100_000;
/// Threads that an engine computes with, at most: more than hosts have cores, and each costs memory.
pub const THREADS_MAX: u32 = 1024;
/// Presence and frequency penalty, at most, either way; OpenAI's range.
pub const PENALTY_MAX: f32 = 2.0;
/// Bias of one token, at most, either way: enough to force a token or to forbid it.
pub const BIAS_MAX: f32 = 100.0;
/// Entries of `logit_bias`, at most. They are gone through at every token.
pub const BIASED_MAX: usize = 1024;
/// Stop strings of a request, at most; each is followed through every byte of the answer.
pub const STOPS_MAX: usize = 16;
/// Length of one stop string, in bytes, at most. As much of an answer may be held back.
pub const STOP_BYTES_MAX: usize = 1024;
/// Best tokens reported for each step, at most.
pub const LOGPROBS_MAX: u32 = 20;
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
