//! One run in full: its table, percentiles, where it came from, whether it can be believed, how
//! its child lived, and its requests if they are asked for.

use contracts::run::RunEvent;
use contracts::sample::Sample;
use serde::Serialize;

use crate::record::{RunRecord, RunWithSamples};
use crate::show::table::{footnotes, run_table, title};
use crate::show::{Format, figures, grid, pretty, words};
use crate::stats::online::Online;
use crate::stats::quantile::{PERCENTILES, Percentile, percentile};
use crate::stats::steadiness::Steadiness;

/// What the JSON of one run holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView<'a> {
    /// Version of this document.
    pub schema: u32,
    /// The run: spec, state, failure, provenance, validity, lifecycle, stats.
    pub run: &'a RunRecord,
    /// Percentiles of the wall time in ms.
    pub wall_ms_percentiles: Vec<NamedPercentile>,
    /// What the wall times of its requests, in order, say of each other; none of fewer than three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
    /// All figures of an online run, in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Online>,
    /// The lines under the table.
    pub footnotes: Vec<String>,
    /// Its story in order, without progress, where the run is shown alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<&'a [RunEvent]>,
    /// Every request, warm-up first, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<&'a [Sample]>,
}

/// A percentile with its name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedPercentile {
    /// `p50`, …
    pub name: &'static str,
    /// Its value and interval, or what it needs.
    pub percentile: Percentile,
}

/// Everything about `record` that its views show, computed from its requests, which are not kept.
pub fn view<'a>(record: &'a RunRecord, run: &RunWithSamples) -> RunView<'a> {
    let walls = record.stats.as_ref().map_or(&[][..], |s| &s.wall_times);
    RunView {
        schema: contracts::SCHEMA,
        run: record,
        wall_ms_percentiles: PERCENTILES
            .map(|(name, q)| NamedPercentile {
                name,
                percentile: percentile(walls, q),
            })
            .to_vec(),
        steadiness: Steadiness::of(walls).ok(),
        figures: Online::of(run),
        footnotes: footnotes(run)
            .iter()
            .map(|note| note.trim_start().to_owned())
            .collect(),
        events: None,
        samples: None,
    }
}

/// One run in a format; JSON is [`RunView`] with its events.
pub fn render(
    run: &RunWithSamples,
    events: &[RunEvent],
    with_samples: bool,
    format: Format,
) -> serde_json::Result<String> {
    let view = RunView {
        events: Some(events),
        samples: with_samples.then_some(run.samples.as_slice()),
        ..view(&run.run, run)
    };
    match format {
        Format::Json => pretty(&view),
        Format::Text => Ok(text(&view)),
        Format::Markdown => Ok(markdown(&view)),
    }
}

fn text(view: &RunView<'_>) -> String {
    let mut text = head(view);
    for (heading, rows) in sections(view) {
        text.push_str(&format!("\n  {heading}\n"));
        let width = rows.iter().map(|(name, _)| name.chars().count()).max();
        for (name, value) in &rows {
            text.push_str(&format!("    {name:<0$}  {value}\n", width.unwrap_or(0)));
        }
    }
    text.push_str(&log_tail(view, "\n  last output of the engine\n", "    "));
    if let Some(samples) = view.samples {
        text.push_str("\n  requests\n");
        text.push_str(&requests(samples, Format::Text));
    }
    text
}

/// A run as it is shown when it ends: its table, what stands under it, its figures.
pub fn head(view: &RunView<'_>) -> String {
    let mut text = run_table(view.run, view.figures.as_ref());
    for note in &view.footnotes {
        text.push_str(&format!("  {note}\n"));
    }
    if let Some(shown) = measured_figures(view) {
        let block = figures::text(shown, &view.run.status);
        text.push_str(&format!("\n{block}"));
    }
    text
}

/// A run that measured nothing has no figures to show.
fn measured_figures<'v>(view: &'v RunView<'_>) -> Option<&'v Online> {
    view.figures.as_ref().filter(|_| view.run.stats.is_some())
}

/// As [`head`], in Markdown.
pub fn markdown_head(view: &RunView<'_>) -> String {
    let mut text = format!(
        "### {}\n\n```\n{}```\n",
        title(view.run),
        run_table(view.run, view.figures.as_ref())
    );
    if !view.footnotes.is_empty() {
        text.push('\n');
    }
    for note in &view.footnotes {
        text.push_str(&format!("- {note}\n"));
    }
    if let Some(shown) = measured_figures(view) {
        let block = figures::markdown(shown, &view.run.status);
        text.push_str(&format!("\n{block}"));
    }
    text
}

fn markdown(view: &RunView<'_>) -> String {
    let mut text = markdown_head(view);
    for (heading, rows) in sections(view) {
        let rows = rows.into_iter().map(|(name, value)| vec![name, value]);
        let rows = grid(Format::Markdown, "ll", &[heading, ""], rows.collect());
        text.push_str(&format!("\n{rows}"));
    }
    let tail = log_tail(view, "\nLast output of the engine:\n\n```\n", "");
    if !tail.is_empty() {
        text.push_str(&format!("{tail}```\n"));
    }
    if let Some(samples) = view.samples {
        text.push_str(&format!("\n{}", requests(samples, Format::Markdown)));
    }
    text
}

type Section = (&'static str, Vec<(String, String)>);

fn sections(view: &RunView<'_>) -> Vec<Section> {
    let percentiles = view.wall_ms_percentiles.iter().map(|p| {
        let value = match p.percentile {
            Percentile::Known { value, low, high } => {
                format!("{value:.2}ms (95 % interval {low:.2}ms … {high:.2}ms)")
            }
            Percentile::Pooled { value } => format!("{value:.2}ms"),
            Percentile::TooFew { needs, has } => words::too_few(needs, has),
        };
        (p.name.to_owned(), value)
    });
    let server = view.run.server_report.as_ref();
    let server = server.map(|stored| ("server", super::doctor::rows(stored)));
    let mut wall_time: Vec<(String, String)> = percentiles.collect();
    wall_time.extend(view.steadiness.iter().flat_map(super::steadiness::rows));
    let mut sections = vec![
        ("wall time", wall_time),
        ("run", super::detail::identity(view.run)),
        ("workload", super::detail::workload(view.run)),
        ("provenance", super::detail::provenance(view.run)),
        ("validity", super::validity::rows(view.run)),
        ("lifecycle", super::detail::lifecycle(view.run)),
    ];
    sections.extend(server);
    sections
}

fn log_tail(view: &RunView<'_>, heading: &str, indent: &str) -> String {
    let tail = match &view.run.status.failure {
        Some(failure) if !failure.log_tail.is_empty() => &failure.log_tail,
        _ => return String::new(),
    };
    let lines = tail.iter().map(|line| format!("{indent}{line}\n"));
    format!("{heading}{}", lines.collect::<String>())
}

const REQUESTS: [&str; 8] = [
    "phase", "request", "wall", "TTFT", "TPOT", "tokens", "finish", "error",
];

fn requests(samples: &[Sample], format: Format) -> String {
    let rows = samples.iter().map(|sample| {
        let ms = |ms: Option<f64>| ms.map_or("—".to_owned(), |ms| format!("{ms:.2}ms"));
        let error = sample.error.as_ref();
        vec![
            if sample.warmup { "warm-up" } else { "measured" }.to_owned(),
            sample.index.to_string(),
            ms(sample.wall_ms),
            ms(sample.ttft_ms),
            ms(sample.tpot_ms),
            sample
                .output_tokens
                .map_or("—".to_owned(), |n| n.to_string()),
            sample
                .finish_reason
                .map_or("—".to_owned(), |f| words::snake(&f)),
            error.map_or(String::new(), |e| {
                format!("{}: {}", words::snake(&e.class), e.message)
            }),
        ]
    });
    grid(format, "lrrrrrll", &REQUESTS, rows.collect())
}

#[cfg(test)]
mod tests;
