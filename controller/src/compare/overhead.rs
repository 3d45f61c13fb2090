//! What the network and server layer costs a request: online − offline, in ms.
//!
//! One request at a time, the same engine, the same prompts: what is left is HTTP, JSON, templates
//! and the server's queue. A cost is a difference and no ratio, so its interval is Student's t of the
//! runs' own values in ms: paired by block where the session was interleaved, else Welch's.

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::Measured;
use crate::compare::cell::Terms;
use crate::compare::judge::Design;
use crate::compare::reduced::Reduced;
use crate::stats::difference::Difference;
use crate::stats::mean;
use crate::stats::runs_needed::MIN_RUNS;

/// Online − offline, whichever side is the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Difference of the runs' median wall times; none with too few requests.
    pub median_ms: Option<f64>,
    /// Its interval at 1 − alpha (per look); none with fewer than three runs a side.
    pub median_interval_ms: Option<(f64, f64)>,
    /// Difference of the means.
    pub mean_ms: Option<f64>,
    /// Its interval.
    pub mean_interval_ms: Option<(f64, f64)>,
}

/// The overhead of the layer. Its intervals are Student's t on the runs' values in ms: by pairs where
/// the runs share blocks, else Welch's.
pub fn overhead(base: &[Measured<'_>], candidate: &[Measured<'_>], terms: &Terms<'_>) -> Overhead {
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
        let (offline, online) = (values(offline, of)?, values(online, of)?);
        let ms = mean(&online)? - mean(&offline)?;
        Some((ms, interval(&offline, &online, terms)))
    };
    let median = difference(&|run| run.wall(0.5).ok());
    let mean = difference(&|run| Some(run.stats.wall_ms));
    Overhead {
        median_ms: median.map(|(ms, _)| ms),
        median_interval_ms: median.and_then(|(_, interval)| interval),
        mean_ms: mean.map(|(ms, _)| ms),
        mean_interval_ms: mean.and_then(|(_, interval)| interval),
    }
}

/// Of too few runs, and of runs without spread, there is none.
fn interval(offline: &[f64], online: &[f64], terms: &Terms<'_>) -> Option<(f64, f64)> {
    if offline.len().min(online.len()) < MIN_RUNS as usize {
        return None;
    }
    let difference = match terms.design {
        Design::Paired => Difference::paired(offline, online),
        Design::Unpaired => Difference::welch(offline, online),
    };
    let alpha = terms.rules.alpha / f64::from(terms.rules.looks.max(1));
    difference.ok()?.interval(1.0 - alpha).ok()
}

#[cfg(test)]
mod tests;
