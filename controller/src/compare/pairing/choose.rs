//! Which session and which arm of it each side is, in one cell.

use crate::compare::Options;
use crate::compare::lint::{self, Reason, ReasonCode};
use crate::compare::pairing::{Group, Pair, age, blocks, ended_by_itself, evidence};
use crate::record::RunRecord;
use crate::selector::Selector;

/// What was asked.
pub(super) struct Ask<'a> {
    pub base: &'a Selector,
    pub candidate: &'a Selector,
    pub options: &'a Options,
}

/// Both sides before any rule left something out.
struct Sides<'a> {
    base: Vec<&'a RunRecord>,
    candidate: Vec<&'a RunRecord>,
    /// Whether they are halves of one arm, not two arms.
    halves: bool,
    reasons: Vec<Reason>,
    notes: Vec<String>,
}

impl Ask<'_> {
    /// The runs of one cell that are used: the newest session with both sides, else the newest of
    /// each; of one selector given twice, two arms of its newest session, or the halves of one.
    pub fn choose(&self, base: &[&RunRecord], candidate: &[&RunRecord]) -> Option<Pair> {
        let sides = if self.base == self.candidate {
            self.itself(base)?
        } else {
            self.two(base, candidate)?
        };
        let (newest_base, newest) = (sides.base.last()?, sides.candidate.last()?);
        let one_session = newest_base.session_id == newest.session_id
            && newest_base.host_fingerprint == newest.host_fingerprint;
        let interleaved = one_session && !sides.halves && newest.session.run_order == ABBA;
        let looks = evidence::looks(newest_base, newest);
        let mut withheld = if sides.halves {
            let whole = whole(&sides);
            evidence::withheld(&whole, &whole)
        } else {
            evidence::withheld(&sides.base, &sides.candidate)
        };
        let used = blocks::used(&sides.base, &sides.candidate, interleaved, self.options.all);
        if !used.kept.is_empty() {
            let kept = used.kept.join("; ");
            withheld.push(format!("contaminated runs were kept (--all): {kept}"));
        }
        let mut notes = sides.notes;
        if newest_base.session_id != newest.session_id {
            notes.push(
                "the sides were measured in different sessions: drift of the host is in the ratio"
                    .to_owned(),
            );
        }
        let mut reasons = sides.reasons;
        reasons.extend(used.reasons);
        Some(Pair {
            base: Group::of(&used.base)?,
            candidate: Group::of(&used.candidate)?,
            design: used.design,
            looks,
            excluded: used.excluded,
            withheld,
            reasons,
            notes,
        })
    }

    fn two<'a>(&self, base: &[&'a RunRecord], candidate: &[&'a RunRecord]) -> Option<Sides<'a>> {
        // Of a session in which both words mean one arm, the sides would be the same runs.
        let other_arm = |run: &&RunRecord| {
            let apart =
                |b: &&RunRecord| b.session_id == run.session_id && b.arm_letter != run.arm_letter;
            base.iter().any(apart)
        };
        let shared = newest_session(candidate.iter().copied().filter(other_arm));
        let (base_session, candidate_session) = match shared {
            Some(session) => (session, session),
            None => (
                newest_session(base.iter().copied())?,
                newest_session(candidate.iter().copied())?,
            ),
        };
        let (base, base_arms) = arm(base, base_session)?;
        let (candidate, candidate_arms) = arm(candidate, candidate_session)?;
        let mut reasons = Vec::new();
        for (name, arms, session) in [
            ("base", &base_arms, base_session),
            ("candidate", &candidate_arms, candidate_session),
        ] {
            if arms.len() > 1 {
                let words = one_arm_each(
                    (self.base, &base_arms),
                    (self.candidate, &candidate_arms),
                    base_session == candidate_session,
                );
                reasons.push(ambiguous(&format!("the {name}"), arms, session, &words));
            }
        }
        let shares = |b: &&RunRecord| candidate.iter().any(|c| c.run_id == b.run_id);
        if reasons.is_empty() && base.iter().any(shares) {
            reasons.push(same_runs(
                "both sides are the same runs",
                *candidate.last()?,
            ));
        }
        Some(Sides {
            base,
            candidate,
            halves: false,
            reasons,
            notes: Vec::new(),
        })
    }

    /// One selector against itself: what equal sides differ by.
    fn itself<'a>(&self, runs: &[&'a RunRecord]) -> Option<Sides<'a>> {
        let session = newest_session(runs.iter().copied())?;
        let (newest_arm, arms) = arm(runs, session)?;
        let selector = self.base;
        let of = |letter: &str| -> Vec<&'a RunRecord> { newest_arm_runs(runs, session, letter) };
        let mut sides = Sides {
            base: newest_arm.clone(),
            candidate: newest_arm,
            halves: false,
            reasons: Vec::new(),
            notes: Vec::new(),
        };
        match arms.as_slice() {
            [(first, engine), (second, other)] if engine == other => {
                sides.base = of(first);
                sides.candidate = of(second);
                sides.notes.push(format!(
                    "{selector} has two arms in session {session}: #{first} is the base, #{second} the candidate"
                ));
            }
            [(first, _), (second, _), ..] => {
                let words = [first, second].map(|letter| with_arm(selector, letter));
                sides.base = of(first);
                sides.candidate = of(second);
                let who = selector.to_string();
                sides.reasons.push(ambiguous(&who, &arms, session, &words));
            }
            _ => split(selector, &mut sides),
        }
        Some(sides)
    }
}

/// As [`crate::plan::Order::word`] has it.
const ABBA: &str = "abba";

/// The runs of one arm, its even blocks against its odd ones: in `base` and `candidate` are all.
fn split(selector: &Selector, sides: &mut Sides<'_>) {
    let (even, odd): (Vec<_>, Vec<_>) = sides.base.iter().partition(|run| run.block % 2 == 0);
    if even.is_empty() || odd.is_empty() {
        let runs = sides.base.len();
        let message = match runs {
            1 => format!("{selector} against itself, and its newest session has one run of it"),
            _ => format!("{selector} against itself, and its runs can't be split by block"),
        };
        sides
            .reasons
            .extend(sides.base.last().map(|run| same_runs(&message, run)));
        return;
    }
    let blocks = |runs: &[&RunRecord]| {
        let blocks: Vec<String> = runs.iter().map(|run| run.block.to_string()).collect();
        blocks.join(", ")
    };
    sides.notes.push(format!(
        "{selector} against itself: its blocks {} against {}",
        blocks(&even),
        blocks(&odd)
    ));
    sides.base = even;
    sides.candidate = odd;
    sides.halves = true;
}

fn whole<'a>(sides: &Sides<'a>) -> Vec<&'a RunRecord> {
    let mut whole: Vec<&RunRecord> = sides.base.iter().chain(&sides.candidate).copied().collect();
    whole.sort_by_key(|run| age(run));
    whole
}

/// The newest session in which a run ended by itself; else the newest.
fn newest_session<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> Option<&'a str> {
    let newest = runs.max_by_key(|run| (ended_by_itself(run), age(run)))?;
    Some(&newest.session_id)
}

/// Keeps the runs of the newest session; whether others were left out.
pub(super) fn only_newest_session(runs: &mut Vec<&RunRecord>) -> bool {
    let before = runs.len();
    let newest = newest_session(runs.iter().copied()).map(str::to_owned);
    runs.retain(|run| Some(&run.session_id) == newest.as_ref());
    runs.len() < before
}

/// (letter, engine) of each arm that a side names, in their order.
type Arms = Vec<(String, String)>;

/// A side within its session: the runs of its newest arm, and all arms that it names.
fn arm<'a>(side: &[&'a RunRecord], session: &str) -> Option<(Vec<&'a RunRecord>, Arms)> {
    let of_session = || side.iter().filter(|run| run.session_id == session);
    let newest = of_session().max_by_key(|run| age(run))?;
    let arms = of_session().map(|run| (run.arm_letter.clone(), run.engine.clone()));
    let mut arms: Arms = arms.collect();
    arms.sort();
    arms.dedup();
    Some((newest_arm_runs(side, session, &newest.arm_letter), arms))
}

/// The runs of an arm, on the host of its newest, oldest first.
fn newest_arm_runs<'a>(side: &[&'a RunRecord], session: &str, letter: &str) -> Vec<&'a RunRecord> {
    let mut runs: Vec<&RunRecord> = side.to_vec();
    runs.retain(|run| run.session_id == session && run.arm_letter == letter);
    runs.sort_by_key(|run| age(run));
    if let Some(newest) = runs.last().copied() {
        runs.retain(|run| run.host_fingerprint == newest.host_fingerprint);
    }
    runs
}

fn ambiguous(who: &str, arms: &Arms, session: &str, words: &[String; 2]) -> Reason {
    let list: Vec<String> = arms
        .iter()
        .map(|(l, engine)| format!("#{l} ({engine})"))
        .collect();
    Reason {
        code: ReasonCode::AmbiguousArm,
        message: format!(
            "{who} names {} arms of session {session}: {}",
            arms.len(),
            list.join(", ")
        ),
        todo: format!(
            "name one arm a side, as in `controller compare {} {}`",
            words[0], words[1]
        ),
    }
}

/// Both selectors so that each names one arm: as they are where they do, else with the letter of
/// their first; within one session not of the arm that the other side names.
fn one_arm_each(
    (base, base_arms): (&Selector, &Arms),
    (candidate, candidate_arms): (&Selector, &Arms),
    one_session: bool,
) -> [String; 2] {
    let first_but = |arms: &Arms, taken: Option<&String>| {
        let mut letters = arms.iter().map(|(letter, _)| letter);
        letters.find(|letter| Some(*letter) != taken).cloned()
    };
    let taken = match candidate_arms.as_slice() {
        [(only, _)] if one_session => Some(only),
        _ => None,
    };
    let of_base = first_but(base_arms, taken);
    let of_candidate = first_but(candidate_arms, of_base.as_ref().filter(|_| one_session));
    let sides = [
        (base, base_arms, of_base),
        (candidate, candidate_arms, of_candidate),
    ];
    sides.map(|(selector, arms, letter)| match letter {
        Some(letter) if arms.len() > 1 => with_arm(selector, &letter),
        _ => lint::quoted(&selector.to_string()),
    })
}

fn with_arm(selector: &Selector, letter: &str) -> String {
    let mut selector = selector.clone();
    selector.arm = Some(letter.to_owned());
    lint::quoted(&selector.to_string())
}

fn same_runs(message: &str, run: &RunRecord) -> Reason {
    Reason {
        code: ReasonCode::SameRuns,
        message: message.to_owned(),
        todo: format!(
            "{}, two arms of one engine; or name two arms (#a, #b), two builds (%BUILD) or two runs (run:ID)",
            lint::rerun_twice(run)
        ),
    }
}
