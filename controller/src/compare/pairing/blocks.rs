//! From all runs of two arms to those that are used, block by block.
//!
//! In an interleaved session both runs of a block saw the same machine, so a block is used as a whole
//! or not at all. Elsewhere a run that a rule leaves out goes alone.

use std::collections::BTreeMap;

use crate::compare::judge::Design;
use crate::compare::lint::{self, Reason, ReasonCode};
use crate::compare::pairing::Excluded;
use crate::compare::pairing::rules::{self, Fault};
use crate::record::RunRecord;

/// Runs that are named in one reason at most; the others are counted.
const NAMED: usize = 2;

/// What is left of two arms.
pub(super) struct Used<'a> {
    pub base: Vec<&'a RunRecord>,
    pub candidate: Vec<&'a RunRecord>,
    pub design: Design,
    pub excluded: Vec<Excluded>,
    /// Contaminated runs that were kept, in words.
    pub kept: Vec<String>,
    pub reasons: Vec<Reason>,
}

/// One run with what a rule says of it.
struct Judged<'a> {
    run: &'a RunRecord,
    fault: Option<Fault>,
}

/// Leaves out what the rules leave out. `interleaved` says that both arms are of one session that
/// alternated them; `all` keeps contaminated runs. Where nothing is left, all runs are shown, with
/// the reason why they are not compared. Sides are in the order of their blocks.
pub(super) fn used<'a>(
    base: &[&'a RunRecord],
    candidate: &[&'a RunRecord],
    interleaved: bool,
    all: bool,
) -> Used<'a> {
    let mut kept = Vec::new();
    let judged_base = judged("base", base, all, &mut kept);
    let judged_candidate = judged("candidate", candidate, all, &mut kept);
    let paired = interleaved && share_blocks(&judged_base, &judged_candidate);
    let other = |side| paired.then_some(side);
    let mut excluded = Vec::new();
    let left_base = left(
        "base",
        &judged_base,
        other(&judged_candidate),
        &mut excluded,
    );
    let left_candidate = left(
        "candidate",
        &judged_candidate,
        other(&judged_base),
        &mut excluded,
    );
    excluded.sort_by_key(|run| run.block);
    let nothing = left_base.is_empty() || left_candidate.is_empty();
    let (base, candidate) = if nothing {
        (base.to_vec(), candidate.to_vec())
    } else {
        (left_base, left_candidate)
    };
    let reason = nothing.then(|| nothing_left(&judged_base, &judged_candidate));
    Used {
        design: if paired && !nothing {
            Design::Paired
        } else {
            Design::Unpaired
        },
        base,
        candidate,
        excluded,
        kept,
        reasons: reason.into_iter().flatten().collect(),
    }
}

fn judged<'a>(
    side: &str,
    runs: &[&'a RunRecord],
    all: bool,
    kept: &mut Vec<String>,
) -> Vec<Judged<'a>> {
    // What the side is: its newest run that got as far as to know its build.
    let sound = |run: &&&RunRecord| rules::broken(run).is_none();
    let known = |run: &&&RunRecord| run.status.provenance.is_some();
    let newest = runs.iter().rev().find(sound);
    let newest = newest.or_else(|| runs.iter().rev().find(known));
    let judge = |run: &&'a RunRecord| {
        let unlike = || rules::unlike(run, newest?).map(Fault::Unlike);
        let mut fault = rules::broken(run).or_else(unlike);
        if fault.is_none()
            && let Some(why) = rules::contaminated(run)
        {
            if all {
                kept.push(format!("the {side}'s run {}: {why}", run.run_id));
            } else {
                fault = Some(Fault::Contaminated(why));
            }
        }
        Judged { run, fault }
    };
    runs.iter().map(judge).collect()
}

/// Whether each side has one run a block, and some blocks have both.
fn share_blocks(base: &[Judged<'_>], candidate: &[Judged<'_>]) -> bool {
    let blocks = |side: &[Judged<'_>]| -> Option<Vec<u32>> {
        let mut blocks: Vec<u32> = side.iter().map(|judged| judged.run.block).collect();
        blocks.sort_unstable();
        let count = blocks.len();
        blocks.dedup();
        (blocks.len() == count).then_some(blocks)
    };
    match (blocks(base), blocks(candidate)) {
        (Some(base), Some(candidate)) => base.iter().any(|block| candidate.contains(block)),
        _ => false,
    }
}

/// The runs of a side that are used; `other` is the other side where blocks count as a whole.
fn left<'a>(
    name: &'static str,
    side: &[Judged<'a>],
    other: Option<&Vec<Judged<'a>>>,
    excluded: &mut Vec<Excluded>,
) -> Vec<&'a RunRecord> {
    let partners: Option<BTreeMap<u32, &Judged<'a>>> =
        other.map(|side| side.iter().map(|j| (j.run.block, j)).collect());
    let partner_fault = |block: u32| match partners.as_ref()?.get(&block) {
        None => Some("its block's other run was not made".to_owned()),
        Some(partner) => {
            let fault = partner.fault.as_ref()?;
            Some(format!("its block's other run {}", fault.short()))
        }
    };
    let mut left = Vec::new();
    for judged in side {
        let run = judged.run;
        let own = judged.fault.as_ref().map(|f| format!("it {}", f.words()));
        match own.or_else(|| partner_fault(run.block)) {
            None => left.push(run),
            Some(why) => excluded.push(Excluded {
                run_id: run.run_id.clone(),
                side: name,
                block: run.block,
                why,
            }),
        }
    }
    left.sort_by_key(|run| run.block);
    left
}

/// Why no run is left: what was wrong with the runs themselves.
fn nothing_left(base: &[Judged<'_>], candidate: &[Judged<'_>]) -> Option<Reason> {
    let of = |name: &'static str, side: &[Judged<'_>]| {
        let faulty = side
            .iter()
            .filter_map(|j| Some((j.run.clone(), j.fault.clone()?)));
        faulty
            .map(move |(run, fault)| (name, run, fault))
            .collect::<Vec<_>>()
    };
    let mut faulty = of("base", base);
    faulty.extend(of("candidate", candidate));
    let is_broken = |fault: &Fault| matches!(fault, Fault::Failed(_) | Fault::Cancelled);
    let is_contaminated = |fault: &Fault| matches!(fault, Fault::Contaminated(_));
    let code = if faulty.iter().any(|(.., fault)| is_broken(fault)) {
        ReasonCode::FailedRun
    } else if faulty.iter().any(|(.., fault)| is_contaminated(fault)) {
        ReasonCode::Contaminated
    } else {
        ReasonCode::MixedSide
    };
    let told = faulty.iter().take(NAMED);
    let mut told: Vec<String> = told
        .map(|(name, run, fault)| format!("the {name}'s run {} {}", run.run_id, fault.words()))
        .collect();
    if faulty.len() > NAMED {
        told.push(format!("and {} more", faulty.len() - NAMED));
    }
    let message = told.join("; ");
    let (base, candidate) = (base.last()?.run, candidate.last()?.run);
    let rerun = lint::rerun(base, candidate, "");
    let (_, worst, _) = faulty.first()?;
    let todo = match code {
        ReasonCode::FailedRun => {
            format!(
                "`controller runs show {}` says why; then {rerun}",
                worst.run_id
            )
        }
        ReasonCode::Contaminated => format!(
            "free {} of what disturbed it, then {rerun}; --all uses such runs too, for numbers and no verdict",
            worst.hostname
        ),
        _ => rerun,
    };
    Some(Reason {
        code,
        message,
        todo,
    })
}

#[cfg(test)]
mod tests;
