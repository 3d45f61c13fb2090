//! What stands under a cell's table: numbered footnotes of its rows, then what holds for the whole cell.

use super::{figures, numbers};
use crate::compare::Cell;
use crate::compare::cell::Row;
use crate::compare::judge::Verdict;
use crate::compare::outputs::FirstDifference;
use crate::compare::overhead::{Cost, Overhead};
use crate::compare::provenance::{Build, Provenance};
use crate::show::words;

/// The numbered footnotes, in the order of their marks.
#[derive(Debug, Default)]
pub(super) struct Footnotes(Vec<String>);

impl Footnotes {
    /// The marks of a row, after a blank; empty where there is nothing to say of it.
    pub fn of(&mut self, row: &Row, cell: &Cell) -> String {
        let marks: String = of_row(row, cell)
            .into_iter()
            .map(|note| self.mark(note))
            .collect::<Vec<String>>()
            .join(" ");
        if marks.is_empty() {
            marks
        } else {
            format!(" {marks}")
        }
    }

    /// The mark of a note; the same note has the same mark.
    fn mark(&mut self, note: String) -> String {
        let place = self.0.iter().position(|known| *known == note);
        let place = place.unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        superscript(place + 1)
    }
}

/// `¹`, `¹²`.
fn superscript(n: usize) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let of = |c: char| digits.get(c.to_digit(10)? as usize);
    n.to_string().chars().filter_map(of).collect()
}

fn of_row(row: &Row, cell: &Cell) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(note) = &row.note {
        notes.push(note.clone());
    }
    if let Some(Verdict::NoDifferenceShown {
        only_holm: true, ..
    }) = &row.verdict
    {
        let has_p = |row: &&Row| row.effect.as_ref().is_some_and(|e| e.p_holm.is_some());
        notes.push(format!(
            "the interval excludes 1 and only Holm's correction for {} primary metrics stands against a verdict",
            cell.primaries().filter(has_p).count()
        ));
    }
    if let Some(pair) = &row.within_pair {
        notes.push(format!(
            "request by request {} {}, within this pair of runs: it says nothing of other runs",
            numbers::ratio(pair.ratio),
            numbers::interval(pair.interval)
        ));
    }
    notes
}

/// All lines under the table, the numbered ones first.
pub(super) fn lines(cell: &Cell, notes: Footnotes) -> Vec<String> {
    let numbered = (1..).zip(notes.0);
    let mut lines: Vec<String> = numbered
        .map(|(n, note)| format!("{} {note}", superscript(n)))
        .collect();
    lines.extend(hidden(cell));
    lines.extend(permutation(cell));
    lines.extend(not_shown(cell));
    if let Some(overhead) = &cell.overhead {
        lines.push(layer(overhead));
    }
    for excluded in &cell.excluded {
        lines.push(format!(
            "excluded: the {}'s run {} of block {}: {}",
            excluded.side, excluded.run_id, excluded.block, excluded.why
        ));
    }
    lines.push(cell.outputs.line.clone());
    lines.extend(
        cell.outputs
            .first_difference
            .iter()
            .flat_map(first_difference),
    );
    lines.extend(cell.notes.iter().map(|note| format!("note: {note}")));
    lines.push(provenance(&cell.provenance, cell));
    lines
}

/// What the layer costs, by two averages; why neither has an interval is said once.
fn layer(of: &Overhead) -> String {
    let what = "online − offline, each request:";
    let (median, mean) = (&of.median, &of.mean);
    match &median.missing {
        Some(why) if mean.missing == median.missing => format!(
            "{what} {} (medians), {} (means); {why}",
            milliseconds(median),
            milliseconds(mean)
        ),
        _ => format!("{what} {} (medians), {} (means)", cost(median), cost(mean)),
    }
}

fn milliseconds(cost: &Cost) -> String {
    cost.ms.map_or("n/a".to_owned(), numbers::signed_ms)
}

/// `+0.625ms [+0.411ms, +0.839ms]`, or why it has no interval.
fn cost(cost: &Cost) -> String {
    let ms = milliseconds(cost);
    match (cost.interval_ms, &cost.missing) {
        (Some((low, high)), _) => {
            let [low, high] = [low, high].map(numbers::signed_ms);
            format!("{ms} [{low}, {high}]")
        }
        (None, Some(missing)) => format!("{ms}, {missing}"),
        (None, None) => ms,
    }
}

/// What was asked not to be shown is in the words and in the exit code all the same.
fn hidden(cell: &Cell) -> Option<String> {
    let hidden = cell.hidden.iter().filter(|row| row.primary);
    let hidden: Vec<&str> = hidden.map(|row| row.label.as_str()).collect();
    (!hidden.is_empty()).then(|| {
        format!(
            "judged together with {}, not shown here",
            hidden.join(" and ")
        )
    })
}

/// Printed, and decides nothing.
fn permutation(cell: &Cell) -> Option<String> {
    let of = |row: &Row| {
        let p = row.effect.as_ref()?.permutation_p?;
        Some(format!("{} {}", row.label, numbers::p(p)))
    };
    let primaries = cell.rows.iter().filter(|row| row.primary);
    let all: Vec<String> = primaries.filter_map(of).collect();
    (!all.is_empty()).then(|| format!("permutation p, which decides nothing: {}", all.join(", ")))
}

/// Percentiles for which neither side has the requests.
fn not_shown(cell: &Cell) -> Option<String> {
    let absent = cell.rows.iter().filter(|row| !figures::is_shown(row));
    let absent: Vec<String> = absent
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
    (!absent.is_empty()).then(|| absent.join(", "))
}

/// Texts are of whatever server answered: on one line, and without what would move a terminal.
fn first_difference(at: &FirstDifference) -> Vec<String> {
    let plain = |text: &String| words::excerpt(text, usize::MAX);
    let mut lines = vec![format!(
        "first difference: request {}, {}: {} | {}",
        at.request,
        at.place(),
        plain(&at.base),
        plain(&at.candidate)
    )];
    if let (Some(base), Some(candidate)) = (&at.base_text, &at.candidate_text) {
        let [base, candidate] = [base, candidate].map(plain);
        lines.push(format!("in words: \"{base}\" | \"{candidate}\""));
    }
    lines
}

/// In one line what JSON has in full.
fn provenance(of: &Provenance, cell: &Cell) -> String {
    let known = |text: Option<&str>| {
        let text = text.filter(|text| !text.is_empty());
        words::short_hash(text.unwrap_or("not known"))
    };
    let method = cell
        .rows
        .iter()
        .find_map(|row| Some(row.effect.as_ref()?.method));
    let seeds: Vec<String> = of
        .sessions
        .iter()
        .map(|s| s.order_seed.to_string())
        .collect();
    let mut parts = vec![
        builds(&of.base, &of.candidate),
        format!("model {}", known(of.model_sha256.as_deref())),
        format!("host {}", words::short_hash(&of.host_fingerprint)),
        format!("agent {}", of.agent_builds.join(" and ")),
        format!("controller {}", of.controller_builds.join(" and ")),
        format!(
            "seeds {} (sampling), {} (order)",
            of.sampling_seed,
            seeds.join(" and ")
        ),
        format!("alpha {}", of.rules.alpha),
        format!("definition {}", known(of.definition.as_deref())),
    ];
    parts.extend(method.map(str::to_owned));
    format!("rests on: {}", parts.join("; "))
}

fn builds(base: &Build, candidate: &Build) -> String {
    if base == candidate {
        return format!("build {} on both sides", build(base));
    }
    format!("builds {} | {}", build(base), build(candidate))
}

fn build(build: &Build) -> String {
    let name = build.engine_build.as_deref().unwrap_or("not known");
    let more = [
        build.profile.clone(),
        build.binary_sha256.as_deref().map(words::short_hash),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    if more.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({})", more.join(", "))
    }
}
