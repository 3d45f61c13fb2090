//! Which runs stand against each other.
//!
//! A cell is one workload on one host in one mode. In each cell that both sides have, the newest
//! session that holds both is taken, else the newest session of each side (`choose`). Of these
//! runs `rules` and `blocks` leave some out, by rules that were fixed before anyone looked;
//! `evidence` says whether what is left may have a verdict. What may not be compared all the same
//! is [`super::lint`]'s business.

mod blocks;
mod cells;
mod choose;
mod evidence;
mod pair;
mod rules;

use contracts::run::RunState;

use crate::compare::{CompareError, Options};
use crate::record::RunRecord;
use crate::selector::{Head, Selector};
use cells::{Open, cells, nearest};
use choose::Ask;
pub use pair::{Excluded, Group, Pair};
pub use rules::{FOREIGN_CPU_CONTAMINATED, unusable};
pub(crate) use rules::{contaminated, unnamed};

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

/// Chooses the runs to compare from all stored ones. Where no cell has both sides, the two newest
/// groups that agree in most are paired, and the comparison says what differs.
pub fn pair(
    base: &Selector,
    candidate: &Selector,
    runs: &[RunRecord],
    options: &Options,
) -> Result<Pairing, CompareError> {
    let mut base_runs = ended(base, runs)?;
    let mut candidate_runs = ended(candidate, runs)?;
    let itself = base == candidate;
    let older = itself && choose::only_newest_session(&mut base_runs);
    if itself {
        candidate_runs.clone_from(&base_runs);
    }
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
    if older {
        notes.push(format!(
            "left out: older sessions of {base}; session:ID against itself looks at one of them"
        ));
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
                "left out: {n} of {selector}'s workloads on a host and in a mode, which {other} has not run"
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

fn age(run: &RunRecord) -> (i64, &str) {
    (run.created_unix_ms, &run.run_id)
}

#[cfg(test)]
mod tests;
