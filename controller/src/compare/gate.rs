//! From a comparison to the exit code of whoever gates on it.
//!
//! All cells and all their primary metrics count, whichever of them are shown. The codes are those of
//! [`Exit`]; of several cells the worst one is taken.

use crate::compare::judge::Verdict;
use crate::compare::{Cell, Comparison};
use crate::exit::Exit;

/// What ends with another code than 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gate {
    /// SLOWER by more than this share; 0: any SLOWER. None: SLOWER is a result like any other.
    pub fail_on_slower: Option<f64>,
    /// A primary metric without FASTER, SLOWER or EQUIVALENT.
    pub require_verdict: bool,
}

impl Gate {
    /// [`Exit::NotComparable`] always where a cell is not comparable; [`Exit::Slower`] and
    /// [`Exit::Undecided`] where they are asked for.
    pub fn exit(&self, comparison: &Comparison) -> Exit {
        let cells = comparison.cells().map(|cell| self.of_cell(cell));
        cells.fold(Exit::Done, Exit::worse)
    }

    fn of_cell(&self, cell: &Cell) -> Exit {
        if !cell.reasons.is_empty() {
            return Exit::NotComparable;
        }
        let verdicts = cell.primaries().map(|row| row.verdict.as_ref());
        let verdicts: Vec<Option<&Verdict>> = verdicts.collect();
        let slower = |verdict: &Option<&Verdict>| match (verdict, self.fail_on_slower) {
            (Some(Verdict::Slower { by, .. }), Some(limit)) => *by > limit,
            _ => false,
        };
        let undecided = |verdict: &Option<&Verdict>| {
            matches!(
                verdict,
                None | Some(Verdict::None { .. } | Verdict::NoDifferenceShown { .. })
            )
        };
        if verdicts.iter().any(slower) {
            Exit::Slower
        } else if self.require_verdict && (verdicts.is_empty() || verdicts.iter().any(undecided)) {
            Exit::Undecided
        } else {
            Exit::Done
        }
    }
}

#[cfg(test)]
mod tests;
