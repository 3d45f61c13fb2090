//! The curve of a sweep: what each load came to, where the knee is, goodput as a plot. Which loads
//! are tried and where the knee lies is the plan's to decide.

use contracts::run::{Load, Soundness};
use serde::Serialize;

use crate::compare::work;
use crate::record::RunWithSamples;
use crate::show::{Format, grid, validity};
use crate::stats::bench::measured;
use crate::stats::goodput::{Goodput, goodput, wall_from_due_ms};
use crate::stats::online::sending_rate;
use crate::stats::quantile::percentile;
use crate::stats::window::Shape;

/// One load of a sweep and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Its run.
    pub run_id: String,
    /// What was offered.
    pub load: Load,
    /// Open loop: measured requests a second that were sent, while they were being sent.
    pub sent_per_s: Option<f64>,
    /// Requests completed in the window, per second.
    pub req_per_s: Option<f64>,
    /// Output tokens of those.
    pub tok_per_s: Option<f64>,
    /// Where the run has an objective.
    pub goodput: Option<Goodput>,
    /// Medians of the measured requests, where they are enough.
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
            percentile(&values, 0.5).value()
        };
        let slo = status.spec.slo.as_ref();
        Self {
            run_id: run.run.run_id.clone(),
            load: status.spec.workload.load.clone(),
            sent_per_s: sending_rate(&run.samples).filter(|_| shape.open_loop),
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

/// The curve as text or Markdown, in the order given; `knee` is the index of the point with the highest load that still
/// pays.
pub fn render(points: &[SweepPoint], knee: Option<usize>, format: Format) -> String {
    let rows = points.iter().enumerate();
    let rows: Vec<_> = rows.map(|(i, point)| row(point, Some(i) == knee)).collect();
    let table = table(rows, format);
    let plot = plot(points, knee);
    match format {
        _ if plot.is_empty() => table,
        Format::Markdown => format!("{table}\n```\n{plot}```\n"),
        Format::Text | Format::Json => format!("{table}\n{plot}"),
    }
}

/// The rows under their header, without the columns that no load has a figure for.
fn table(mut rows: Vec<Vec<String>>, format: Format) -> String {
    let has = |i: usize| {
        rows.iter()
            .any(|row| row.get(i).is_some_and(|cell| cell != NONE))
    };
    let kept: Vec<bool> = (0..HEADER.len()).map(has).collect();
    for row in &mut rows {
        let mut kept = kept.iter();
        row.retain(|_| kept.next() == Some(&true));
    }
    let columns = HEADER.iter().zip("lrrrrrrrll".chars()).zip(&kept);
    let columns = columns.filter_map(|(column, kept)| kept.then_some(column));
    let (header, align): (Vec<&str>, String) = columns.unzip();
    grid(format, &align, &header, rows)
}

/// What was not measured.
const NONE: &str = "—";

/// Characters of the longest bar.
const BAR_WIDTH: f64 = 40.0;

/// A bar a load: goodput, or requests completed where there is no objective. Nothing of nothing.
fn plot(points: &[SweepPoint], knee: Option<usize>) -> String {
    let has_goodput = points.iter().any(|point| point.goodput.is_some());
    let height = |point: &SweepPoint| {
        let per_s = if has_goodput {
            point.goodput.map(|goodput| goodput.per_s)
        } else {
            point.req_per_s
        };
        per_s.unwrap_or(0.0)
    };
    let highest = points.iter().map(height).fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let loads: Vec<String> = points.iter().map(|point| work::load(&point.load)).collect();
    let width = loads
        .iter()
        .map(|load| load.chars().count())
        .max()
        .unwrap_or(0);
    let heading = if has_goodput { "goodput/s" } else { "req/s" };
    let mut plot = format!("  {heading}\n");
    for (i, (point, load)) in points.iter().zip(&loads).enumerate() {
        let per_s = height(point);
        let bar = "█".repeat((per_s / highest * BAR_WIDTH).round() as usize);
        let mark = if Some(i) == knee { "  ← knee" } else { "" };
        plot.push_str(&format!("  {load:<width$}  {bar} {per_s:.2}{mark}\n"));
    }
    plot
}

fn row(point: &SweepPoint, is_knee: bool) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or(NONE.to_owned(), |v| format!("{v:.2}"));
    let ms = |value: Option<f64>| value.map_or(NONE.to_owned(), |v| format!("{v:.2}ms"));
    vec![
        work::load(&point.load),
        number(point.sent_per_s),
        number(point.req_per_s),
        number(point.tok_per_s),
        number(point.goodput.map(|g| g.per_s)),
        ms(point.ttft_p50_ms),
        ms(point.tpot_p50_ms),
        ms(point.wall_p50_ms),
        validity::word(point.verdict).to_owned(),
        if is_knee { "← knee" } else { "" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use contracts::run::{Mode, Slo};

    use super::*;
    use crate::fixtures;

    /// A server that does one request in 100 ms: with eight slots each waits for seven others.
    fn point(slots: u32, slo: bool) -> SweepPoint {
        let mut run = fixtures::run(&format!("01R{slots}"), "ch02", Mode::Online);
        run.status.spec.workload.load = Load::Closed { concurrency: slots };
        if slo {
            run.status.spec.slo = Some(Slo {
                wall_ms: Some(500.0),
                ..Slo::default()
            });
        }
        if slots == 8 {
            run.status.validity.verdict = Soundness::ClientBound;
        }
        let samples = (0u32..40).map(|i| {
            let sent = u64::from((i + 1).saturating_sub(slots)) * 100;
            fixtures::sent(i, sent, u64::from(i) * 100 + 100)
        });
        SweepPoint::of(&fixtures::finish(run, samples.collect()))
    }

    #[test]
    fn the_curve_has_a_table_and_a_plot() {
        let points = [
            point(1, true),
            point(2, true),
            point(4, true),
            point(8, true),
        ];
        let text = render(&points, Some(2), Format::Text);
        insta::assert_snapshot!("sweep_text", text);
        let markdown = render(&points, Some(2), Format::Markdown);
        insta::assert_snapshot!("sweep_markdown", markdown);
    }

    #[test]
    fn without_an_objective_the_plot_is_of_requests() {
        let text = render(&[point(1, false)], None, Format::Text);
        assert!(text.contains("  req/s\n  1 at a time  ████"), "{text}");
        let nothing = render(&[], None, Format::Text);
        assert!(!nothing.contains('█'), "{nothing}");
    }
}
