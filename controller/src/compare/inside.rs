//! What single runs look like inside: drift, neighbours that resemble each other, outliers.
//!
//! Told only where it warns, one line a side. It decides nothing: verdicts rest on one value a run.

use crate::compare::Measured;
use crate::stats::autocorrelation::lag1;
use crate::stats::drift::drift;
use crate::stats::outliers::outliers;

/// A median that moved by more from a run's first half to its second is told: the default margin.
const DRIFT_WARN: f64 = 0.05;
/// If the trend itself could be chance more often than this, it is not.
const DRIFT_WARN_P: f64 = 0.01;
/// More outliers than this share of a run's requests are told; of normal values it is 0.7 %.
const OUTLIERS_WARN: f64 = 0.1;
/// Runs with more requests are not looked into: it would take longer than all else, and what is
/// looked for is a run that had not settled, which is a matter of its first requests.
pub(super) const MAX_REQUESTS: usize = 10_000;

/// What the runs of a side warn of.
pub(super) fn warnings(side: &str, runs: &[Measured<'_>]) -> Vec<String> {
    let walls = runs
        .iter()
        .map(|run| (run.run.run_id.as_str(), run.input.walls_ms.as_slice()));
    let walls: Vec<(&str, &[f64])> = walls.filter(|(_, walls)| !walls.is_empty()).collect();
    let all = [drifting(&walls), resembling(&walls), with_outliers(&walls)];
    let told = all.into_iter().flatten();
    told.map(|what| format!("the {side}'s {what}")).collect()
}

/// The run that drifts most.
fn drifting(runs: &[(&str, &[f64])]) -> Option<String> {
    let drifts = runs.iter().filter_map(|(id, walls)| {
        let drift = drift(walls).ok()?;
        let warns = drift.shift.abs() > DRIFT_WARN && drift.trend_p < DRIFT_WARN_P;
        warns.then_some((id, drift.shift))
    });
    let drifts: Vec<(&&str, f64)> = drifts.collect();
    let worst = drifts
        .iter()
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(format!(
        "wall time drifts within {} of {} runs, most in {} by {:+.1}% from its first half to its second",
        drifts.len(),
        runs.len(),
        worst.0,
        worst.1 * 100.0
    ))
}

/// Where most runs' requests resemble their neighbours; of one run in twenty that is chance.
fn resembling(runs: &[(&str, &[f64])]) -> Option<String> {
    let lags = runs.iter().filter_map(|(_, walls)| {
        let lag = lag1(walls).ok()?;
        (lag.abs() > 2.0 / (walls.len() as f64).sqrt()).then_some(lag)
    });
    let lags: Vec<f64> = lags.collect();
    let worst = lags
        .iter()
        .copied()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    (2 * lags.len() > runs.len()).then(|| {
        format!(
            "requests resemble their neighbours in {} of {} runs (autocorrelation up to {worst:.2})",
            lags.len(),
            runs.len()
        )
    })
}

/// They are in every figure all the same.
fn with_outliers(runs: &[(&str, &[f64])]) -> Option<String> {
    let counts = runs.iter().filter_map(|(id, walls)| {
        let found = outliers(walls).ok()?;
        let count = found.low_count + found.high_count;
        let share = count as f64 / walls.len() as f64;
        (share > OUTLIERS_WARN).then_some((id, count, walls.len()))
    });
    let counts: Vec<(&&str, usize, usize)> = counts.collect();
    let worst = counts.iter().max_by_key(|(_, count, _)| *count)?;
    Some(format!(
        "wall times have outliers in {} of {} runs, most in {}: {} of {} requests; none is left out",
        counts.len(),
        runs.len(),
        worst.0,
        worst.1,
        worst.2
    ))
}

#[cfg(test)]
mod tests;
