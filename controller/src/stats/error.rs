//! Why a statistic cannot be had. A caller shows the words or leaves the figure out; none of these
//! may ever turn into a difference that was "found".

/// What is wrong with the numbers given.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Fewer values than the method needs.
    #[error("too few values: needs {needs}, has {has}")]
    TooFew {
        /// Smallest number that would do.
        needs: usize,
        /// What there is.
        has: usize,
    },
    /// More than can be worked through exactly.
    #[error("too many values for an exact answer")]
    TooMany,
    /// Zero or less, which has no logarithm.
    #[error("a value is zero or negative, so there is no ratio")]
    NotPositive,
    /// NaN or infinite, in what was given or in what came out.
    #[error("a value is not a finite number")]
    NotFinite,
    /// Pairs of which one half is missing.
    #[error("{base} runs cannot be paired with {candidate}")]
    UnequalPairs {
        /// Runs of the base.
        base: usize,
        /// Runs of the candidate.
        candidate: usize,
    },
    /// All values are the same, so nothing says how much they vary.
    #[error("all values are the same, so their noise is not known")]
    NoSpread,
    /// Equal values, too many of them for the way around.
    #[error("equal values among too many for an exact answer")]
    Ties,
    /// A probability outside of what is allowed.
    #[error("{0} is not a probability between 0 and 1")]
    NotAProbability(f64),
}

/// Every value is a finite number.
pub(super) fn finite(values: &[f64]) -> Result<(), StatsError> {
    if values.iter().all(|value| value.is_finite()) {
        Ok(())
    } else {
        Err(StatsError::NotFinite)
    }
}

/// There are at least `needs` values.
pub(super) fn at_least(needs: usize, values: &[f64]) -> Result<(), StatsError> {
    let has = values.len();
    if has < needs {
        return Err(StatsError::TooFew { needs, has });
    }
    Ok(())
}

/// There is a partner for each value.
pub(super) fn same_length(base: &[f64], candidate: &[f64]) -> Result<(), StatsError> {
    if base.len() == candidate.len() {
        return Ok(());
    }
    Err(StatsError::UnequalPairs {
        base: base.len(),
        candidate: candidate.len(),
    })
}
