//! Which runs had the same prompts, so that their greedy answers can be compared, between two sides
//! and within one.
//!
//! Cold prompts begin with a nonce that no two blocks share: there, only runs of one block were asked
//! the same.

use contracts::run::CacheState;

use super::hashes;
use crate::compare::Measured;
use crate::record::RunRecord;
use crate::show::words;

/// The base's i-th run with the candidate's i-th; of sides that are not of one length, the shorter
/// one's runs again, so that no run's answers go unseen. Of cold prompts, each with the one that was
/// asked the same.
pub(super) fn pairs<'m, 'a>(
    base: &'m [Measured<'a>],
    candidate: &'m [Measured<'a>],
) -> Vec<(&'m Measured<'a>, &'m Measured<'a>)> {
    if !base.iter().chain(candidate).any(|run| is_cold(run.run)) {
        let longest = base.len().max(candidate.len());
        let both = base.iter().cycle().zip(candidate.iter().cycle());
        return both.take(longest).collect();
    }
    let partner = |run: &'m Measured<'a>| {
        let other = candidate.iter().find(|c| same_prompts(run.run, c.run))?;
        Some((run, other))
    };
    base.iter().filter_map(partner).collect()
}

fn is_cold(run: &RunRecord) -> bool {
    run.status.spec.workload.cache == CacheState::Cold
}

fn same_prompts(base: &RunRecord, candidate: &RunRecord) -> bool {
    base.status.spec.salt == candidate.status.spec.salt
}

/// What to say where a side's own runs gave different answers to the same requests: greedy
/// answers of one engine should not.
pub fn unsteady(name: &str, side: &[Measured<'_>]) -> Option<String> {
    let (first, others) = side.split_first()?;
    if is_cold(first.run) {
        return None;
    }
    let differs = |run: &&Measured<'_>| hashes(first.input, run.input).any(|(_, equal)| !equal);
    let unlike: Vec<&Measured<'_>> = others.iter().filter(differs).collect();
    let (other, more) = unlike.split_first()?;
    let differ = hashes(first.input, other.input).filter(|(_, equal)| !equal);
    let line = format!(
        "the {name} is not deterministic: its run {} answers {} otherwise than its run {}",
        other.run.run_id,
        words::count(differ.count() as u64, "request"),
        first.run.run_id,
    );
    Some(words::likewise(line, more.len() as u64))
}

#[cfg(test)]
mod tests;
