//! A comparison in words: per cell both sides' figures, what differs, and what it says.

use contracts::run::Mode;

use crate::compare::cell::{Figure, Row, Unit};
use crate::compare::{Cell, CellKind, Comparison, Side};
use crate::show::{Format, grid, pretty, words};

/// A comparison in a format. JSON is [`Comparison`] itself.
pub fn render(comparison: &Comparison, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return pretty(comparison);
    }
    let mut cells: Vec<String> = Vec::new();
    for cell in comparison.cells() {
        cells.push(render_cell(cell, format));
    }
    let mut text = cells.join("\n");
    let notes: Vec<String> = comparison
        .steps
        .iter()
        .flat_map(|s| s.notes.clone())
        .collect();
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&lines(format, &notes));
    }
    Ok(text)
}

fn render_cell(cell: &Cell, format: Format) -> String {
    let mut text = match format {
        Format::Markdown => format!("### {}\n\n", title(cell)),
        _ => format!("  {}\n", title(cell)),
    };
    text.push_str(&lines(format, &head(cell)));
    text.push('\n');
    text.push_str(&figures(cell, format));
    text.push('\n');
    text.push_str(&lines(format, &foot(cell)));
    match format {
        Format::Markdown => text.push_str(&format!("\n**{}**\n", cell.word)),
        _ => text.push_str(&format!("  {}\n", cell.word)),
    }
    let todos = cell.reasons.iter().map(|reason| &reason.todo);
    let mut seen: Vec<String> = Vec::new();
    for todo in todos {
        let line = format!("to compare: {todo}");
        if !seen.contains(&line) {
            seen.push(line);
        }
    }
    if format == Format::Markdown && !seen.is_empty() {
        text.push('\n');
    }
    text + &lines(format, &seen)
}

/// Lines two blanks in, or a Markdown list.
fn lines(format: Format, lines: &[String]) -> String {
    let mark = match format {
        Format::Markdown => "- ",
        _ => "  ",
    };
    lines.iter().map(|line| format!("{mark}{line}\n")).collect()
}

fn title(cell: &Cell) -> String {
    let (base, candidate) = (&cell.base, &cell.candidate);
    match cell.kind {
        CellKind::NetworkLayer => format!(
            "{}: {} against {}: the network and server layer, on {}",
            base.engine,
            words::snake(&candidate.mode),
            words::snake(&base.mode),
            cell.hostname
        ),
        CellKind::Engines if base.mode == candidate.mode => format!(
            "{} against {}, {}, on {}",
            candidate.engine,
            base.engine,
            words::snake(&base.mode),
            cell.hostname
        ),
        CellKind::Engines => format!(
            "{} against {}, on {}",
            name(candidate),
            name(base),
            cell.hostname
        ),
    }
}

fn name(side: &Side) -> String {
    format!("{} {}", side.engine, words::snake(&side.mode))
}

fn head(cell: &Cell) -> Vec<String> {
    let mut lines = vec![cell.workload.clone()];
    lines.push(format!("base:      {}", side(&cell.base)));
    lines.push(format!("candidate: {}", side(&cell.candidate)));
    for difference in &cell.differences {
        lines.push(format!(
            "differs: {}: {} | {}",
            difference.field, difference.base, difference.candidate
        ));
    }
    lines
}

fn side(side: &Side) -> String {
    let runs = match side.run_ids.as_slice() {
        [one] => format!("run {one}"),
        several => format!(
            "{} runs, the last {}",
            several.len(),
            several.last().map_or("", |id| id)
        ),
    };
    let build = side.build.as_deref().unwrap_or("not known");
    let failed = match side.failed_requests {
        0 => String::new(),
        n => format!(", {n} failed"),
    };
    format!(
        "{}, build {build}, {}, {runs}, {}{failed}",
        name(side),
        words::time(side.created_unix_ms),
        words::count(u64::from(side.requests), "request"),
    )
}

fn figures(cell: &Cell, format: Format) -> String {
    let rows = cell.rows.iter().filter(|row| !is_absent(row));
    let rows = rows.map(|row| {
        vec![
            row.label.clone(),
            figure(&row.base, row.unit),
            figure(&row.candidate, row.unit),
            row.ratio
                .map_or("—".to_owned(), |ratio| format!("{ratio:.3}")),
            row.difference
                .map_or("—".to_owned(), |d| difference(d, row.unit)),
        ]
    });
    let (base, candidate) = (column(&cell.base, cell), column(&cell.candidate, cell));
    let header = ["", &base, &candidate, "ratio", "difference"];
    grid(format, "lrrrr", &header, rows.collect())
}

/// What tells the two columns apart: the engine, else the mode, else the arm, else the place.
fn column(side: &Side, cell: &Cell) -> String {
    let (base, candidate) = (&cell.base, &cell.candidate);
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

/// Percentiles that neither side has enough requests for stand in one line under the figures.
fn is_absent(row: &Row) -> bool {
    row.base.value.is_none() && row.candidate.value.is_none()
}

fn figure(figure: &Figure, unit: Unit) -> String {
    match (figure.value, &figure.missing) {
        (Some(value), _) => match unit {
            Unit::ReqPerS => format!("{value:.2}"),
            Unit::TokPerS => format!("{value:.1}"),
            Unit::Ms => format!("{value:.2}ms"),
            Unit::Tokens => format!("{value:.1}"),
        },
        (None, missing) => missing.clone().unwrap_or_default(),
    }
}

/// One decimal more than the figures have: small differences of large figures are what is looked for.
fn difference(difference: f64, unit: Unit) -> String {
    match unit {
        Unit::ReqPerS => signed(difference, 3),
        Unit::TokPerS | Unit::Tokens => signed(difference, 2),
        Unit::Ms => format!("{}ms", signed(difference, 3)),
    }
}

/// With its sign, and without one where it rounds to 0.
fn signed(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let zero = plain.bytes().all(|b| matches!(b, b'0' | b'.'));
    match (zero, value < 0.0) {
        (true, _) => plain,
        (false, true) => format!("−{plain}"),
        (false, false) => format!("+{plain}"),
    }
}

fn foot(cell: &Cell) -> Vec<String> {
    let mut lines = Vec::new();
    let absent: Vec<String> = cell
        .rows
        .iter()
        .filter(|row| is_absent(row))
        .map(|row| {
            let [base, candidate] = [&row.base, &row.candidate]
                .map(|figure| figure.missing.clone().unwrap_or_default());
            if base == candidate {
                format!("{} {base}", row.label)
            } else {
                format!("{} {base} | {candidate}", row.label)
            }
        })
        .collect();
    if !absent.is_empty() {
        lines.push(absent.join(", "));
    }
    for row in &cell.rows {
        lines.extend(row.note.iter().map(|note| format!("{}: {note}", row.label)));
    }
    lines.extend(judged_by(cell));
    if let Some(overhead) = &cell.overhead {
        let ms = |ms: Option<f64>| ms.map_or("n/a".to_owned(), |ms| difference(ms, Unit::Ms));
        lines.push(format!(
            "online − offline, each request: {} (medians), {} (means)",
            ms(overhead.median_ms),
            ms(overhead.mean_ms)
        ));
    }
    lines.push(cell.outputs.line.clone());
    if let Some(at) = &cell.outputs.first_difference {
        lines.push(format!(
            "first difference: request {}, {}: {} | {}",
            at.request,
            at.place(),
            at.base,
            at.candidate
        ));
        if let (Some(base), Some(candidate)) = (&at.base_text, &at.candidate_text) {
            let [base, candidate] = [base, candidate].map(|t| words::excerpt(t, usize::MAX));
            lines.push(format!("in words: \"{base}\" | \"{candidate}\""));
        }
    }
    lines.extend(cell.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// Online there are many figures; the first look is for these.
fn judged_by(cell: &Cell) -> Option<String> {
    let online = [&cell.base, &cell.candidate].map(|side| side.mode == Mode::Online);
    let both = |row: &&Row| row.base.value.is_some() && row.candidate.value.is_some();
    let primary = cell.rows.iter().filter(|row| row.primary).filter(both);
    let labels: Vec<&str> = primary.map(|row| row.label.as_str()).collect();
    let shown = online == [true, true] && !labels.is_empty();
    shown.then(|| format!("judged by {}; all else is to look at", labels.join(", ")))
}

#[cfg(test)]
mod tests;
