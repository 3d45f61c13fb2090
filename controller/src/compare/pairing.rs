//! Which runs stand against each other.
//!
//! A cell is one workload on one host in one mode. In each cell that both sides have, the newest
//! session that holds both is taken, else the newest session of each side; runs of different
//! builds or arms are never pooled into one side. What may not be compared all the same is
//! [`super::lint`]'s business.

use contracts::run::{Mode, RunState};
use serde::Serialize;

use crate::compare::judge::Design;
use crate::compare::lint::{Reason, ReasonCode};
use crate::compare::{CompareError, Options};
use crate::record::RunRecord;
use crate::selector::{Head, Selector};
use crate::show::words;

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
    /// How their runs stand against each other.
    pub design: Design,
    /// Runs that a rule left out, each with the rule.
    pub excluded: Vec<Excluded>,
    /// Why there are numbers and no verdict, where the user asked for numbers all the same.
    pub withheld: Vec<String>,
    /// What already forbids the comparison.
    pub reasons: Vec<Reason>,
    /// Footnotes.
    pub notes: Vec<String>,
}

/// A run that a rule fixed beforehand left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Excluded {
    /// The run.
    pub run_id: String,
    /// `base` or `candidate`.
    pub side: &'static str,
    /// Its block.
    pub block: u32,
    /// `it failed (load): …`, `its block's other run failed`, `throttled`, …
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

/// What two runs share when they may stand in one cell. Mode is left open where the selectors ask
/// for two different ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host_fingerprint: String,
    mode: Option<Mode>,
    workload_key: String,
}

/// Chooses the runs to compare from all stored ones. Where no cell has both sides, the two newest
/// groups that agree in most are paired, and the comparison says what differs.
pub fn pair(
    base: &Selector,
    candidate: &Selector,
    runs: &[RunRecord],
    _options: &Options,
) -> Result<Pairing, CompareError> {
    let base_runs = ended(base, runs)?;
    let candidate_runs = ended(candidate, runs)?;
    let across_modes = asks_across_modes((base, &base_runs), (candidate, &candidate_runs));
    let base_cells = cells(&base_runs, across_modes);
    let candidate_cells = cells(&candidate_runs, across_modes);

    let mut pairs = Vec::new();
    let mut alone = 0;
    for (key, base_side) in &base_cells {
        match candidate_cells.iter().find(|(other, _)| other == key) {
            Some((_, candidate_side)) => pairs.extend(choose(base_side, candidate_side)),
            None => alone += 1,
        }
    }
    let mut notes = Vec::new();
    if pairs.is_empty() {
        pairs.extend(nearest(&base_cells, &candidate_cells).and_then(|(b, c)| choose(b, c)));
    } else {
        let alone_too = candidate_cells.len() - pairs.len();
        for (selector, other, n) in [(base, candidate, alone), (candidate, base, alone_too)] {
            if n > 0 {
                notes.push(format!(
                    "left out: {n} of {selector}'s workloads, which {other} has not run on the same host"
                ));
            }
        }
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

/// The runs that a selector means and that have ended by themselves. A cancelled run is used only
/// if it is asked for by its id, and then says that it was cancelled.
fn ended<'a>(
    selector: &Selector,
    runs: &'a [RunRecord],
) -> Result<Vec<&'a RunRecord>, CompareError> {
    let by_id = matches!(selector.head, Head::Run(_));
    let mut selected = selector.select(runs)?;
    selected.retain(|run| match run.status.state {
        RunState::Done | RunState::Failed => true,
        RunState::Cancelled => by_id,
        _ => false,
    });
    if selected.is_empty() {
        return Err(CompareError::NotEnded {
            word: selector.to_string(),
        });
    }
    Ok(selected)
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
fn cells<'a>(runs: &[&'a RunRecord], across_modes: bool) -> Vec<(Key, Vec<&'a RunRecord>)> {
    let mut cells = std::collections::BTreeMap::<Key, Vec<&RunRecord>>::new();
    for run in runs {
        let key = Key {
            host_fingerprint: run.host_fingerprint.clone(),
            mode: (!across_modes).then_some(run.status.spec.arm.mode),
            workload_key: run.workload_key.clone(),
        };
        cells.entry(key).or_default().push(run);
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
    let best = all.max_by_key(|((b, b_runs), (c, c_runs))| {
        let host = b.host_fingerprint == c.host_fingerprint;
        let mode = b.mode == c.mode;
        let workload = b.workload_key == c.workload_key;
        (host, mode, workload, newest_age(b_runs), newest_age(c_runs))
    });
    best.map(|((_, b), (_, c))| (b, c))
}

/// The runs of one cell that are used: the newest session with both sides, else the newest of each.
fn choose(base: &[&RunRecord], candidate: &[&RunRecord]) -> Option<Pair> {
    let in_both = |run: &&&RunRecord| base.iter().any(|b| b.session_id == run.session_id);
    let shared = candidate.iter().filter(in_both).max_by_key(|run| age(run));
    let session_of = |side: &[&RunRecord]| {
        let newest = side.iter().max_by_key(|run| age(run))?;
        Some(newest.session_id.clone())
    };
    let (base_session, candidate_session) = match shared {
        Some(run) => (run.session_id.clone(), run.session_id.clone()),
        None => (session_of(base)?, session_of(candidate)?),
    };
    let mut reasons = Vec::new();
    let mut notes = Vec::new();
    let base = group("base", base, &base_session, &mut reasons, &mut notes)?;
    let candidate = group(
        "candidate",
        candidate,
        &candidate_session,
        &mut reasons,
        &mut notes,
    )?;
    let shares_a_run = base
        .runs()
        .any(|b| candidate.runs().any(|c| b.run_id == c.run_id));
    if shares_a_run && reasons.is_empty() {
        reasons.push(Reason {
            code: ReasonCode::SameRuns,
            message: "both sides are the same runs".to_owned(),
            todo: "name two arms of a session (#a, #b), two builds (%BUILD) or two runs (run:ID)"
                .to_owned(),
        });
    }
    if base_session != candidate_session {
        notes.push(
            "the sides were measured in different sessions: drift of the host is in the ratio"
                .to_owned(),
        );
    }
    Some(Pair {
        base,
        candidate,
        design: Design::Unpaired,
        excluded: Vec::new(),
        withheld: Vec::new(),
        reasons,
        notes,
    })
}

/// One side within its session: one arm, and of it the newest build.
fn group(
    name: &str,
    side: &[&RunRecord],
    session: &str,
    reasons: &mut Vec<Reason>,
    notes: &mut Vec<String>,
) -> Option<Group> {
    let mut runs: Vec<&RunRecord> = side
        .iter()
        .copied()
        .filter(|r| r.session_id == session)
        .collect();
    runs.sort_by_key(|run| age(run));
    let newest = *runs.last()?;

    let mut arms: Vec<String> = runs
        .iter()
        .map(|run| format!("#{} ({})", run.arm_letter, run.engine))
        .collect();
    arms.sort();
    arms.dedup();
    if arms.len() > 1 {
        reasons.push(Reason {
            code: ReasonCode::AmbiguousArm,
            message: format!(
                "the {name} names {} arms of session {session}: {}",
                arms.len(),
                arms.join(", ")
            ),
            todo: "add the letter of one arm to the selector".to_owned(),
        });
    }
    runs.retain(|run| run.arm_letter == newest.arm_letter);
    let of_one_arm = runs.len();
    let build = runs.iter().rev().find_map(|run| build(run));
    runs.retain(|run| self::build(run).is_none_or(|b| Some(b) == build));
    if runs.len() < of_one_arm {
        notes.push(format!(
            "left out of the {name}: {} of an earlier build",
            words::count((of_one_arm - runs.len()) as u64, "run")
        ));
    }
    let (newest, older) = runs.split_last()?;
    Some(Group {
        newest: (*newest).clone(),
        older: older.iter().map(|run| (*run).clone()).collect(),
    })
}

/// What tells two builds apart; none for a run that failed before its engine answered.
fn build(run: &RunRecord) -> Option<(Option<&str>, Option<&str>)> {
    let provenance = run.status.provenance.as_ref()?;
    let build = provenance.engine_build.as_deref();
    let binary = provenance.engine_binary_sha256.as_deref();
    (build.is_some() || binary.is_some()).then_some((build, binary))
}

fn age(run: &RunRecord) -> (i64, &str) {
    (run.created_unix_ms, &run.run_id)
}

fn newest_age<'a>(runs: &[&'a RunRecord]) -> Option<(i64, &'a str)> {
    runs.iter().map(|run| age(run)).max()
}

#[cfg(test)]
mod tests;
