//! The table of a cell: a row a metric, the primaries first.

use super::foot::Footnotes;
use super::{numbers, verdict};
use crate::compare::cell::Row;
use crate::compare::judge::Verdict;
use crate::compare::{Cell, Side};
use crate::show::{Format, grid, words};

/// Stands where there is no ratio.
const NONE: &str = "—";

/// The rows that have a figure, with what a footnote must say of them. A refused cell has neither
/// ratios nor verdicts.
pub(super) fn table(cell: &Cell, format: Format, notes: &mut Footnotes) -> String {
    let (base, candidate) = (column(&cell.base, cell), column(&cell.candidate, cell));
    let interval = numbers::level(&cell.rules);
    let mut header = vec!["metric", "unit", &base, &candidate];
    let comparable = cell.reasons.is_empty();
    if comparable {
        header.extend(["ratio", &interval, "verdict"]);
    }
    let shown = || cell.rows.iter().filter(|row| is_shown(row));
    let primaries = shown().filter(|row| row.primary);
    let rows = primaries.chain(shown().filter(|row| !row.primary));
    let rows = rows.map(|row| line(row, cell, comparable, notes)).collect();
    grid(format, "llrrrll", &header, rows)
}

/// What neither side has stands in one line under the table, unless sides are judged by it.
pub(super) fn is_shown(row: &Row) -> bool {
    row.primary || row.base.value.is_some() || row.candidate.value.is_some()
}

fn line(row: &Row, cell: &Cell, comparable: bool, notes: &mut Footnotes) -> Vec<String> {
    let star = if row.primary { " *" } else { "" };
    let mut line = vec![
        format!("{}{star}", row.label),
        words::snake(&row.unit),
        numbers::figure(&row.base, row.unit),
        numbers::figure(&row.candidate, row.unit),
    ];
    if !comparable {
        return line;
    }
    let (ratio, interval) = match (&row.effect, row.ratio) {
        (Some(effect), Some(ratio)) => numbers::effect(ratio, effect),
        (None, Some(ratio)) => (numbers::ratio(ratio), NONE.to_owned()),
        (_, None) => (NONE.to_owned(), NONE.to_owned()),
    };
    let note = notes.of(row, cell);
    let words = match &row.verdict {
        Some(verdict) => verdict::words(verdict, cell.rules.margin),
        None => "exploratory".to_owned(),
    };
    // The line under the table says why; a row of the table need not.
    let words = match &row.verdict {
        Some(Verdict::None { .. }) if !cell.withheld.is_empty() => "no verdict".to_owned(),
        _ => words,
    };
    line.extend([ratio, interval, format!("{words}{note}")]);
    line
}

/// What tells the two columns apart: names that the user gave, else the engine, else the mode, else
/// the arm, else the place.
pub(super) fn column(side: &Side, cell: &Cell) -> String {
    let (base, candidate) = (&cell.base, &cell.candidate);
    let named = base.name != candidate.name;
    if let Some(name) = side.name.as_ref().filter(|_| named) {
        return name.clone();
    }
    if base.engine != candidate.engine {
        return side.engine.clone();
    }
    if base.mode != candidate.mode {
        return words::snake(&side.mode);
    }
    if base.arm != candidate.arm && base.session_id == candidate.session_id {
        return format!("{}#{}", side.engine, side.arm);
    }
    let place = if side == base { "base" } else { "candidate" };
    format!("{} ({place})", side.engine)
}
