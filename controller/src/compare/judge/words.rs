//! The table of words: from an effect to FASTER, SLOWER, EQUIVALENT or NO DIFFERENCE SHOWN.

use crate::compare::judge::evidence::Evidence;
use crate::compare::judge::{Better, Verdict};

/// The first row of the table that holds. Needs Holm's p in the effect.
pub(super) fn verdict(found: &Evidence, better: Better, alpha: f64, margin: f64) -> Verdict {
    let (low, high) = found.effect.interval;
    let practically_equal = within(found.effect.equivalence_interval, margin);
    let excludes_one = high < 1.0 || low > 1.0;
    let holm_agrees = found.effect.p_holm.is_some_and(|p| p < alpha);
    if excludes_one && holm_agrees {
        let rises = low > 1.0;
        let by = (found.ratio - 1.0).abs();
        let near_end = if rises { low } else { high };
        let at_least = (near_end - 1.0).abs();
        return if rises == (better == Better::Higher) {
            Verdict::Faster {
                by,
                at_least,
                practically_equal,
            }
        } else {
            Verdict::Slower {
                by,
                at_least,
                practically_equal,
            }
        };
    }
    if practically_equal {
        return Verdict::Equivalent;
    }
    // The runs there are did not do: a number that is not above theirs would be advice to stop.
    let more = u32::try_from(found.run_count).unwrap_or(u32::MAX);
    let runs_needed = found.effect.runs_needed;
    Verdict::NoDifferenceShown {
        low: low - 1.0,
        high: high - 1.0,
        runs_needed: runs_needed.map(|runs| runs.max(more.saturating_add(1))),
        only_holm: excludes_one,
    }
}

/// Whether the interval lies inside 1/(1+margin) to 1+margin, ends included.
fn within((low, high): (f64, f64), margin: f64) -> bool {
    low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin
}
