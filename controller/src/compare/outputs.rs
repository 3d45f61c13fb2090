//! Whether two sides gave the same answers: the benchmark is the test.
//!
//! Greedy answers are compared request by request, by token ids where both sides have them, else by
//! text. Equal ones are told by their hashes; of those that differ the words are looked at, as far as
//! they were read ([`differing`]). The base's engine says how many leading steps had no near tie between its two best tokens
//! (`firm_steps`): up to there tokens must agree, what follows is not judged. Whether a firm
//! difference forbids the comparison is [`super::lint::must_agree`]'s question.

mod runs;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::compare::Measured;
use crate::compare::input::{Answer, Input, Spoken};
use crate::show::words;
pub use runs::unsteady;

/// Tokens or characters shown on either side of the first difference.
const SHOWN_BEFORE: usize = 12;
/// Tokens or characters shown from the first difference on.
const SHOWN_AFTER: usize = 24;

/// Answers of one run that are read where they differ: it bounds what a comparison keeps of runs
/// whose answers all differ. Of the others it is not known how firmly they differ.
const READ_MAX: usize = 1_000;

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
    NearTie(FirstDifference),
    Parted(FirstDifference),
    Unjudged(FirstDifference),
}

/// The requests whose answers differ and have to be read, by run: of each run the first
/// `READ_MAX` of them.
pub fn differing<'a>(
    base: &[Measured<'a>],
    candidate: &[Measured<'a>],
) -> BTreeMap<&'a str, BTreeSet<u32>> {
    let mut wanted = BTreeMap::<&str, BTreeSet<u32>>::new();
    for (base, candidate) in runs::pairs(base, candidate) {
        let differ = hashes(base.input, candidate.input).filter(|(_, equal)| !equal);
        for (index, _) in differ.take(READ_MAX) {
            for run in [base.run, candidate.run] {
                wanted.entry(&run.run_id).or_default().insert(index);
            }
        }
    }
    wanted
}

/// The requests that both runs answered, and whether they answered the same; those left out where
/// neither ids nor texts are there on both sides.
fn hashes<'a>(base: &'a Input, candidate: &'a Input) -> impl Iterator<Item = (u32, bool)> + 'a {
    let mut others = candidate.answers.iter().peekable();
    base.answers.iter().filter_map(move |answer| {
        while others.next_if(|other| other.index < answer.index).is_some() {}
        let other = others.next_if(|other| other.index == answer.index)?;
        Some((answer.index, same(answer, other)?))
    })
}

fn same(base: &Answer, candidate: &Answer) -> Option<bool> {
    let ids = base.ids_hash.zip(candidate.ids_hash);
    let hashes = ids.or_else(|| base.text_hash.zip(candidate.text_hash));
    hashes.map(|(base, candidate)| base == candidate)
}

/// How two answers part that differ; none where they were not read.
fn words(index: u32, base: &Input, candidate: &Input) -> Option<Match> {
    compare(
        index,
        base.spoken.get(&index)?,
        candidate.spoken.get(&index)?,
    )
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
    let pairs = runs::pairs(base, candidate);
    if pairs.is_empty() && !base.is_empty() && !candidate.is_empty() {
        outputs.line =
            "outputs not judged: no two runs were asked the same, since prompts were cold"
                .to_owned();
        return outputs;
    }
    let mut firm_first = None;
    let mut other_first = None;
    for (base, candidate) in pairs {
        for (index, equal) in hashes(base.input, candidate.input) {
            outputs.compared += 1;
            if equal {
                outputs.identical += 1;
                continue;
            }
            match words(index, base.input, candidate.input) {
                None => outputs.unjudged += 1,
                Some(Match::NearTie(at)) => {
                    outputs.near_tie += 1;
                    other_first.get_or_insert(at);
                }
                Some(Match::Parted(at)) => {
                    outputs.parted += 1;
                    firm_first.get_or_insert(at);
                }
                Some(Match::Unjudged(at)) => {
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

/// None where they are the same, or neither ids nor texts are there on both sides.
fn compare(index: u32, base: &Spoken, candidate: &Spoken) -> Option<Match> {
    let texts = text_difference(index, base, candidate);
    if let (Some(b), Some(c)) = (&base.ids, &candidate.ids) {
        let position = first_difference(b, c)?;
        let at = FirstDifference {
            request: index,
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
    texts.map(Match::Unjudged)
}

/// Where the texts part, if both are there and differ.
fn text_difference(index: u32, base: &Spoken, candidate: &Spoken) -> Option<FirstDifference> {
    let b: Vec<char> = base.text.as_ref()?.chars().collect();
    let c: Vec<char> = candidate.text.as_ref()?.chars().collect();
    let position = first_difference(&b, &c)?;
    Some(FirstDifference {
        request: index,
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
