//! Whether the runs of a pair may have a verdict: how often they were looked at, and whether all
//! that was planned is there.
//!
//! Whoever measures until a difference shows will find one. So an extension must have been declared
//! at the first run, and a session that ended early counts like an extension nobody declared: the
//! program can't tell an accident from a peek.

use std::collections::BTreeSet;

use crate::compare::lint;
use crate::compare::pairing::ended_by_itself;
use crate::plan::EXTEND_MAX;
use crate::record::RunRecord;
use crate::show::words;

/// How often both sides may be looked at, by what their sessions declared.
pub(super) fn looks(base: &RunRecord, candidate: &RunRecord) -> u32 {
    let declared = [base, candidate].map(|run| run.session.max_extend);
    declared.into_iter().max().unwrap_or(0).saturating_add(1)
}

/// Why there is no verdict, each with what to run. The sides are those before any rule left
/// something out.
pub(super) fn withheld(base: &[&RunRecord], candidate: &[&RunRecord]) -> Vec<String> {
    let mut why = Vec::new();
    let (Some(newest_base), Some(newest)) = (base.last(), candidate.last()) else {
        return why;
    };
    let rerun = |more: &str| lint::rerun(newest_base, newest, more);
    for side in [base, candidate] {
        for line in [undeclared(side, &rerun), unfinished(side, &rerun)] {
            why.extend(line.filter(|line| !why.contains(line)));
        }
    }
    if newest_base.host_fingerprint != newest.host_fingerprint {
        why.push(format!(
            "the hosts differ, {} and {}: {} to have both sides on one",
            newest_base.hostname,
            newest.hostname,
            rerun("")
        ));
    }
    why
}

/// More looks than were declared.
fn undeclared(side: &[&RunRecord], rerun: &dyn Fn(&str) -> String) -> Option<String> {
    let session = &side.last()?.session;
    let looks = side.iter().map(|run| run.look).max()?;
    let extended = looks.max(session.extended_count);
    if extended <= session.max_extend {
        return None;
    }
    let times = words::count(u64::from(extended), "time");
    let declared = match session.max_extend {
        0 => "did not declare it".to_owned(),
        n => format!("declared {n} (--max-extend {n})"),
    };
    let again = rerun(&format!(" --max-extend {}", extended.min(EXTEND_MAX)));
    Some(format!(
        "the session was extended {times} and {declared}: {again}"
    ))
}

/// Fewer blocks than were planned: the session was stopped, or goes on while somebody looks.
fn unfinished(side: &[&RunRecord], rerun: &dyn Fn(&str) -> String) -> Option<String> {
    let newest = side.last()?;
    let (facts, session, engine) = (&newest.session, &newest.session_id, &newest.engine);
    let ended = |looks: u32| {
        let runs = side.iter().filter(|run| run.look <= looks);
        let ended = runs.filter(|run| ended_by_itself(run));
        let blocks: BTreeSet<u32> = ended.map(|run| run.block).collect();
        u32::try_from(blocks.len()).unwrap_or(u32::MAX)
    };
    let of_planned = |there: u32, planned: u32| {
        format!("{there} of the {planned} blocks that session {session} planned of {engine}")
    };
    let (at_first, in_all) = (ended(0), ended(u32::MAX));
    if at_first < facts.repeat_count {
        let what = of_planned(at_first, facts.repeat_count);
        return Some(format!("{what} are there: {}, and let it end", rerun("")));
    }
    (in_all < facts.planned_count).then(|| {
        format!(
            "{} with its extensions are there: wait for an extension that goes on; if it was stopped, {}, and let it end",
            of_planned(in_all, facts.planned_count),
            rerun("")
        )
    })
}

#[cfg(test)]
mod tests;
