//! The metrics that a history can show, by the names that `compare` prints.

use contracts::run::Mode;

use crate::compare::cell::Unit;
use crate::compare::judge::Better;
use crate::compare::reduced::{OfRun, Reduced, unless_zero};

/// A metric that a run has one value of.
pub struct Metric {
    /// For programs: `wall_ms_p50`.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    of: fn(&Reduced) -> OfRun,
}

impl Metric {
    /// By its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// What a run is shown by where nobody asks for a metric: the first that `compare` judges.
    pub fn primary(mode: Mode) -> Option<&'static Self> {
        Self::named(match mode {
            Mode::Offline => "wall_ms_p50",
            Mode::Online => "tok_per_s",
        })
    }

    /// All names, for messages.
    pub fn names() -> String {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.join(", ")
    }

    /// A run's value; none where it was not measured, is of too few requests, or has no log.
    pub fn value(&self, run: &Reduced) -> Option<f64> {
        let value = (self.of)(run).ok()?;
        (value > 0.0 && value.is_finite()).then_some(value)
    }

    /// Which direction is good.
    pub fn better(&self) -> Better {
        match self.unit {
            Unit::ReqPerS | Unit::TokPerS => Better::Higher,
            Unit::Ms | Unit::Tokens => Better::Lower,
        }
    }
}

const fn metric(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    of: fn(&Reduced) -> OfRun,
) -> Metric {
    Metric {
        name,
        label,
        unit,
        of,
    }
}

const METRICS: [Metric; 18] = [
    metric("req_per_s", "Req/s", Unit::ReqPerS, |r| {
        Ok(r.stats.req_per_s)
    }),
    metric("tok_per_s", "Tok/s", Unit::TokPerS, |r| {
        Ok(r.stats.tok_per_s)
    }),
    metric("wall_ms", "Wall mean", Unit::Ms, |r| Ok(r.stats.wall_ms)),
    metric("wall_ms_p50", "Wall p50", Unit::Ms, |r| r.wall(0.5)),
    metric("wall_ms_p90", "Wall p90", Unit::Ms, |r| r.wall(0.9)),
    metric("wall_ms_p95", "Wall p95", Unit::Ms, |r| r.wall(0.95)),
    metric("wall_ms_p99", "Wall p99", Unit::Ms, |r| r.wall(0.99)),
    metric("wall_from_due_ms", "Wall from due mean", Unit::Ms, |r| {
        r.wall_from_due_mean()
    }),
    metric("wall_from_due_ms_p50", "Wall from due p50", Unit::Ms, |r| {
        r.wall_from_due(0.5)
    }),
    metric("wall_from_due_ms_p90", "Wall from due p90", Unit::Ms, |r| {
        r.wall_from_due(0.9)
    }),
    metric("wall_from_due_ms_p95", "Wall from due p95", Unit::Ms, |r| {
        r.wall_from_due(0.95)
    }),
    metric("wall_from_due_ms_p99", "Wall from due p99", Unit::Ms, |r| {
        r.wall_from_due(0.99)
    }),
    metric("ttft_ms", "TTFT", Unit::Ms, |r| {
        unless_zero(r.stats.ttft_ms)
    }),
    metric("ttft_ms_p50", "TTFT p50", Unit::Ms, |r| r.ttft(0.5)),
    metric("ttft_ms_p95", "TTFT p95", Unit::Ms, |r| r.ttft(0.95)),
    metric("tpot_ms", "TPOT", Unit::Ms, |r| {
        unless_zero(r.stats.tpot_ms)
    }),
    metric("itl_ms_p50", "ITL p50", Unit::Ms, |r| r.itl(0.5)),
    metric("itl_ms_p95", "ITL p95", Unit::Ms, |r| r.itl(0.95)),
];
