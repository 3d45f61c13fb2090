//! Which runs may stand against each other: one workload on one host in one mode.

use std::collections::BTreeMap;

use contracts::run::Mode;

use crate::compare::pairing::{age, ended_by_itself};
use crate::record::RunRecord;

/// What two runs share when they may stand in one cell. Mode and host are left open where two
/// different ones are asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub host_fingerprint: Option<String>,
    pub mode: Option<Mode>,
    pub workload_key: String,
}

/// What of a run's cell is left open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub modes: bool,
    pub hosts: bool,
}

/// Runs by cell, in the order of the keys.
pub(super) fn cells<'a>(runs: &[&'a RunRecord], open: Open) -> Vec<(Key, Vec<&'a RunRecord>)> {
    let mut cells = BTreeMap::<Key, Vec<&RunRecord>>::new();
    for run in runs {
        let key = Key {
            host_fingerprint: (!open.hosts).then(|| run.host_fingerprint.clone()),
            mode: (!open.modes).then_some(run.status.spec.arm.mode),
            workload_key: run.workload_key.clone(),
        };
        cells.entry(key).or_default().push(run);
    }
    let only_cancelled = |runs: &Vec<&RunRecord>| !runs.iter().any(|run| ended_by_itself(run));
    if cells.values().any(|runs| !only_cancelled(runs)) {
        cells.retain(|_, runs| !only_cancelled(runs));
    }
    cells.into_iter().collect()
}

pub(super) type CellRuns<'c, 'a> = (&'c Vec<&'a RunRecord>, &'c Vec<&'a RunRecord>);

/// The two cells that agree in most, host before mode before workload, and are newest.
pub(super) fn nearest<'c, 'a>(
    base: &'c [(Key, Vec<&'a RunRecord>)],
    candidate: &'c [(Key, Vec<&'a RunRecord>)],
) -> Option<CellRuns<'c, 'a>> {
    let all = base
        .iter()
        .flat_map(|b| candidate.iter().map(move |c| (b, c)));
    let newest = |runs: &[&'a RunRecord]| runs.iter().map(|run| age(run)).max();
    let best = all.max_by_key(|((b, b_runs), (c, c_runs))| {
        let host = b.host_fingerprint == c.host_fingerprint;
        let mode = b.mode == c.mode;
        let workload = b.workload_key == c.workload_key;
        (host, mode, workload, newest(b_runs), newest(c_runs))
    });
    best.map(|((_, b), (_, c))| (b, c))
}
