//! A comparison in words: per cell both sides' figures, their ratio, the verdict, and what it rests on.
//!
//! `head` is what stands above the table, `figures` the table, `foot` what stands below it,
//! `steps` more than two sides together. `numbers` makes the text of every number and `verdict` the
//! words, for text and Markdown alike; JSON is [`Comparison`] itself.

mod figures;
mod foot;
mod head;
mod numbers;
mod steps;
pub(crate) mod verdict;

use crate::compare::{Cell, Comparison};
use crate::show::{Format, pretty};

/// A comparison in a format.
pub fn render(comparison: &Comparison, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return pretty(comparison);
    }
    let cells = comparison.cells();
    let cells: Vec<String> = cells
        .map(|cell| render_cell(cell, comparison.compared_unix_ms, format))
        .collect();
    let mut text = cells.join("\n");
    if comparison.steps.len() > 1 {
        text.push('\n');
        text.push_str(&steps::render(comparison, format));
    }
    let notes = comparison.steps.iter().flat_map(|step| step.notes.clone());
    let notes: Vec<String> = notes.collect();
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&lines(format, &notes));
    }
    Ok(text)
}

fn render_cell(cell: &Cell, now_unix_ms: i64, format: Format) -> String {
    let mut notes = foot::Footnotes::default();
    let table = figures::table(cell, format, &mut notes);
    let title = head::title(cell);
    let mut text = match format {
        Format::Markdown => format!("### {title}\n\n"),
        _ => format!("  {title}\n"),
    };
    text.push_str(&lines(format, &head::lines(cell, now_unix_ms)));
    text.push('\n');
    text.push_str(&table);
    text.push('\n');
    match format {
        // A star of the words would end the bold type early.
        Format::Markdown => {
            text.push_str(&format!("**{}**\n\n", cell.word.replace('*', r"\*")));
        }
        _ => text.push_str(&format!("  {}\n", cell.word)),
    }
    text.push_str(&lines(format, &todos(cell)));
    text + &lines(format, &foot::lines(cell, notes))
}

/// What to run to make a refused cell comparable, each once.
fn todos(cell: &Cell) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for reason in &cell.reasons {
        let line = format!("to compare: {}", reason.todo);
        if !seen.contains(&line) {
            seen.push(line);
        }
    }
    seen
}

/// Lines two blanks in, or a Markdown list.
fn lines(format: Format, lines: &[String]) -> String {
    let mark = match format {
        Format::Markdown => "- ",
        _ => "  ",
    };
    lines.iter().map(|line| format!("{mark}{line}\n")).collect()
}

#[cfg(test)]
mod tests;
