//! One run of a side, reduced once to the values that a comparison's rows are made of.

use contracts::run::Mode;
use contracts::sample::{Sample, TimingSource, TokenSource};
use contracts::stats::BenchStats;

use crate::compare::Measured;
use crate::stats::bench::{bench_stats, measured};
use crate::stats::gaps::GapCounts;
use crate::stats::goodput::wall_from_due_ms;
use crate::stats::mean;
use crate::stats::quantile::{Percentile, percentile_of, smallest_n, sorted};
use crate::stats::window::Shape;

/// A figure of one run, or why it has none.
pub(super) type OfRun = Result<f64, Missing>;

/// Why a run has no figure.
pub(super) enum Missing {
    NotMeasured,
    TooFew { needs: u64, has: u64 },
}

/// A run that measured something.
pub(super) struct Reduced<'a> {
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
    walls: Vec<f64>,
    walls_from_due: Vec<f64>,
    ttfts: Vec<f64>,
    gaps: &'a GapCounts,
}

impl<'a> Reduced<'a> {
    /// None of a run without a successful request.
    pub fn of(run: &Measured<'a>) -> Option<Self> {
        let status = &run.run.status;
        let shape = Shape::of(status);
        let stats = bench_stats(run.samples, shape)?;
        let column = |of: &dyn Fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = measured(run.samples).filter_map(of).collect();
            sorted(&values).unwrap_or_default()
        };
        let mut sources = measured(run.samples).filter_map(|s| s.timing_source);
        let timing = sources.next();
        let tokens = || measured(run.samples).filter_map(|s| s.token_source);
        Some(Self {
            online: status.spec.arm.mode == Mode::Online,
            open_loop: shape.open_loop,
            timing,
            counted_by_events: (
                tokens().any(|source| source == TokenSource::Events),
                tokens().any(|source| source != TokenSource::Events),
            ),
            timing_mixed: sources.any(|source| Some(source) != timing),
            walls: column(&|s| s.wall_ms),
            walls_from_due: column(&wall_from_due_ms),
            ttfts: column(&|s| s.ttft_ms),
            gaps: run.gaps,
            stats,
        })
    }

    /// Percentile of the wall time from sent.
    pub fn wall(&self, q: f64) -> OfRun {
        of_sorted(&self.walls, q)
    }

    /// Mean wall time from due.
    pub fn wall_from_due_mean(&self) -> OfRun {
        mean(&self.walls_from_due).ok_or(Missing::NotMeasured)
    }

    /// Percentile of the wall time from due.
    pub fn wall_from_due(&self, q: f64) -> OfRun {
        of_sorted(&self.walls_from_due, q)
    }

    /// Percentile of the TTFT.
    pub fn ttft(&self, q: f64) -> OfRun {
        of_sorted(&self.ttfts, q)
    }

    /// Percentile of the gaps between events.
    pub fn itl(&self, q: f64) -> OfRun {
        let (needs, has) = (smallest_n(q), self.gaps.count());
        match self.gaps.quantile_ms(q) {
            None => Err(Missing::NotMeasured),
            Some(_) if has < needs => Err(Missing::TooFew { needs, has }),
            Some(ms) => Ok(ms),
        }
    }
}

/// Of nothing it is not measured, of too few it says how many it needs.
fn of_sorted(sorted: &[f64], q: f64) -> OfRun {
    match percentile_of(sorted, q) {
        Percentile::Known { value, .. } | Percentile::Pooled { value } => Ok(value),
        Percentile::TooFew { .. } if sorted.is_empty() => Err(Missing::NotMeasured),
        Percentile::TooFew { needs, has } => Err(Missing::TooFew { needs, has }),
    }
}

/// A mean that is 0.0 says "not measured".
pub(super) fn unless_zero(ms: f64) -> OfRun {
    if ms == 0.0 {
        Err(Missing::NotMeasured)
    } else {
        Ok(ms)
    }
}
