//! How much equal runs of one arm differ, metric by metric: the noise floor of `calibrate --runs`.
//! Pure.
//!
//! The values are those that a comparison has of the same runs. What is kept is their spread, never
//! their level: a floor of one build serves the next.

use contracts::run::Soundness;
use serde::Serialize;

use crate::compare::cell::{self, Terms, Unit};
use crate::compare::judge::{Design, Floor, Rules};
use crate::compare::pairing::unusable;
use crate::compare::{ALPHA, Measured};
use crate::show::{validity, words};
use crate::stats::log_ratio::LogRatio;
use crate::stats::runs_needed::runs_needed;

/// One metric of equal runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Noise {
    /// For programs: `wall_ms_p50`, … as in a comparison.
    pub metric: String,
    /// For people.
    pub label: String,
    /// Unit of the mean.
    pub unit: Unit,
    /// Whether sides are judged by it.
    pub primary: bool,
    /// Geometric mean of the runs' values.
    pub mean: Option<f64>,
    /// Standard deviation of their natural logarithms; none where all are equal.
    pub log_sd: Option<f64>,
    /// What two single runs must differ by, as a share, for a verdict.
    pub exceeds: Option<f64>,
    /// Runs a side that show the margin at this noise.
    pub runs_needed: Option<u32>,
    /// Why there is no spread.
    pub missing: Option<String>,
}

impl Noise {
    /// What is stored of it; none where nothing is known of the spread.
    pub fn floor(&self, run_count: u32, measured_unix_ms: i64) -> Option<Floor> {
        Some(Floor {
            log_sd: self.log_sd?,
            run_count,
            measured_unix_ms,
        })
    }
}

/// A run that may not be counted, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Uncounted {
    /// The run.
    pub run_id: String,
    /// In words that go on from the id: `failed (load): …`, `is client-bound: …`.
    pub why: String,
}

/// Why a run is no measure of the host's noise; none of a good one.
pub fn uncounted(run: &Measured<'_>) -> Option<Uncounted> {
    Some(Uncounted {
        run_id: run.run.run_id.clone(),
        why: why(run)?,
    })
}

fn why(run: &Measured<'_>) -> Option<String> {
    let validity = &run.run.status.validity;
    if let Some(why) = unusable(run.run) {
        return Some(why);
    }
    if validity.verdict == Soundness::ClientBound {
        return Some(format!("is {}", validity::verdict(validity)));
    }
    if run.input.succeeded == 0 {
        return Some("has no successful request".to_owned());
    }
    let failed = run.input.failed;
    (failed > 0).then(|| format!("has {}", words::count(failed, "failed request")))
}

/// The spread of equal runs, a row for each metric that they have; `margin` is what a comparison
/// is to find.
pub fn noise(runs: &[Measured<'_>], margin: f64) -> Vec<Noise> {
    let terms = Terms {
        // Figures and no ratios: there is one side, and it stands on both.
        comparable: false,
        withheld: None,
        design: Design::Unpaired,
        rules: Rules {
            alpha: ALPHA,
            margin,
            looks: 1,
        },
        floor: &|_| None,
    };
    let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let of = |row: cell::Row| {
        let spread = row.base.spread.filter(|log_sd| *log_sd > 0.0);
        let missing = match (row.base.value, spread) {
            (Some(_), None) => Some("no spread: every run has the same value".to_owned()),
            _ => row.base.missing,
        };
        Noise {
            exceeds: spread.and_then(|log_sd| least_difference(log_sd, count)),
            runs_needed: spread.and_then(|log_sd| runs_needed(log_sd, margin, ALPHA).ok()),
            metric: row.metric,
            label: row.label,
            unit: row.unit,
            primary: row.primary,
            mean: row.base.value,
            log_sd: spread,
            missing,
        }
    };
    cell::rows(runs, runs, &terms).into_iter().map(of).collect()
}

/// What two single runs must differ by for a verdict, as a share, where `run_count` equal ones have
/// this spread: the half width of the interval that the verdict rests on.
pub fn least_difference(log_sd: f64, run_count: u32) -> Option<f64> {
    let equal = LogRatio::by_floor(1.0, 1.0, log_sd, run_count).ok()?;
    let (_, high) = equal.interval(1.0 - ALPHA).ok()?;
    Some(high - 1.0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::{Mode, RunFailure, RunState, Soundness, Stage};

    use super::*;
    use crate::fixtures;
    use crate::record::RunWithSamples;

    fn equal_runs(walls: &[f64]) -> Vec<RunWithSamples> {
        let run = |(place, wall): (usize, &f64)| {
            let run = fixtures::run(&format!("01RUN{place}"), "ch02", Mode::Offline);
            fixtures::with_walls(run, &[*wall; 20])
        };
        walls.iter().enumerate().map(run).collect()
    }

    fn sides(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
        runs.iter().map(fixtures::in_comparison).collect()
    }

    #[test]
    fn the_spread_is_that_of_logs_and_sets_what_single_runs_must_exceed() {
        // ln = 0, 0.01, -0.01, 0.02, -0.02 about 100 ms: SD = sqrt(0.001 / 4).
        let walls = [0.0, 0.01, -0.01, 0.02, -0.02].map(|log: f64| 100.0 * log.exp());
        let runs = equal_runs(&walls);
        let rows = noise(&sides(&runs), 0.05);
        let wall = rows.iter().find(|row| row.metric == "wall_ms_p50").unwrap();
        assert!(wall.primary);
        let log_sd = wall.log_sd.unwrap();
        assert!((log_sd - 0.015_811_388).abs() < 1e-8, "{log_sd}");
        assert!((wall.mean.unwrap() - 100.0).abs() < 1e-9);
        // scipy.stats.t.ppf(0.975, 4) = 2.7764451051977987
        let exceeds = (2.776_445_105 * log_sd * 2f64.sqrt()).exp() - 1.0;
        assert!((wall.exceeds.unwrap() - exceeds).abs() < 1e-8);
        assert!(wall.runs_needed.unwrap() >= 3);
        let floor = wall.floor(5, 7).unwrap();
        assert_eq!((floor.run_count, floor.measured_unix_ms), (5, 7));
    }

    #[test]
    fn runs_without_spread_have_no_floor() {
        let runs = equal_runs(&[100.0; 5]);
        let rows = noise(&sides(&runs), 0.05);
        for row in &rows {
            assert_eq!(row.floor(5, 0), None, "{}", row.metric);
            assert!(row.missing.is_some(), "{}", row.metric);
        }
        assert!(rows.iter().any(|row| row.mean == Some(100.0)));
    }

    #[test]
    fn a_run_that_is_no_measure_of_noise_says_why() {
        let changed = |change: &dyn Fn(&mut RunWithSamples)| {
            let mut run = equal_runs(&[1.0]).remove(0);
            change(&mut run);
            uncounted(&fixtures::in_comparison(&run)).map(|run| run.why)
        };
        let failed = changed(&|run| {
            run.run.status.state = RunState::Failed;
            run.run.status.failure = Some(RunFailure {
                stage: Stage::Load,
                message: "no memory".to_owned(),
                log_tail: Vec::new(),
            });
        });
        assert_eq!(failed.unwrap(), "failed (load): no memory");
        let bound = changed(&|run| run.run.status.validity.verdict = Soundness::ClientBound);
        assert!(bound.unwrap().starts_with("is client-bound"));
        let busy = changed(&|run| run.run.status.validity.foreign_cpu_during = Some(0.5));
        assert!(
            busy.unwrap()
                .starts_with("is contaminated: others used 50.0 %")
        );
        let empty = changed(&|run| run.samples.clear());
        assert_eq!(empty.unwrap(), "has no successful request");
        assert_eq!(changed(&|_| ()), None);
    }
}
