//! What the network and server layer costs a request: online − offline, in ms.
//!
//! One request at a time, the same engine, the same prompts: what is left is HTTP, JSON, templates
//! and the server's queue. A cost is a difference and no ratio, so its interval is Student's t of the
//! runs' own values in ms: paired by block where the session was interleaved, else Welch's.

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::Measured;
use crate::compare::judge::{Design, Rules};
use crate::compare::reduced::Reduced;
use crate::stats::difference::Difference;
use crate::stats::error::StatsError;
use crate::stats::mean;

/// Runs a side that an interval needs, as verdicts do.
const RUNS_MIN: usize = 3;

/// Online − offline, whichever side is the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// By the runs' median wall times.
    pub median: Cost,
    /// By their mean wall times.
    pub mean: Cost,
}

/// One cost of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Online − offline, of the means over the runs; none where a run has too few requests.
    pub ms: Option<f64>,
    /// Its interval at 1 − alpha / looks.
    pub interval_ms: Option<(f64, f64)>,
    /// Why there is no interval.
    pub missing: Option<String>,
}

/// A value of one run.
type OfRun<'f> = &'f dyn Fn(&Reduced) -> Option<f64>;

/// The overhead of the layer.
pub fn overhead(
    base: &[Measured<'_>],
    candidate: &[Measured<'_>],
    design: Design,
    rules: &Rules,
) -> Overhead {
    let online = |run: &Measured<'_>| run.run.status.spec.arm.mode == Mode::Online;
    let (offline, online) = if candidate.iter().all(online) {
        (base, candidate)
    } else {
        (candidate, base)
    };
    let cost = |of: OfRun<'_>| match (values(offline, of), values(online, of)) {
        (Some(offline), Some(online)) => cost(&offline, &online, design, rules),
        _ => Cost {
            ms: None,
            interval_ms: None,
            missing: Some("a run has too few requests".to_owned()),
        },
    };
    Overhead {
        median: cost(&|run| run.wall(0.5).ok()),
        mean: cost(&|run| Some(run.stats.wall_ms)),
    }
}

/// One value a run; none as soon as one run has none.
fn values(side: &[Measured<'_>], of: OfRun<'_>) -> Option<Vec<f64>> {
    let runs = side.iter().map(|run| of(run.input.reduced.as_ref()?));
    runs.collect()
}

fn cost(offline: &[f64], online: &[f64], design: Design, rules: &Rules) -> Cost {
    let ms = mean(online).zip(mean(offline)).map(|(on, off)| on - off);
    let interval = if offline.len().min(online.len()) < RUNS_MIN {
        Err(format!("an interval needs {RUNS_MIN} runs a side"))
    } else {
        let difference = match design {
            Design::Paired => Difference::paired(offline, online),
            Design::Unpaired => Difference::welch(offline, online),
        };
        let confidence = 1.0 - rules.alpha / f64::from(rules.looks.max(1));
        let interval = difference.and_then(|d| d.interval(confidence));
        interval.map_err(|error| match error {
            StatsError::NoSpread => "the runs do not differ among themselves".to_owned(),
            other => other.to_string(),
        })
    };
    Cost {
        ms,
        interval_ms: interval.as_ref().ok().copied(),
        missing: interval.err(),
    }
}

#[cfg(test)]
mod tests;
