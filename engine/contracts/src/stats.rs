//! What one run comes to.

use serde::{Deserialize, Serialize};

/// Averages of a run's measured requests, and the raw wall times they come from.
///
/// `wall_times` are in ms, in order. For one request at a time: `wall_ms = mean(wall_times)`,
/// `req_per_s = 1000 / wall_ms`, `tok_per_s = output_tokens / (wall_ms / 1000)`. `ttft_ms` and
/// `tpot_ms` are means over the requests that have them; 0.0 says "not measured".
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchStats {
    /// Completed requests per second.
    pub req_per_s: f64,
    /// Output tokens per second.
    pub tok_per_s: f64,
    /// Mean wall time of a request.
    pub wall_ms: f64,
    /// Mean output tokens of a request.
    pub output_tokens: f64,
    /// Measured requests.
    pub n_runs: u32,
    /// Mean time to first token, or 0.0.
    #[serde(default)]
    pub ttft_ms: f64,
    /// Mean time per output token after the first, or 0.0.
    #[serde(default)]
    pub tpot_ms: f64,
    /// Raw wall time of each measured request in ms, in order.
    #[serde(default)]
    pub wall_times: Vec<f64>,
}
