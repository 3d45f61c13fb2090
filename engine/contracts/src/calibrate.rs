//! The load generator's own floor on a host: how far its figures are from what a server on a known
//! schedule really did.

use serde::{Deserialize, Serialize};

/// What `POST /v1/calibrate` found, a row for each number of streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientFloor {
    /// Build of the agent.
    pub agent_build: String,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// One for each number of streams asked for.
    pub levels: Vec<FloorLevel>,
}

/// The floor at one number of streams. An error is what the client measured less what the server
/// wrote down of the same request; truth of a TTFT is from the kernel's receipt of the request to
/// the write of the first content.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FloorLevel {
    /// Streams at once.
    pub streams: u32,
    /// Requests compared.
    pub requests: u32,
    /// Requests that failed or found no partner.
    pub lost: u32,
    /// Error of the time to first token.
    pub ttft_error_ms: Spread,
    /// Error of the gaps between content events.
    pub itl_error_ms: Spread,
    /// Error of the wall time.
    pub wall_error_ms: Spread,
    /// From the first request to the moment when each slot had sent one.
    pub first_wave_ms: f64,
    /// Mean in flight over what was asked.
    pub in_flight_share: f64,
    /// CPU time of the client per 1000 streamed tokens.
    pub client_cpu_ms_per_1000_tokens: f64,
}

/// How errors are spread: their median, sign kept, and the 99th percentile of their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub p50: f64,
    /// 99th percentile of the size: all but 1 % are at most this far off, early or late.
    pub p99: f64,
}
