//! One run of a side, reduced once to the values that a comparison's rows are made of: of its
//! requests nothing is kept.

use contracts::run::Mode;
use contracts::sample::{TimingSource, TokenSource};
use contracts::stats::BenchStats;

use crate::columns::{Columns, Request};
use crate::compare::Measured;
use crate::record::RunRecord;
use crate::stats::gaps::GapCounts;
use crate::stats::mean;
use crate::stats::quantile::{PERCENTILES, quantiles, smallest_n};
use crate::stats::window::Shape;

/// A figure of one run, or why it has none.
pub type OfRun = Result<f64, Missing>;

/// Why a run has no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No request has it.
    NotMeasured,
    /// There are fewer requests than a percentile needs.
    TooFew {
        /// Smallest number of requests.
        needs: u64,
        /// What there is.
        has: u64,
    },
}

/// A run that measured something.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    /// Its averages, without the wall times.
    pub stats: BenchStats,
    /// Whether it went over HTTP.
    pub online: bool,
    /// Whether its requests came at times of their own.
    pub open_loop: bool,
    /// On whose clock its TTFT and TPOT are.
    pub timing: Option<TimingSource>,
    /// Whether they are on two.
    pub timing_mixed: bool,
    /// Requests whose tokens are counted by events, and by anything else.
    pub counted_by_events: (bool, bool),
    walls: Quantiles,
    wall_from_due_mean: Option<f64>,
    walls_from_due: Quantiles,
    ttfts: Quantiles,
    gaps: Quantiles,
}

impl Reduced {
    /// What a run of a side came to.
    pub fn of(run: &Measured<'_>) -> Option<Self> {
        run.input.reduced.clone()
    }

    /// None of a run without a successful request.
    pub fn of_columns(run: &RunRecord, columns: &Columns) -> Option<Self> {
        let shape = Shape::of(&run.status);
        let stats = BenchStats {
            wall_times: Vec::new(),
            ..columns.bench_stats(shape)?
        };
        let column = |of: &dyn Fn(&Request) -> Option<f64>| -> Vec<f64> {
            columns.requests.iter().filter_map(of).collect()
        };
        let walls_from_due = column(&|r| r.wall_from_due_ms());
        let mut sources = columns.requests.iter().filter_map(|r| r.timing_source);
        let timing = sources.next();
        let tokens = || columns.requests.iter().filter_map(|r| r.token_source);
        Some(Self {
            online: run.status.spec.arm.mode == Mode::Online,
            open_loop: shape.open_loop,
            timing,
            counted_by_events: (
                tokens().any(|source| source == TokenSource::Events),
                tokens().any(|source| source != TokenSource::Events),
            ),
            timing_mixed: sources.any(|source| Some(source) != timing),
            walls: Quantiles::of(column(&|r| Some(r.wall_ms))),
            wall_from_due_mean: mean(&walls_from_due),
            walls_from_due: Quantiles::of(walls_from_due),
            ttfts: Quantiles::of(column(&|r| r.ttft_ms)),
            gaps: Quantiles::of_gaps(&columns.gaps),
            stats,
        })
    }

    /// Percentile of the wall time from sent. Here and below `q` is one of [`PERCENTILES`].
    pub fn wall(&self, q: f64) -> OfRun {
        self.walls.at(q)
    }

    /// Mean wall time from due.
    pub fn wall_from_due_mean(&self) -> OfRun {
        self.wall_from_due_mean.ok_or(Missing::NotMeasured)
    }

    /// Percentile of the wall time from due.
    pub fn wall_from_due(&self, q: f64) -> OfRun {
        self.walls_from_due.at(q)
    }

    /// Percentile of the TTFT.
    pub fn ttft(&self, q: f64) -> OfRun {
        self.ttfts.at(q)
    }

    /// Percentile of the gaps between events.
    pub fn itl(&self, q: f64) -> OfRun {
        self.gaps.at(q)
    }
}

/// The values of one metric at each of [`PERCENTILES`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quantiles {
    count: u64,
    values: [Option<f64>; PERCENTILES.len()],
}

impl Quantiles {
    fn of(values: Vec<f64>) -> Self {
        Self {
            count: values.len() as u64,
            values: quantiles(values, PERCENTILES.map(|(_, q)| q)),
        }
    }

    fn of_gaps(gaps: &GapCounts) -> Self {
        Self {
            count: gaps.count(),
            values: PERCENTILES.map(|(_, q)| gaps.quantile_ms(q)),
        }
    }

    /// Of nothing it is not measured, of too few it says how many it needs.
    fn at(&self, q: f64) -> OfRun {
        let mut known = PERCENTILES.iter().zip(self.values);
        let value = known.find(|((_, of), _)| *of == q).and_then(|(_, v)| v);
        let (needs, has) = (smallest_n(q), self.count);
        match value {
            None => Err(Missing::NotMeasured),
            Some(_) if has < needs => Err(Missing::TooFew { needs, has }),
            Some(value) => Ok(value),
        }
    }
}

/// A mean that is 0.0 says "not measured".
pub(crate) fn unless_zero(ms: f64) -> OfRun {
    if ms == 0.0 {
        Err(Missing::NotMeasured)
    } else {
        Ok(ms)
    }
}
