//! Whether two sides gave the same answers: the benchmark is the test.
//!
//! Greedy answers are compared request by request, by token ids where both sides have them, else by
//! text. The base's engine says how many leading steps had no near tie between its two best tokens
//! (`firm_steps`): up to there tokens must agree, what follows is not judged. Whether a firm
//! difference forbids the comparison is [`super::lint::must_agree`]'s question.

use std::collections::BTreeMap;

use contracts::sample::Sample;
use serde::Serialize;

use crate::compare::Measured;
use crate::show::words;
use crate::stats::bench::measured;

/// Tokens or characters shown on either side of the first difference.
const SHOWN_BEFORE: usize = 12;
/// Tokens or characters shown from the first difference on.
const SHOWN_AFTER: usize = 24;

/// How the answers of two sides agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outputs {
    /// Requests that both sides answered.
    pub compared: u32,
    /// The same answer.
    pub identical: u32,
    /// They part at or after a near tie of the base: not judged.
    pub near_tie: u32,
    /// They part at a firm step of the base.
    pub parted: u32,
    /// They differ, and nobody can say how firm the step was.
    pub unjudged: u32,
    /// The first request whose answers differ, a firm one if there is one.
    pub first_difference: Option<FirstDifference>,
    /// All that in one line.
    pub line: String,
}

/// Where two answers part, and what they say there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    /// Index of the request.
    pub request: u32,
    /// From 0, in tokens or characters.
    pub position: usize,
    /// What `position` counts.
    pub unit: Unit,
    /// The base's answer around that place.
    pub base: String,
    /// The candidate's.
    pub candidate: String,
    /// The base's text around the first character that differs, where `unit` is tokens.
    pub base_text: Option<String>,
    /// The candidate's.
    pub candidate_text: Option<String>,
}

impl FirstDifference {
    /// `token 12`, `character 80`.
    pub fn place(&self) -> String {
        format!("{} {}", words::snake(&self.unit), self.position)
    }
}

/// What answers are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Token ids.
    Token,
    /// Characters of the text.
    Character,
}

enum Match {
    Identical,
    NearTie(FirstDifference),
    Parted(FirstDifference),
    Unjudged(FirstDifference),
}

/// Compares the answers of two sides, run by run in their order, request by request.
pub fn judge(base: &[Measured<'_>], candidate: &[Measured<'_>]) -> Outputs {
    let mut outputs = Outputs {
        compared: 0,
        identical: 0,
        near_tie: 0,
        parted: 0,
        unjudged: 0,
        first_difference: None,
        line: String::new(),
    };
    let mut runs = base.iter().chain(candidate);
    if !runs.all(|run| run.run.status.spec.workload.sampling.is_greedy()) {
        outputs.line = "outputs not judged: sampling is not greedy".to_owned();
        return outputs;
    }
    let mut firm_first = None;
    let mut other_first = None;
    for (base, candidate) in base.iter().zip(candidate) {
        let by_index: BTreeMap<u32, &Sample> =
            measured(candidate.samples).map(|s| (s.index, s)).collect();
        for sample in measured(base.samples) {
            let Some(answer) = by_index.get(&sample.index).and_then(|c| compare(sample, c)) else {
                continue;
            };
            outputs.compared += 1;
            match answer {
                Match::Identical => outputs.identical += 1,
                Match::NearTie(at) => {
                    outputs.near_tie += 1;
                    other_first.get_or_insert(at);
                }
                Match::Parted(at) => {
                    outputs.parted += 1;
                    firm_first.get_or_insert(at);
                }
                Match::Unjudged(at) => {
                    outputs.unjudged += 1;
                    other_first.get_or_insert(at);
                }
            }
        }
    }
    outputs.first_difference = firm_first.or(other_first);
    outputs.line = line(&outputs);
    outputs
}

fn line(outputs: &Outputs) -> String {
    if outputs.compared == 0 {
        return "outputs not judged: no request that both sides answered".to_owned();
    }
    let mut parts = vec![format!(
        "outputs identical {}/{}",
        outputs.identical, outputs.compared
    )];
    for (n, what) in [
        (outputs.near_tie, "part at a near tie"),
        (outputs.parted, "part at a firm step"),
        (outputs.unjudged, "differ, how firmly is not known"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    parts.join(", ")
}

/// None where neither ids nor texts are there on both sides.
fn compare(base: &Sample, candidate: &Sample) -> Option<Match> {
    let texts = text_difference(base, candidate);
    if let (Some(b), Some(c)) = (&base.output_ids, &candidate.output_ids) {
        let Some(position) = first_difference(b, c) else {
            return Some(Match::Identical);
        };
        let at = FirstDifference {
            request: base.index,
            position,
            unit: Unit::Token,
            base: around(b, position, " "),
            candidate: around(c, position, " "),
            base_text: texts.as_ref().map(|d| d.base.clone()),
            candidate_text: texts.map(|d| d.candidate),
        };
        return Some(match base.firm_steps.map(|firm| firm as usize) {
            // A near tie is a step that was made and is not firm: if all are, there is none.
            Some(firm) if firm < b.len() && firm <= position => Match::NearTie(at),
            Some(_) => Match::Parted(at),
            None => Match::Unjudged(at),
        });
    }
    let both_have_text = base.text.is_some() && candidate.text.is_some();
    match texts {
        Some(at) => Some(Match::Unjudged(at)),
        None => both_have_text.then_some(Match::Identical),
    }
}

/// Where the texts part, if both are there and differ.
fn text_difference(base: &Sample, candidate: &Sample) -> Option<FirstDifference> {
    let b: Vec<char> = base.text.as_ref()?.chars().collect();
    let c: Vec<char> = candidate.text.as_ref()?.chars().collect();
    let position = first_difference(&b, &c)?;
    Some(FirstDifference {
        request: base.index,
        position,
        unit: Unit::Character,
        base: around(&b, position, ""),
        candidate: around(&c, position, ""),
        base_text: None,
        candidate_text: None,
    })
}

/// The first place where they differ; the shorter one's end if it begins the longer one.
fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> Option<usize> {
    if a == b {
        return None;
    }
    let shorter = a.len().min(b.len());
    Some(a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(shorter))
}

/// What stands around a place, with dots where more is left out.
fn around<T: ToString>(items: &[T], position: usize, separator: &str) -> String {
    let start = position.saturating_sub(SHOWN_BEFORE);
    let end = (position + SHOWN_AFTER).min(items.len());
    let shown = items.get(start..end).unwrap_or_default();
    let shown: Vec<String> = shown.iter().map(T::to_string).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if end < items.len() { "…" } else { "" };
    format!("{before}{}{after}", shown.join(separator))
}

#[cfg(test)]
mod tests;
