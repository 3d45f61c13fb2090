//! What stands under a cell's table: numbered footnotes of its rows, then what holds for the whole cell.

use super::{figures, numbers};
use crate::compare::Cell;
use crate::compare::cell::Row;
use crate::compare::judge::Verdict;
use crate::compare::outputs::FirstDifference;
use crate::compare::provenance::{Build, Provenance};
use crate::show::words;

/// Digits of a hash that are shown.
const HASH_SHOWN: usize = 12;

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
    match &row.verdict {
        Some(Verdict::NoDifferenceShown {
            only_holm: true, ..
        }) => notes.push(format!(
            "the interval excludes 1 and only Holm's correction for {} primary metrics stands against a verdict",
            cell.overall.primary
        )),
        _ => {}
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
        let of = |ms: Option<f64>, interval: Option<(f64, f64)>| {
            let ms = ms.map_or("n/a".to_owned(), numbers::signed_ms);
            let interval = interval.map(|(low, high)| {
                let [low, high] = [low, high].map(numbers::signed_ms);
                format!(" [{low}, {high}]")
            });
            format!("{ms}{}", interval.unwrap_or_default())
        };
        lines.push(format!(
            "online − offline, each request: {} (medians), {} (means)",
            of(overhead.median_ms, overhead.median_interval_ms),
            of(overhead.mean_ms, overhead.mean_interval_ms)
        ));
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

fn first_difference(at: &FirstDifference) -> Vec<String> {
    let mut lines = vec![format!(
        "first difference: request {}, {}: {} | {}",
        at.request,
        at.place(),
        at.base,
        at.candidate
    )];
    if let (Some(base), Some(candidate)) = (&at.base_text, &at.candidate_text) {
        let [base, candidate] = [base, candidate].map(|t| words::excerpt(t, usize::MAX));
        lines.push(format!("in words: \"{base}\" | \"{candidate}\""));
    }
    lines
}

/// In one line what JSON has in full.
fn provenance(of: &Provenance, cell: &Cell) -> String {
    let known = |text: Option<&str>| {
        let text = text.filter(|text| !text.is_empty());
        short(text.unwrap_or("not known"))
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
        format!("builds {} | {}", build(&of.base), build(&of.candidate)),
        format!("model {}", known(of.model_sha256.as_deref())),
        format!("host {}", short(&of.host_fingerprint)),
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

fn build(build: &Build) -> String {
    let name = build.engine_build.as_deref().unwrap_or("not known");
    let more = [
        build.profile.clone(),
        build.binary_sha256.as_deref().map(short),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    if more.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({})", more.join(", "))
    }
}

fn short(hash: &str) -> String {
    hash.chars().take(HASH_SHOWN).collect()
}
