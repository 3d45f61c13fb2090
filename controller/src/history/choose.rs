//! Which runs make a series: those of one arm and one work on one host that say something of it.

use std::collections::BTreeMap;

use contracts::run::{RunState, Soundness};

use crate::compare::pairing::{contaminated, unnamed};
use crate::record::RunRecord;
use crate::stats::changes::MAX_VALUES;

/// Runs of one arm and one work on one host.
pub struct Group<'a> {
    /// Oldest first.
    pub runs: Vec<&'a RunRecord>,
    pub(super) notes: Vec<String>,
}

/// Sorts runs into series, and says how many were left out before: those that did not end well, that
/// measured the client, or that something else disturbed. Of a series the newest [`MAX_VALUES`].
pub fn groups(runs: &[RunRecord]) -> (Vec<Group<'_>>, Vec<String>) {
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_key: BTreeMap<String, Vec<&RunRecord>> = BTreeMap::new();
    for run in runs {
        match fault(run) {
            Some(why) => *left_out.entry(why).or_default() += 1,
            None => by_key.entry(key(run)).or_default().push(run),
        }
    }
    let notes = left_out.iter().map(|(why, n)| left_out_words(*n, why));
    let notes = notes.collect();
    let mut groups: Vec<Group<'_>> = by_key.into_values().map(Group::of).collect();
    groups.sort_by(|a, b| a.newest().cmp(&b.newest()));
    (groups, notes)
}

/// How many, and why.
pub(super) fn left_out_words(count: usize, why: &str) -> String {
    let runs = if count == 1 { "run is" } else { "runs are" };
    format!("{count} {runs} left out: {why}")
}

fn fault(run: &RunRecord) -> Option<&'static str> {
    let validity = &run.status.validity;
    match run.status.state {
        RunState::Done if validity.verdict == Soundness::ClientBound => Some("client-bound"),
        RunState::Done if contaminated(run).is_some() => Some("contaminated"),
        RunState::Done if validity.failed_requests > 0 => Some("with failed requests"),
        RunState::Done => None,
        RunState::Failed | RunState::Cancelled => Some("failed or cancelled"),
        _ => Some("not ended"),
    }
}

/// What runs must share to have one level: all but the build, and what somebody called the arm.
fn key(run: &RunRecord) -> String {
    let arm = serde_json::to_string(&unnamed(run)).unwrap_or_default();
    [&run.host_fingerprint, &run.engine, &run.workload_key, &arm]
        .map(String::as_str)
        .join("\n")
}

/// Of runs that were made at the same time the id decides.
fn made(run: &RunRecord) -> (i64, &str) {
    (run.created_unix_ms, &run.run_id)
}

impl<'a> Group<'a> {
    fn of(mut runs: Vec<&'a RunRecord>) -> Self {
        runs.sort_by_key(|run| made(run));
        let older = runs.len().saturating_sub(MAX_VALUES);
        runs.drain(..older);
        let notes = (older > 0).then(|| left_out_words(older, "older than the newest 200"));
        Self {
            runs,
            notes: notes.into_iter().collect(),
        }
    }

    fn newest(&self) -> Option<(i64, &str)> {
        self.runs.last().map(|run| made(run))
    }
}
