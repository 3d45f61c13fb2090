//! Which runs stand against each other.
//!
//! A cell is one workload on one host in one mode. In each cell that both sides have, the newest
//! session that holds both is taken, else the newest session of each side ([`choose`]). Of these
//! runs [`rules`] and [`blocks`] leave some out, by rules that were fixed before anyone looked;
//! [`evidence`] says whether what is left may have a verdict. What may not be compared all the same
//! is [`super::lint`]'s business.

mod blocks;
mod choose;
mod evidence;
mod rules;

use contracts::run::{Mode, RunState};
use serde::Serialize;

use crate::compare::judge::Design;
use crate::compare::lint::Reason;
use crate::compare::{CompareError, Options};
use crate::record::RunRecord;
use crate::selector::{Head, Selector};
use choose::Ask;
pub use rules::FOREIGN_CPU_CONTAMINATED;

/// The runs to be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairing {
    /// Selector of the base.
    pub base: Selector,
    /// Selector of the candidate.
    pub candidate: Selector,
    /// Whether the selectors ask for two different modes.
    pub across_modes: bool,
    /// At least one, the newest first.
    pub pairs: Vec<Pair>,
    /// What was left out, one line each.
    pub notes: Vec<String>,
}

/// The two sides of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What is compared with.
    pub base: Group,
    /// What is judged.
    pub candidate: Group,
    /// How their runs stand against each other: paired, the i-th run of one side and the i-th of
    /// the other share a block.
    pub design: Design,
    /// How often the data may be looked at: 1, and once more for each extension that was declared.
    pub looks: u32,
    /// Runs that a rule left out, each with the rule.
    pub excluded: Vec<Excluded>,
    /// Why there are numbers and no verdict, each with what to run.
    pub withheld: Vec<String>,
    /// What already forbids the comparison.
    pub reasons: Vec<Reason>,
    /// Footnotes.
    pub notes: Vec<String>,
}

impl Pair {
    /// In which order the runs of one session ran, A the base, B the candidate: `ABBAABBAAB`. None
    /// across sessions or hosts.
    pub fn order(&self) -> Option<String> {
        let place = |run: &RunRecord| (run.session_id.clone(), run.host_fingerprint.clone());
        if place(&self.base.newest) != place(&self.candidate.newest) {
            return None;
        }
        let base = self.base.runs().map(|run| (run.position, 'A'));
        let candidate = self.candidate.runs().map(|run| (run.position, 'B'));
        let mut order: Vec<(u32, char)> = base.chain(candidate).collect();
        order.sort_unstable();
        Some(order.into_iter().map(|(_, letter)| letter).collect())
    }
}

/// A run that a rule fixed beforehand left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excluded {
    /// The run.
    pub run_id: String,
    /// `base` or `candidate`.
    pub side: &'static str,
    /// Its block.
    pub block: u32,
    /// `it failed (load): …`, `its block's other run failed`, `its GPU was throttled …`
    pub why: String,
}

/// Runs of one arm and one build in one session.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The newest.
    pub newest: RunRecord,
    /// The others, oldest first.
    pub older: Vec<RunRecord>,
}

impl Group {
    /// All its runs, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.older.iter().chain(std::iter::once(&self.newest))
    }

    fn of(runs: &[&RunRecord]) -> Option<Self> {
        let (newest, older) = runs.split_last()?;
        Some(Self {
            newest: (*newest).clone(),
            older: older.iter().map(|run| (*run).clone()).collect(),
        })
    }
}

impl Pairing {
    /// The runs that are used; one that stands in several cells comes as often.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        let groups = self.pairs.iter().flat_map(|p| [&p.base, &p.candidate]);
        groups.flat_map(Group::runs)
    }

    /// The runs whose samples are needed, each once.
    pub fn run_ids(&self) -> Vec<&str> {
        let groups = self.pairs.iter().flat_map(|p| [&p.base, &p.candidate]);
        let mut ids: Vec<&str> = groups
            .flat_map(Group::runs)
            .map(|run| run.run_id.as_str())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// What two runs share when they may stand in one cell. Mode and host are left open where two
/// different ones are asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host_fingerprint: Option<String>,
    mode: Option<Mode>,
    workload_key: String,
}

/// What of a run's cell is left open.
#[derive(Debug, Clone, Copy)]
struct Open {
    modes: bool,
    hosts: bool,
}

/// Chooses the runs to compare from all stored ones. Where no cell has both sides, the two newest
/// groups that agree in most are paired, and the comparison says what differs.
pub fn pair(
    base: &Selector,
    candidate: &Selector,
    runs: &[RunRecord],
    options: &Options,
) -> Result<Pairing, CompareError> {
    let base_runs = ended(base, runs)?;
    let candidate_runs = ended(candidate, runs)?;
    let across_modes = asks_across_modes((base, &base_runs), (candidate, &candidate_runs));
    let ask = Ask {
        base,
        candidate,
        options,
    };
    let open = Open {
        modes: across_modes,
        hosts: false,
    };
    let (mut pairs, mut notes) = in_cells(&ask, &base_runs, &candidate_runs, open);
    if pairs.is_empty() && options.allow_different_hosts {
        let open = Open {
            hosts: true,
            ..open
        };
        (pairs, notes) = in_cells(&ask, &base_runs, &candidate_runs, open);
    }
    if pairs.is_empty() {
        let base_cells = cells(&base_runs, open);
        let candidate_cells = cells(&candidate_runs, open);
        let nearest = nearest(&base_cells, &candidate_cells);
        pairs.extend(nearest.and_then(|(b, c)| ask.choose(b, c)));
    }
    pairs.sort_by(|a, b| age(&b.candidate.newest).cmp(&age(&a.candidate.newest)));
    Ok(Pairing {
        base: base.clone(),
        candidate: candidate.clone(),
        across_modes,
        pairs,
        notes,
    })
}

/// A pair for each cell that both sides have, and a line for what only one has; nothing at all if
/// there is no such cell.
fn in_cells(
    ask: &Ask<'_>,
    base_runs: &[&RunRecord],
    candidate_runs: &[&RunRecord],
    open: Open,
) -> (Vec<Pair>, Vec<String>) {
    let base_cells = cells(base_runs, open);
    let candidate_cells = cells(candidate_runs, open);
    let mut pairs = Vec::new();
    let mut alone = 0;
    for (key, base_side) in &base_cells {
        match candidate_cells.iter().find(|(other, _)| other == key) {
            Some((_, candidate_side)) => pairs.extend(ask.choose(base_side, candidate_side)),
            None => alone += 1,
        }
    }
    if pairs.is_empty() {
        return (pairs, Vec::new());
    }
    let alone_too = candidate_cells.len().saturating_sub(pairs.len());
    let mut notes = Vec::new();
    for (selector, other, n) in [
        (ask.base, ask.candidate, alone),
        (ask.candidate, ask.base, alone_too),
    ] {
        if n > 0 {
            notes.push(format!(
                "left out: {n} of {selector}'s workloads, which {other} has not run on the same host"
            ));
        }
    }
    (pairs, notes)
}

/// The runs that a selector means and that have ended, each id once: two files may hold the same
/// run. Cells whose runs were all cancelled have nothing to show, unless one was asked for by its
/// id.
fn ended<'a>(
    selector: &Selector,
    runs: &'a [RunRecord],
) -> Result<Vec<&'a RunRecord>, CompareError> {
    let mut selected = selector.select(runs)?;
    let mut seen = std::collections::BTreeSet::new();
    selected.retain(|run| is_ended(run) && seen.insert(run.run_id.clone()));
    let by_id = matches!(selector.head, Head::Run(_));
    if selected.is_empty() || !(by_id || selected.iter().any(|run| ended_by_itself(run))) {
        return Err(CompareError::NotEnded {
            word: selector.to_string(),
        });
    }
    Ok(selected)
}

fn is_ended(run: &RunRecord) -> bool {
    ended_by_itself(run) || run.status.state == RunState::Cancelled
}

fn ended_by_itself(run: &RunRecord) -> bool {
    matches!(run.status.state, RunState::Done | RunState::Failed)
}

/// Whether both selectors say themselves which mode they mean, and mean different ones.
fn asks_across_modes(
    base: (&Selector, &[&RunRecord]),
    candidate: (&Selector, &[&RunRecord]),
) -> bool {
    let only_mode = |(selector, runs): (&Selector, &[&RunRecord])| {
        let mode = runs.first()?.status.spec.arm.mode;
        let all_alike = runs.iter().all(|run| run.status.spec.arm.mode == mode);
        (selector.pins_mode() && all_alike).then_some(mode)
    };
    match (only_mode(base), only_mode(candidate)) {
        (Some(base), Some(candidate)) => base != candidate,
        _ => false,
    }
}

/// Runs by cell, in the order of the keys.
fn cells<'a>(runs: &[&'a RunRecord], open: Open) -> Vec<(Key, Vec<&'a RunRecord>)> {
    let mut cells = std::collections::BTreeMap::<Key, Vec<&RunRecord>>::new();
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

type CellRuns<'c, 'a> = (&'c Vec<&'a RunRecord>, &'c Vec<&'a RunRecord>);

/// The two cells that agree in most, host before mode before workload, and are newest.
fn nearest<'c, 'a>(
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

fn age(run: &RunRecord) -> (i64, &str) {
    (run.created_unix_ms, &run.run_id)
}

#[cfg(test)]
mod tests;
