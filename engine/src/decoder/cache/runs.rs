//! Runs of blocks: which are free, the first that is long enough is taken. No memory is here.

use std::ops::Range;

/// The free blocks of `0..total`.
#[derive(Debug)]
pub(super) struct Runs {
    /// In order, apart from each other, none empty.
    free: Vec<Range<u32>>,
}

impl Runs {
    /// All of them free.
    pub(super) fn new(total: u32) -> Self {
        Self {
            free: (total > 0).then_some(0..total).into_iter().collect(),
        }
    }

    /// Takes the first free run of `len` blocks, which is at least one.
    pub(super) fn take(&mut self, len: u32) -> Option<Range<u32>> {
        let len = len.max(1);
        let index = self
            .free
            .iter()
            .position(|run| run.end - run.start >= len)?;
        let run = self.free.get_mut(index)?;
        let taken = run.start..run.start + len;
        run.start = taken.end;
        if run.start == run.end {
            self.free.remove(index);
        }
        Some(taken)
    }

    /// Gives a run back that was taken.
    pub(super) fn give(&mut self, run: Range<u32>) {
        let index = self.free.partition_point(|free| free.start < run.start);
        self.free.insert(index, run);
        // Join neighbours.
        let mut joined: Vec<Range<u32>> = Vec::with_capacity(self.free.len());
        for run in self.free.drain(..) {
            match joined.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => joined.push(run),
            }
        }
        self.free = joined;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_never_overlap_and_all_is_free_at_the_end(
            total in 1_u32..60,
            steps in prop::collection::vec((any::<bool>(), 0_u32..20, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut runs = Runs::new(total);
            let mut taken: Vec<Range<u32>> = Vec::new();
            let mut used = vec![false; total as usize];
            for (take, len, which) in steps {
                if take {
                    // The model: the first place where so many are free.
                    let len = len.max(1) as usize;
                    let fits = used.windows(len).position(|place| place.iter().all(|used| !used));
                    let run = runs.take(len as u32);
                    prop_assert_eq!(run.as_ref().map(|run| run.start as usize), fits);
                    if let Some(run) = run {
                        prop_assert_eq!(run.len(), len);
                        used[run.start as usize..run.end as usize].fill(true);
                        taken.push(run);
                    }
                } else if !taken.is_empty() {
                    let run = taken.swap_remove(which.index(taken.len()));
                    used[run.start as usize..run.end as usize].fill(false);
                    runs.give(run);
                }
            }
            for run in taken {
                runs.give(run);
            }
            prop_assert_eq!(runs.take(total), Some(0..total));
            prop_assert_eq!(runs.take(1), None);
        }
    }

    #[test]
    fn nothing_has_no_run() {
        assert_eq!(Runs::new(0).take(0), None);
        assert_eq!(Runs::new(3).take(4), None);
        assert_eq!(Runs::new(3).take(0).unwrap(), 0..1);
    }
}
