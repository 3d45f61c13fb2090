//! The curve of a sweep: what each load came to, where the knee is, goodput as a plot.

use contracts::run::{Load, Soundness};
use serde::Serialize;

use crate::compare::work;
use crate::record::RunWithSamples;
use crate::show::{Format, grid, pretty, words};
use crate::stats::bench::measured;
use crate::stats::goodput::{Goodput, goodput, wall_from_due_ms};
use crate::stats::quantile::quantile;
use crate::stats::window::{Shape, window};

/// One load of a sweep and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Its run.
    pub run_id: String,
    /// What was offered.
    pub load: Load,
    /// Measured requests that were sent, over the window.
    pub sent_per_s: Option<f64>,
    /// Requests completed in the window, per second.
    pub req_per_s: Option<f64>,
    /// Output tokens of those.
    pub tok_per_s: Option<f64>,
    /// Where the run has an objective.
    pub goodput: Option<Goodput>,
    /// Medians of the measured requests, however few they are.
    pub ttft_p50_ms: Option<f64>,
    /// See `ttft_p50_ms`.
    pub tpot_p50_ms: Option<f64>,
    /// See `ttft_p50_ms`; from due in an open loop, else from sent.
    pub wall_p50_ms: Option<f64>,
    /// Whether the run can be believed.
    pub verdict: Soundness,
}

impl SweepPoint {
    /// What a run of a sweep came to.
    pub fn of(run: &RunWithSamples) -> Self {
        let status = &run.run.status;
        let shape = Shape::of(status);
        let stats = run.run.stats.as_ref();
        let median = |column: &dyn Fn(&contracts::sample::Sample) -> Option<f64>| {
            let values: Vec<f64> = measured(&run.samples).filter_map(column).collect();
            quantile(&values, 0.5)
        };
        let slo = status.spec.slo.as_ref();
        Self {
            run_id: run.run.run_id.clone(),
            load: status.spec.workload.load.clone(),
            sent_per_s: window(&run.samples, &shape).map(|window| {
                let sent = run
                    .samples
                    .iter()
                    .filter(|s| !s.warmup && s.sent_ns.is_some());
                sent.count() as f64 / window.seconds()
            }),
            req_per_s: stats.map(|s| s.req_per_s),
            tok_per_s: stats.map(|s| s.tok_per_s),
            goodput: slo.map(|slo| goodput(&run.samples, slo, &shape)),
            ttft_p50_ms: median(&|s| s.ttft_ms),
            tpot_p50_ms: median(&|s| s.tpot_ms),
            wall_p50_ms: if shape.open_loop {
                median(&wall_from_due_ms)
            } else {
                median(&|s| s.wall_ms)
            },
            verdict: status.validity.verdict,
        }
    }
}

/// What the JSON of a sweep holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct SweepView<'a> {
    schema: u32,
    points: &'a [SweepPoint],
    /// Index of the knee's point.
    knee: Option<usize>,
}

const HEADER: [&str; 10] = [
    "load",
    "sent/s",
    "req/s",
    "tok/s",
    "goodput/s",
    "TTFT p50",
    "TPOT p50",
    "wall p50",
    "verdict",
    "",
];

/// The curve in the order given; `knee` is the index of the point with the highest load that still
/// pays.
pub fn render(
    points: &[SweepPoint],
    knee: Option<usize>,
    format: Format,
) -> serde_json::Result<String> {
    if format == Format::Json {
        return pretty(&SweepView {
            schema: contracts::SCHEMA,
            points,
            knee,
        });
    }
    let rows = points
        .iter()
        .enumerate()
        .map(|(i, point)| row(point, Some(i) == knee));
    Ok(grid(format, "lrrrrrrrll", &HEADER, rows.collect()))
}

fn row(point: &SweepPoint, is_knee: bool) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or("—".to_owned(), |v| format!("{v:.2}"));
    let ms = |value: Option<f64>| value.map_or("—".to_owned(), |v| format!("{v:.2}ms"));
    vec![
        work::load(&point.load),
        number(point.sent_per_s),
        number(point.req_per_s),
        number(point.tok_per_s),
        number(point.goodput.map(|g| g.per_s)),
        ms(point.ttft_p50_ms),
        ms(point.tpot_p50_ms),
        ms(point.wall_p50_ms),
        words::snake(&point.verdict),
        if is_knee { "← knee" } else { "" }.to_owned(),
    ]
}
