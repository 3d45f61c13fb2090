//! A history: a line a run with its value as a dot, and between them the steps.

use contracts::SCHEMA;
use serde::Serialize;

use crate::compare::judge::Better;
use crate::history::{History, Point, Series, Step};
use crate::show::{Format, grid, pretty, words};
use crate::stats::changes::MIN_VALUES;

/// Columns of a terminal that nobody widened.
const WIDTH: usize = 80;

/// Columns of the place where dots stand.
const STRIP: usize = 26;

/// Columns of a build's name.
const BUILD: usize = 14;

/// JSON: `{"schema": 1, "series": […], "notes": […]}`.
pub fn render(history: &History, format: Format) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: u32,
        #[serde(flatten)]
        history: &'a History,
    }
    if format == Format::Json {
        return pretty(&Document {
            schema: SCHEMA,
            history,
        });
    }
    let mut text = String::new();
    for series in &history.series {
        text += &match format {
            Format::Markdown => markdown(series),
            _ => plain(series),
        };
        text.push('\n');
    }
    if history.series.is_empty() {
        text += "no run to show\n";
    }
    for note in &history.notes {
        text += &match format {
            Format::Markdown => format!("{note}\n\n"),
            _ => wrapped(note),
        };
    }
    Ok(text)
}

/// `ch09 online on bench-1, workload 3fa1c2d4e5f6`.
fn title(series: &Series) -> String {
    format!(
        "{} {} on {}, workload {}",
        series.engine,
        words::snake(&series.mode),
        series.hostname,
        words::excerpt(&series.workload_key, 12)
    )
}

/// `Tok/s of 24 runs, more is better; 2 steps`.
fn summary(series: &Series) -> String {
    let better = match series.better {
        Better::Higher => "more",
        Better::Lower => "less",
    };
    let steps = match series.steps.len() {
        // Where nobody looked, a note says so.
        0 if series.runs.len() < MIN_VALUES => String::new(),
        0 => "; no step".to_owned(),
        n => format!("; {}", words::count(n as u64, "step")),
    };
    let runs = words::count(series.runs.len() as u64, "run");
    format!("{} of {runs}, {better} is better{steps}", series.label)
}

/// Lines of at most [`WIDTH`] columns.
fn plain(series: &Series) -> String {
    let mut text =
        wrapped(&title(series)) + &wrapped(&series.workload) + &wrapped(&summary(series));
    text.extend(series.notes.iter().map(|note| wrapped(note)));
    text.push('\n');
    let mut lines = Vec::new();
    let scale = Scale::of(&series.runs);
    let unit = &words::snake(&series.unit);
    for (index, point) in series.runs.iter().enumerate() {
        if let Some(step) = series.steps.iter().find(|step| step.first == index) {
            lines.extend(step_lines(step, unit));
        }
        let build = point.build.as_deref().map_or("—", short_build);
        let build = words::excerpt(build, BUILD - 1);
        let time = words::time(point.created_unix_ms);
        let value = figure(point.value, unit);
        let strip = scale.strip(point);
        lines.push(format!("  {time}  {build:<BUILD$} {value:>13}  {strip}"));
    }
    text.extend(lines.iter().map(|line| cut(line) + "\n"));
    text
}

fn step_lines(step: &Step, unit: &str) -> [String; 2] {
    let rule = format!(
        "  ── {} · {} → {} · {} ",
        change(step),
        figure(step.before, unit),
        figure(step.after, unit),
        words::p_value(step.p)
    );
    let dashes = WIDTH.saturating_sub(rule.chars().count());
    [
        rule + &"─".repeat(dashes),
        format!("     {}, from run {}", builds(step), step.run_id),
    ]
}

/// `7.5 % faster`.
fn change(step: &Step) -> String {
    let word = if step.faster { "faster" } else { "slower" };
    format!("{:+.1} %, {word}", step.change * 100.0)
}

/// Where the build is the same, something else has changed.
fn builds(step: &Step) -> String {
    let name = |build: &Option<String>| {
        let build = build.as_deref().map_or("unknown", short_build);
        words::excerpt(build, BUILD)
    };
    let (before, after) = (name(&step.build_before), name(&step.build_after));
    if step.build_before == step.build_after && step.build_before.is_some() {
        format!("same build {after}")
    } else {
        format!("build {before} → {after}")
    }
}

/// The commit of `0.1.0+abc1234`; else the version.
fn short_build(build: &str) -> &str {
    build.split_once('+').map_or(build, |(_, commit)| commit)
}

/// All there is, in tables.
fn markdown(series: &Series) -> String {
    let unit = &words::snake(&series.unit);
    let mut text = format!(
        "### {}\n\n{}\n\n{}\n",
        title(series),
        series.workload,
        summary(series)
    );
    for note in &series.notes {
        text += &format!("\n{note}\n");
    }
    if !series.steps.is_empty() {
        let header = ["from", "change", "before", "after", "p", "build", "run"];
        let rows = series.steps.iter().map(|step| {
            vec![
                words::time(step.created_unix_ms),
                change(step),
                figure(step.before, unit),
                figure(step.after, unit),
                format!("{:.3}", step.p),
                builds(step),
                step.run_id.clone(),
            ]
        });
        text.push('\n');
        text += &grid(Format::Markdown, "llrrrll", &header, rows.collect());
    }
    let header = [
        "made",
        "run",
        "build",
        "agent",
        "label",
        series.label,
        "level",
    ];
    let rows = series.runs.iter().map(|point| {
        vec![
            words::time(point.created_unix_ms),
            point.run_id.clone(),
            point.build.clone().unwrap_or_default(),
            point.agent.clone(),
            point.label.clone().unwrap_or_default(),
            figure(point.value, unit),
            figure(point.level, unit),
        ]
    });
    text.push('\n');
    text + &grid(Format::Markdown, "lllllrr", &header, rows.collect())
}

fn figure(value: f64, unit: &str) -> String {
    format!("{value:.2} {unit}")
}

/// Two blanks in, broken between words.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "  " } else { " " });
            line.push_str(word);
        }
    }
    lines.iter().map(|line| cut(line) + "\n").collect()
}

/// A line that is too long ends in dots.
fn cut(line: &str) -> String {
    if line.chars().count() > WIDTH {
        return words::excerpt(line, WIDTH - 1);
    }
    line.trim_end().to_owned()
}

/// Which column a value stands in: the smallest of the series in the first, the largest in the last.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(points: &[Point]) -> Self {
        let values = points.iter().map(|point| point.value);
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values.fold((low, high), |(low, high), v| (low.min(v), high.max(v)));
        Self { low, high }
    }

    /// The level as a line, the value as a dot.
    fn strip(&self, point: &Point) -> String {
        let (dot, line) = (self.column(point.value), self.column(point.level));
        let mark = |column| match column {
            _ if column == dot => '●',
            _ if column == line => '│',
            _ => ' ',
        };
        (0..STRIP).map(mark).collect()
    }

    fn column(&self, value: f64) -> usize {
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share } else { 0.5 };
        (share * (STRIP - 1) as f64).round() as usize
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
