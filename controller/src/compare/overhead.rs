//! What the network and server layer costs a request: online − offline, in ms.
//!
//! One request at a time, the same engine, the same prompts: what is left is HTTP, JSON, templates
//! and the server's queue.

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::Measured;
use crate::compare::reduced::Reduced;
use crate::stats::mean;

/// Online − offline, whichever side is the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Difference of the runs' median wall times; none with too few requests.
    pub median_ms: Option<f64>,
    /// Its interval at 1 − alpha; none with fewer than three runs a side.
    pub median_interval_ms: Option<(f64, f64)>,
    /// Difference of the means.
    pub mean_ms: Option<f64>,
    /// Its interval.
    pub mean_interval_ms: Option<(f64, f64)>,
}

/// The overhead of the layer.
pub fn overhead(base: &[Measured<'_>], candidate: &[Measured<'_>]) -> Overhead {
    let online = |run: &Measured<'_>| run.run.status.spec.arm.mode == Mode::Online;
    let (offline, online) = if candidate.iter().all(online) {
        (base, candidate)
    } else {
        (candidate, base)
    };
    let values = |side: &[Measured<'_>], of: &dyn Fn(&Reduced) -> Option<f64>| {
        let runs = side.iter().filter_map(Reduced::of);
        runs.map(|run| of(&run)).collect::<Option<Vec<f64>>>()
    };
    let difference = |of: &dyn Fn(&Reduced) -> Option<f64>| {
        Some(mean(&values(online, of)?)? - mean(&values(offline, of)?)?)
    };
    Overhead {
        median_ms: difference(&|run| run.wall(0.5).ok()),
        median_interval_ms: None,
        mean_ms: difference(&|run| Some(run.stats.wall_ms)),
        mean_interval_ms: None,
    }
}

#[cfg(test)]
mod tests;
