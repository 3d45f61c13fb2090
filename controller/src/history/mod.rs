//! Runs of one arm and one work on one host over time, and the steps where their level changed.
//!
//! [`groups`] chooses and sorts runs into series, the caller reduces them, [`Group::series`] gives
//! the values and the steps, which [`crate::show::history`] prints. Pure: no I/O, no clock.

mod choose;
mod metrics;

use std::collections::{BTreeMap, BTreeSet};

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::cell::Unit;
use crate::compare::judge::Better;
use crate::compare::reduced::Reduced;
use crate::compare::work::workload_words;
use crate::record::RunRecord;
use crate::stats::changes::{Change, MIN_VALUES, changes};
use crate::stats::quantile::quantile;

use choose::left_out_words;
pub use choose::{Group, groups};
pub use metrics::Metric;

/// All that is printed, and the JSON of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// One for each host, arm and work, that with the newest run last.
    pub series: Vec<Series>,
    /// What was left out before there were series, one line each.
    pub notes: Vec<String>,
}

/// What has one level as long as nothing changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// `ch09`, or an engine's name.
    pub engine: String,
    /// How it was driven.
    pub mode: Mode,
    /// For people.
    pub hostname: String,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// Key of the workload.
    pub workload_key: String,
    /// The workload in words.
    pub workload: String,
    /// The metric, for programs.
    pub metric: &'static str,
    /// The metric, for people.
    pub label: &'static str,
    /// Unit of all values.
    pub unit: Unit,
    /// Which direction is good.
    pub better: Better,
    /// Its runs, oldest first.
    pub runs: Vec<Point>,
    /// Where the level changed, oldest first.
    pub steps: Vec<Step>,
    /// What was left out, and why steps were not looked for.
    pub notes: Vec<String>,
}

/// A run in a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The run.
    pub run_id: String,
    /// Its session.
    pub session_id: String,
    /// When it was made, for people.
    pub created_unix_ms: i64,
    /// Name of the agent.
    pub agent: String,
    /// `--label`.
    pub label: Option<String>,
    /// Build of the engine, if it is known.
    pub build: Option<String>,
    /// The run's value.
    pub value: f64,
    /// Median of the values between the steps around it: one odd run does not move it.
    pub level: f64,
}

/// A place where the level changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Index of the first run after it.
    pub first: usize,
    /// That run.
    pub run_id: String,
    /// When it was made, for people.
    pub created_unix_ms: i64,
    /// When the run before it was made.
    pub previous_unix_ms: i64,
    /// Level before it.
    pub before: f64,
    /// Level after it.
    pub after: f64,
    /// after / before − 1.
    pub change: f64,
    /// Whether that is good.
    pub faster: bool,
    /// Of the permutation test.
    pub p: f64,
    /// Build of the last run before it.
    pub build_before: Option<String>,
    /// Build of the first run after it.
    pub build_after: Option<String>,
}

impl<'a> Group<'a> {
    /// The values of a metric, by default the primary one of the mode, with their steps. `reduced`
    /// has the runs that measured something, by id.
    pub fn series(
        &self,
        metric: Option<&'static Metric>,
        reduced: &BTreeMap<String, Reduced>,
    ) -> Option<Series> {
        let newest = self.runs.last()?;
        let spec = &newest.status.spec;
        let metric = metric.or_else(|| Metric::primary(spec.arm.mode))?;
        let with_value = |run: &&'a RunRecord| {
            let value = metric.value(reduced.get(&run.run_id)?)?;
            Some((*run, value))
        };
        let measured: Vec<(&RunRecord, f64)> = self.runs.iter().filter_map(with_value).collect();
        let mut notes = self.notes.clone();
        let without = self.runs.len() - measured.len();
        if without > 0 {
            notes.push(left_out_words(without, "no value of this metric"));
        }
        notes.extend(sessions(&measured));
        let of_measured = measured
            .iter()
            .filter_map(|(run, _)| reduced.get(&run.run_id));
        notes.extend(two_ways(metric, of_measured));
        let values: Vec<f64> = measured.iter().map(|(_, value)| *value).collect();
        let found = steps_of(&values, &mut notes);
        let levels = levels(&values, &found);
        let points: Vec<Point> = measured
            .iter()
            .zip(&levels)
            .map(|((run, value), level)| point(run, *value, *level))
            .collect();
        let steps = found
            .iter()
            .filter_map(|change| step(&points, change, metric.better()));
        Some(Series {
            engine: newest.engine.clone(),
            mode: spec.arm.mode,
            hostname: newest.hostname.clone(),
            host_fingerprint: newest.host_fingerprint.clone(),
            workload_key: newest.workload_key.clone(),
            workload: workload_words(&spec.workload),
            metric: metric.name,
            label: metric.label,
            unit: metric.unit,
            better: metric.better(),
            steps: steps.collect(),
            runs: points,
            notes,
        })
    }
}

/// Changes of the logs, so that the same share counts the same at every level.
fn steps_of(values: &[f64], notes: &mut Vec<String>) -> Vec<Change> {
    if values.len() < MIN_VALUES {
        let has = values.len();
        notes.push(format!(
            "steps are looked for from {MIN_VALUES} runs on; it has {has}"
        ));
        return Vec::new();
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    changes(&logs).unwrap_or_else(|error| {
        notes.push(format!("no steps were looked for: {error}"));
        Vec::new()
    })
}

/// The test takes runs to be alike in any order, which those of one session are not.
fn sessions(runs: &[(&RunRecord, f64)]) -> Option<String> {
    let sessions: BTreeSet<&str> = runs.iter().map(|(run, _)| &*run.session_id).collect();
    (runs.len() >= MIN_VALUES && sessions.len() < runs.len()).then(|| {
        "runs of one session resemble each other: a step between two sessions may be the host's"
            .to_owned()
    })
}

/// A step between two ways of measuring is none of the engine.
fn two_ways<'r>(metric: &Metric, runs: impl Iterator<Item = &'r Reduced>) -> Option<String> {
    let (mut clocks, mut by_events, mut by_count) = (Vec::new(), false, false);
    for run in runs {
        clocks.extend(run.timing);
        by_events |= run.counted_by_events.0;
        by_count |= run.counted_by_events.1;
    }
    clocks.dedup();
    let on_a_clock = metric.name.starts_with("ttft") || metric.name.starts_with("tpot");
    let of_tokens = metric.unit == Unit::TokPerS || metric.name.starts_with("tpot");
    if on_a_clock && clocks.len() > 1 {
        return Some("some runs were timed by the engine, some by the client".to_owned());
    }
    (of_tokens && by_events && by_count)
        .then(|| "some runs count events, some count tokens".to_owned())
}

/// The level of each value's segment.
fn levels(values: &[f64], found: &[Change]) -> Vec<f64> {
    let mut levels = Vec::with_capacity(values.len());
    let ends = found.iter().map(|change| change.at).chain([values.len()]);
    let mut start = 0;
    for end in ends {
        let level = quantile(values.get(start..end).unwrap_or_default(), 0.5);
        let level = level.unwrap_or(f64::NAN);
        levels.resize(end, level);
        start = end;
    }
    levels
}

fn point(run: &RunRecord, value: f64, level: f64) -> Point {
    let provenance = run.status.provenance.as_ref();
    Point {
        run_id: run.run_id.clone(),
        session_id: run.session_id.clone(),
        created_unix_ms: run.created_unix_ms,
        agent: run.agent_name.clone(),
        label: run.label.clone(),
        build: provenance.and_then(|p| p.engine_build.clone()),
        value,
        level,
    }
}

fn step(points: &[Point], change: &Change, better: Better) -> Option<Step> {
    let (before, after) = (
        points.get(change.at.checked_sub(1)?)?,
        points.get(change.at)?,
    );
    let rises = after.level > before.level;
    Some(Step {
        first: change.at,
        run_id: after.run_id.clone(),
        created_unix_ms: after.created_unix_ms,
        previous_unix_ms: before.created_unix_ms,
        before: before.level,
        after: after.level,
        change: after.level / before.level - 1.0,
        faster: rises == (better == Better::Higher),
        p: change.p,
        build_before: before.build.clone(),
        build_after: after.build.clone(),
    })
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
pub(crate) mod tests;
