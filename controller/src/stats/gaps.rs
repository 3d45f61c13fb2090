//! Gaps between the content events of a run's answers (ITL), pooled: how often each gap came, by
//! microsecond. Quantiles are those of the gaps themselves, and memory does not grow with a run.

use std::collections::BTreeMap;

/// Up to here a gap is kept to the µs. Beyond, to the ms: an error below 0.1 %, so that a run of
/// stalls cannot fill the memory with gaps of which each came once.
const EXACT_BELOW_US: u64 = 1_000_000;
const COARSE_US: u64 = 1_000;

/// Counts of gaps by their length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GapCounts {
    /// How many gaps of each µs there are, as far as the longest of them: a run has millions.
    exact: Vec<u32>,
    /// The long ones.
    coarse: BTreeMap<u64, u64>,
    count: u64,
    sum_us: u128,
}

impl GapCounts {
    /// No gap.
    pub const EMPTY: Self = Self {
        exact: Vec::new(),
        coarse: BTreeMap::new(),
        count: 0,
        sum_us: 0,
    };

    /// Takes one answer's content events as µs since it was sent, ascending. The first is no gap.
    pub fn push(&mut self, events_us: &[u64]) {
        for pair in events_us.windows(2) {
            if let [before, after] = pair {
                let us = after.saturating_sub(*before);
                self.add(us, 1);
                self.sum_us += u128::from(us);
            }
        }
    }

    /// Takes another's counts too.
    pub fn merge(&mut self, other: &Self) {
        for (us, n) in other.counts() {
            self.add(us, n);
        }
        self.sum_us += other.sum_us;
    }

    /// How often each length came, ascending: µs, number.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let exact = (0u64..).zip(&self.exact).filter(|(_, n)| **n > 0);
        let exact = exact.map(|(us, n)| (us, u64::from(*n)));
        exact.chain(self.coarse.iter().map(|(us, n)| (*us, *n)))
    }

    /// Sum of all gaps in µs, before any was rounded.
    pub fn sum_us(&self) -> u128 {
        self.sum_us
    }

    /// From what [`GapCounts::counts`] and [`GapCounts::sum_us`] gave.
    pub fn of_counts(counts: impl Iterator<Item = (u64, u64)>, sum_us: u128) -> Self {
        let mut gaps = Self::default();
        for (us, n) in counts {
            gaps.add(us, n);
        }
        Self { sum_us, ..gaps }
    }

    /// How many gaps there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean in ms; none of nothing.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us as f64 / self.count as f64 / 1e3)
    }

    /// Quantile in ms by definition 7 of Hyndman and Fan, as
    /// [`quantile::quantile`](super::quantile::quantile) gives it of the gaps; none of nothing or
    /// for `q` outside 0 to 1.
    pub fn quantile_ms(&self, q: f64) -> Option<f64> {
        if self.count == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let h = (self.count - 1) as f64 * q;
        let below = self.ranked(h.floor() as u64)? as f64;
        let above = self.ranked(h.ceil() as u64)? as f64;
        Some((below + (h - h.floor()) * (above - below)) / 1e3)
    }

    /// The gap that `rank` others are not longer than, from 0.
    fn ranked(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        let gap = self.counts().find(|(_, n)| {
            seen += n;
            seen > rank
        });
        gap.map(|(us, _)| us)
    }

    /// Counts `n` gaps of this length, which is rounded if it is a long one.
    fn add(&mut self, us: u64, n: u64) {
        self.count = self.count.saturating_add(n);
        if us >= EXACT_BELOW_US {
            let kept = us.saturating_add(COARSE_US / 2) / COARSE_US * COARSE_US;
            let counted = self.coarse.entry(kept).or_default();
            *counted = counted.saturating_add(n);
            return;
        }
        let at = us as usize;
        if at >= self.exact.len() && n > 0 {
            self.exact.resize(at + 1, 0);
        }
        if let Some(counted) = self.exact.get_mut(at) {
            *counted = counted.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::quantile::quantile;

    #[test]
    fn the_first_event_is_no_gap() {
        let mut gaps = GapCounts::default();
        gaps.push(&[50_000]);
        gaps.push(&[]);
        assert_eq!((gaps.count(), gaps.quantile_ms(0.5)), (0, None));
        gaps.push(&[50_000, 60_000, 60_000]);
        assert_eq!(gaps.count(), 2);
        assert_eq!(gaps.mean_ms(), Some(5.0));
        assert_eq!(gaps.quantile_ms(0.5), Some(5.0));
        assert_eq!(gaps.quantile_ms(1.5), None);
    }

    #[test]
    fn long_gaps_are_kept_to_the_millisecond() {
        let mut gaps = GapCounts::default();
        gaps.push(&[0, 999_999]);
        gaps.push(&[0, 2_000_600]);
        assert_eq!(gaps.quantile_ms(0.0), Some(999.999));
        assert_eq!(gaps.quantile_ms(1.0), Some(2001.0));
        assert_eq!(gaps.mean_ms(), Some(1500.2995), "the mean is of what came");
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_gaps(
            answers in prop::collection::vec(prop::collection::vec(0u64..500_000, 0..40), 1..8),
            q in 0.0..=1.0,
        ) {
            let mut all = Vec::new();
            let mut halves = [GapCounts::default(), GapCounts::default()];
            for (i, gaps) in answers.iter().enumerate() {
                let mut at = 7;
                let mut events = vec![at];
                for gap in gaps {
                    at += gap;
                    events.push(at);
                    all.push(*gap as f64 / 1e3);
                }
                halves[i % 2].push(&events);
            }
            let [mut merged, other] = halves;
            merged.merge(&other);
            prop_assert_eq!(merged.count(), all.len() as u64);
            match (merged.quantile_ms(q), quantile(&all, q)) {
                (Some(got), Some(want)) => prop_assert!((got - want).abs() < 1e-9, "{got} {want}"),
                (got, want) => prop_assert_eq!(got, want),
            }
        }
    }

    #[test]
    fn quantile_of_one_gap_is_the_gap() {
        let mut gaps = GapCounts::default();
        gaps.push(&[1_000, 11_500]);
        assert_eq!(gaps.quantile_ms(0.99).unwrap(), 10.5);
    }
}
