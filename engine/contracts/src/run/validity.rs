//! Figures that say whether a measurement can be believed, and what follows from them. The limits
//! are in [`defaults`](crate::defaults).

use serde::{Deserialize, Serialize};

use crate::host::HostState;

/// Figures that say whether a measurement can be believed. Shares are 0 to 1, of the measured
/// requests unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// Share of the machine's CPU used by others before the run.
    pub foreign_cpu_before: Option<f64>,
    /// The same while measuring.
    pub foreign_cpu_during: Option<f64>,
    /// CPU time of the agent itself while measuring.
    pub agent_cpu_ms: Option<f64>,
    /// Failed measured requests.
    pub failed_requests: u32,
    /// Their share.
    pub error_share: Option<f64>,

    /// From the moment a request could go (due, and a slot free) to its first write, less
    /// connecting: the client's own delay. Median.
    pub dispatch_lag_p50_ms: Option<f64>,
    /// The same, 99th percentile.
    pub dispatch_lag_p99_ms: Option<f64>,
    /// CPU time of the load generator's thread over the measuring window: at 1 it has no more.
    pub client_busy_share: Option<f64>,
    /// From the first write of a run with slots to the moment when each slot had sent one.
    pub first_wave_ms: Option<f64>,

    /// Open loop: requests a second that the schedule asked for.
    pub offered_per_s: Option<f64>,
    /// Requests a second that were sent.
    pub sent_per_s: Option<f64>,
    /// Requests a second that ended, over the measuring window.
    pub achieved_per_s: Option<f64>,
    /// Closed loop: slots.
    pub in_flight_asked: Option<u32>,
    /// Requests in flight, mean over the steady part, else over the window.
    pub in_flight_mean: Option<f64>,
    /// The most at once.
    pub in_flight_max: Option<u32>,
    /// Requests that were due and waited in the client for a slot, the most at once.
    pub waiting_max: Option<u32>,

    /// Share of answers that broke off.
    pub truncated_share: Option<f64>,
    /// Share of answers that ended at their ceiling.
    pub length_share: Option<f64>,
    /// With `ignore_eos`: share of answers shorter than asked.
    pub short_share: Option<f64>,
    /// Share of prompts that were not as long, by the server's count, as they were made.
    pub input_mismatch_share: Option<f64>,
    /// Share of answers whose tokens the server and our tokenizer count differently.
    pub token_mismatch_share: Option<f64>,
    /// Requests sent again on a new connection because a kept one had been closed.
    pub reconnected: u32,
    /// Median wall time of the last third of the requests over that of the first, less 1.
    pub drift_share: Option<f64>,

    /// The machine right before the engine was started.
    pub host_before: Option<HostState>,
    /// The machine right after the last request, the engine still there.
    pub host_after: Option<HostState>,

    /// What follows.
    pub verdict: Soundness,
    /// Each limit that was passed.
    pub doubts: Vec<Doubt>,
}

/// What a run's validity figures come to; the worst doubt decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Soundness {
    /// No limit was passed.
    #[default]
    Sound,
    /// The figures are those of a disturbed or incomplete measurement.
    Degraded,
    /// The client, not the server, may be what was measured.
    ClientBound,
}

/// A limit that was passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// Name of the limit, as its constant in lower case (`dispatch_lag_p99_ms_max`).
    pub limit: String,
    /// What it makes of the run.
    pub verdict: Soundness,
    /// One line for people, with the figure and the limit.
    pub message: String,
}
