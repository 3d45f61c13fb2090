//! What the runs say of each row: the primaries as one family, all else without a verdict.
//!
//! Which rows are shown changes nothing here: a family that could be made smaller after a look at the
//! figures would find more in them.

use super::{Row, Run, Terms, WithinPair};
use crate::compare::judge::{self, Better, Effect, Question, Verdict};
use crate::stats::hodges_lehmann::hodges_lehmann;

/// Most requests of a run for which [`WithinPair`] is computed: it looks at each pair of requests, and
/// with more of them its interval says ever more precisely what holds of two runs alone.
const WITHIN_PAIR_REQUESTS: usize = 1000;
/// Of the interval of [`WithinPair`].
const WITHIN_PAIR_CONFIDENCE: f64 = 0.95;

/// Gives the rows of comparable sides their effects, and the primaries among them their verdicts.
pub(super) fn judge_rows(
    rows: &mut [Row],
    base: &[Run<'_>],
    candidate: &[Run<'_>],
    terms: &Terms<'_>,
) {
    let family: Vec<usize> = (0..rows.len())
        .filter(|i| {
            rows.get(*i)
                .is_some_and(|row| row.primary && row.ratio.is_some())
        })
        .collect();
    let values: Vec<Values> = family
        .iter()
        .filter_map(|i| Values::of(rows.get(*i)?, terms))
        .collect();
    let questions: Vec<Question<'_>> = values.iter().map(|v| v.question(terms)).collect();
    let judgements = judge::judge(&questions, &terms.rules);
    for (i, judgement) in family.iter().zip(judgements) {
        if let Some(row) = rows.get_mut(*i) {
            row.effect = judgement.effect;
            row.verdict = Some(judgement.verdict);
        }
    }
    for row in rows.iter_mut() {
        if row.primary {
            row.verdict = Some(verdict(row, terms));
        } else if row.ratio.is_some() {
            row.effect = exploratory(row, terms);
        }
    }
    if let ([base], [candidate]) = (base, candidate) {
        within_pair(rows, base, candidate);
    }
}

/// The verdict of a primary row, or why it has none.
fn verdict(row: &mut Row, terms: &Terms<'_>) -> Verdict {
    let none = |why: &str| Verdict::None {
        why: why.to_owned(),
    };
    if let Some(why) = terms.withheld {
        return none(why);
    }
    let missing = row
        .base
        .missing
        .as_deref()
        .or(row.candidate.missing.as_deref());
    match row.verdict.take() {
        Some(verdict) => verdict,
        None => none(row.note.as_deref().or(missing).unwrap_or("no ratio")),
    }
}

/// A ratio with its interval, outside of any family.
fn exploratory(row: &Row, terms: &Terms<'_>) -> Option<Effect> {
    let values = Values::of(row, terms)?;
    let judgement = judge::judge(&[values.question(terms)], &terms.rules).pop()?;
    Some(Effect {
        p_holm: None,
        ..judgement.effect?
    })
}

/// The wall time's requests of one run against those of another.
fn within_pair(rows: &mut [Row], base: &Run<'_>, candidate: &Run<'_>) {
    let (base, candidate) = (base.walls_ms, candidate.walls_ms);
    if base.len().max(candidate.len()) > WITHIN_PAIR_REQUESTS {
        return;
    }
    if let Some(row) = rows.iter_mut().find(|row| row.metric == "wall_ms_p50")
        && row.ratio.is_some()
    {
        let pair = hodges_lehmann(base, candidate, WITHIN_PAIR_CONFIDENCE).ok();
        row.within_pair = pair.map(|pair| WithinPair {
            ratio: pair.ratio,
            interval: pair.interval,
        });
    }
}

/// A row's values without their runs.
struct Values {
    base: Vec<f64>,
    candidate: Vec<f64>,
    better: Better,
    floor: Option<judge::Floor>,
}

impl Values {
    fn of(row: &Row, terms: &Terms<'_>) -> Option<Self> {
        row.ratio?;
        Some(Self {
            base: row.base_runs.iter().map(|run| run.value).collect(),
            candidate: row.candidate_runs.iter().map(|run| run.value).collect(),
            // Where neither direction is good there is no verdict that would need one.
            better: row.better.unwrap_or(Better::Lower),
            floor: (terms.floor)(&row.metric),
        })
    }

    fn question(&self, terms: &Terms<'_>) -> Question<'_> {
        Question {
            base: &self.base,
            candidate: &self.candidate,
            design: terms.design,
            better: self.better,
            floor: self.floor,
        }
    }
}
