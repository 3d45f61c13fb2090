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

/// Fewer blocks than were planned at first, or an extension that was stopped: how many blocks an
/// extension planned is not stored, so only its cancelled run tells.
fn unfinished(side: &[&RunRecord], rerun: &dyn Fn(&str) -> String) -> Option<String> {
    let newest = side.last()?;
    let (session, engine) = (&newest.session_id, &newest.engine);
    let planned = newest.session.repeat_count;
    let ended = side
        .iter()
        .filter(|run| run.look == 0 && ended_by_itself(run));
    let blocks: BTreeSet<u32> = ended.map(|run| run.block).collect();
    let there = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
    let stopped = |run: &&RunRecord| run.look > 0 && !ended_by_itself(run);
    let what = if there < planned {
        format!(
            "{there} of the {planned} blocks that session {session} planned of {engine} are there"
        )
    } else if side.iter().any(stopped) {
        format!("an extension of session {session} was stopped")
    } else {
        return None;
    };
    Some(format!("{what}: {}, and let it end", rerun("")))
}

#[cfg(test)]
mod tests;
