//! The figures of one cell: both sides, their ratio and their difference, metric by metric.
//!
//! A figure of a side is the mean over its runs of each run's own value; requests of different
//! runs are never pooled.

use contracts::run::Mode;
use contracts::sample::{Sample, TimingSource};
use contracts::stats::BenchStats;
use serde::Serialize;

use crate::compare::Measured;
use crate::show::words;
use crate::stats::bench::{bench_stats, measured};
use crate::stats::mean;
use crate::stats::quantile::{PERCENTILES, Percentile, percentile};
use crate::stats::window::Shape;

/// One metric of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// For programs: `req_per_s`, `wall_ms`, `wall_ms_p50`, …
    pub metric: String,
    /// For people.
    pub label: String,
    /// Unit of the figures and of the difference.
    pub unit: Unit,
    /// The base's figure.
    pub base: Figure,
    /// The candidate's.
    pub candidate: Figure,
    /// Candidate / base; none where they may not be compared.
    pub ratio: Option<f64>,
    /// Candidate − base, in `unit`; none where they may not be compared.
    pub difference: Option<f64>,
    /// Why there is no ratio although both have figures.
    pub note: Option<String>,
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Completed requests per second.
    #[serde(rename = "req/s")]
    ReqPerS,
    /// Output tokens per second.
    #[serde(rename = "tok/s")]
    TokPerS,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
    /// Tokens of an answer.
    #[serde(rename = "tokens")]
    Tokens,
}

/// A side's figure, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Mean over the side's runs.
    pub value: Option<f64>,
    /// `not measured`, `n/a (needs ≥ 368, has 100)`.
    pub missing: Option<String>,
}

/// What the network and server layer costs a request: online − offline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Difference of the medians of the wall time; none with too few requests.
    pub median_ms: Option<f64>,
    /// Difference of the means.
    pub mean_ms: Option<f64>,
}

/// A figure of one run, or why it has none.
type OfRun = Result<f64, Missing>;

enum Missing {
    NotMeasured,
    TooFew { needs: u64, has: u64 },
}

/// One run, reduced once.
struct Reduced {
    stats: BenchStats,
    timing: Option<TimingSource>,
    timing_mixed: bool,
}

/// All rows. Without `comparable` there are figures and neither ratios nor differences. TTFT and
/// TPOT are left out where neither side has them.
pub fn rows(base: &[Measured<'_>], candidate: &[Measured<'_>], comparable: bool) -> Vec<Row> {
    let (base, candidate) = (reduce(base), reduce(candidate));
    let row = |metric: &str, label: &str, unit, of: &dyn Fn(&BenchStats) -> OfRun| {
        let (base, candidate) = (figure(&base, of), figure(&candidate, of));
        finish(metric, label, unit, base, candidate, comparable)
    };
    let mut rows = vec![
        row("req_per_s", "Req/s", Unit::ReqPerS, &|s| Ok(s.req_per_s)),
        row("tok_per_s", "Tok/s", Unit::TokPerS, &|s| Ok(s.tok_per_s)),
        row("wall_ms", "Wall mean", Unit::Ms, &|s| Ok(s.wall_ms)),
    ];
    for (name, q) in PERCENTILES {
        rows.push(row(
            &format!("wall_ms_{name}"),
            &format!("Wall {name}"),
            Unit::Ms,
            &|stats| match percentile(&stats.wall_times, q) {
                Percentile::Known { value, .. } | Percentile::Pooled { value } => Ok(value),
                Percentile::TooFew { needs, has } => Err(Missing::TooFew { needs, has }),
            },
        ));
    }
    let timing_note = timing_note(&base, &candidate);
    for mut timing in [
        row("ttft_ms", "TTFT", Unit::Ms, &|s| unless_zero(s.ttft_ms)),
        row("tpot_ms", "TPOT", Unit::Ms, &|s| unless_zero(s.tpot_ms)),
    ] {
        if timing.base.value.is_none() && timing.candidate.value.is_none() {
            continue;
        }
        if timing.ratio.is_some() && timing_note.is_some() {
            timing.ratio = None;
            timing.difference = None;
            timing.note = timing_note.clone();
        }
        rows.push(timing);
    }
    rows.push(row("output_tokens", "Tokens out", Unit::Tokens, &|s| {
        Ok(s.output_tokens)
    }));
    rows
}

/// Online − offline of the wall time, whichever side is the base.
pub fn overhead(base: &[Measured<'_>], candidate: &[Measured<'_>]) -> Overhead {
    let candidate_is_online = candidate
        .iter()
        .all(|run| run.run.status.spec.arm.mode == Mode::Online);
    let sign = if candidate_is_online { 1.0 } else { -1.0 };
    let rows = rows(base, candidate, true);
    let of = |metric: &str| {
        let row = rows.iter().find(|row| row.metric == metric)?;
        Some(sign * row.difference?)
    };
    Overhead {
        median_ms: of("wall_ms_p50"),
        mean_ms: of("wall_ms"),
    }
}

fn reduce(runs: &[Measured<'_>]) -> Vec<Reduced> {
    let reduced = runs.iter().filter_map(|run| {
        let mut sources = measured(run.samples).filter_map(|s: &Sample| s.timing_source);
        let timing = sources.next();
        Some(Reduced {
            stats: bench_stats(run.samples, Shape::of(&run.run.status))?,
            timing,
            timing_mixed: sources.any(|source| Some(source) != timing),
        })
    });
    reduced.collect()
}

/// Mean over runs; missing as soon as one run has no value.
fn figure(runs: &[Reduced], of: &dyn Fn(&BenchStats) -> OfRun) -> Figure {
    let values: Result<Vec<f64>, Missing> = runs.iter().map(|run| of(&run.stats)).collect();
    let missing = match values {
        Ok(values) => match mean(&values) {
            Some(value) => {
                return Figure {
                    value: Some(value),
                    missing: None,
                };
            }
            None => "not measured".to_owned(),
        },
        Err(Missing::NotMeasured) => "not measured".to_owned(),
        Err(Missing::TooFew { needs, has }) => words::too_few(needs, has),
    };
    Figure {
        value: None,
        missing: Some(missing),
    }
}

fn finish(
    metric: &str,
    label: &str,
    unit: Unit,
    base: Figure,
    candidate: Figure,
    comparable: bool,
) -> Row {
    let both = base.value.zip(candidate.value).filter(|_| comparable);
    Row {
        metric: metric.to_owned(),
        label: label.to_owned(),
        unit,
        base,
        candidate,
        ratio: both.map(|(b, c)| c / b).filter(|ratio| ratio.is_finite()),
        difference: both.map(|(b, c)| c - b),
        note: None,
    }
}

fn unless_zero(ms: f64) -> OfRun {
    if ms == 0.0 {
        Err(Missing::NotMeasured)
    } else {
        Ok(ms)
    }
}

/// Why TTFT and TPOT of two sides are not compared: they are on different clocks.
fn timing_note(base: &[Reduced], candidate: &[Reduced]) -> Option<String> {
    if base.iter().chain(candidate).any(|run| run.timing_mixed) {
        return Some("a run mixes two clocks".to_owned());
    }
    let mut timings = base.iter().chain(candidate).filter_map(|run| run.timing);
    let first = timings.next()?;
    timings
        .any(|timing| timing != first)
        .then(|| "not compared: the engine's clock against the client's".to_owned())
}

#[cfg(test)]
mod tests;
