//! Who does what in one step's attention: tiles of query rows, and tasks of about the same length.

use std::ops::Range;

use super::Span;
use crate::tile::ROWS_MAX;

/// Positions whose scores are computed at once: four blocks.
pub(super) const CHUNK: usize = 128;
/// Tasks for each thread, if the step is long enough: one that is held up leaves some to the others.
const TASKS_PER_THREAD: usize = 4;

/// A tile of query rows: of one sequence, of heads that share a key head.
///
/// A span's rows of a key head are counted token by token, and within a token by its `group` of
/// query heads; a tile is up to [`ROWS_MAX`] of them.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub span: usize,
    /// The key head.
    pub head: usize,
    pub rows: usize,
    /// Its first row among those of the span and head.
    first: usize,
    group: usize,
    /// The span's first token in the step, and that token's position.
    token: usize,
    start: usize,
    /// Where its chunks are kept until they are merged, if several tasks do them.
    pub slot: Option<usize>,
}

/// Some chunks of a unit.
#[derive(Debug)]
pub(super) struct Task {
    pub unit: usize,
    pub chunks: Range<usize>,
}

/// One step's work.
#[derive(Debug)]
pub(super) struct Plan {
    pub units: Vec<Unit>,
    pub tasks: Vec<Task>,
    /// Chunks of all units that are split.
    pub slots: usize,
}

impl Unit {
    /// Token within the step and query head of a row.
    pub fn row(&self, r: usize) -> (usize, usize) {
        let row = self.first + r;
        let head = self.head * self.group + row % self.group;
        (self.token + row / self.group, head)
    }

    /// Positions that each row may see; those beyond `rows` see none.
    pub fn seen(&self) -> [usize; ROWS_MAX] {
        let mut seen = [0; ROWS_MAX];
        for (r, seen) in seen.iter_mut().enumerate().take(self.rows) {
            *seen = self.start + (self.first + r) / self.group + 1;
        }
        seen
    }

    /// Chunks up to what its last row may see.
    fn chunks(&self) -> usize {
        self.seen()[self.rows - 1].div_ceil(CHUNK)
    }
}

impl Plan {
    /// Tiles of all spans, and tasks of whole tiles, or of parts of those that would take long.
    pub fn new(spans: &[Span<'_>], kv_heads: usize, group: usize, threads: usize) -> Self {
        let mut units = Vec::new();
        let mut token = 0;
        for (index, span) in spans.iter().enumerate() {
            // Head by head: its keys and values stay in the cache from tile to tile.
            for head in 0..kv_heads {
                for first in (0..span.len * group).step_by(ROWS_MAX) {
                    units.push(Unit {
                        span: index,
                        head,
                        rows: ROWS_MAX.min(span.len * group - first),
                        first,
                        group,
                        token,
                        start: span.start,
                        slot: None,
                    });
                }
            }
            token += span.len;
        }
        let chunks: usize = units.iter().map(Unit::chunks).sum();
        let long = match threads {
            1 => usize::MAX,
            _ => chunks.div_ceil(threads * TASKS_PER_THREAD),
        };
        let (mut tasks, mut slots) = (Vec::with_capacity(units.len()), 0);
        for (unit, of) in units.iter_mut().enumerate() {
            let chunks = of.chunks();
            if chunks > long {
                of.slot = Some(slots);
                slots += chunks;
            }
            tasks.extend((0..chunks).step_by(long.min(chunks)).map(|first| Task {
                unit,
                chunks: first..chunks.min(first.saturating_add(long)),
            }));
        }
        Self {
            units,
            tasks,
            slots,
        }
    }

    /// Units that several tasks do, and the slots of their chunks.
    pub fn split_units(&self) -> impl Iterator<Item = (&Unit, Range<usize>)> {
        let split = self.units.iter();
        split.filter_map(|unit| unit.slot.map(|slot| (unit, slot..slot + unit.chunks())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, len: usize) -> Span<'static> {
        Span {
            blocks: &[],
            start,
            len,
        }
    }

    #[test]
    fn covers_each_head_of_each_token_and_each_chunk_once() {
        for (group, threads) in [(1, 1), (3, 2), (5, 3), (32, 2), (9, 4)] {
            let spans = [span(0, 7), span(1000, 1), span(5, 0), span(120, 20)];
            let plan = Plan::new(&spans, 2, group, threads);
            let mut rows: Vec<_> = plan
                .units
                .iter()
                .flat_map(|u| (0..u.rows).map(|r| u.row(r)))
                .collect();
            rows.sort_unstable();
            let all = (0..28).flat_map(|token| (0..2 * group).map(move |head| (token, head)));
            assert!(rows.into_iter().eq(all));
            let mut chunks: Vec<_> = plan
                .tasks
                .iter()
                .flat_map(|t| t.chunks.clone().map(|c| (t.unit, c)))
                .collect();
            chunks.sort_unstable();
            let all = plan
                .units
                .iter()
                .enumerate()
                .flat_map(|(u, unit)| (0..unit.chunks()).map(move |c| (u, c)));
            assert!(chunks.into_iter().eq(all));
        }
    }

    #[test]
    fn a_row_sees_its_own_position_and_those_before() {
        let plan = Plan::new(&[span(126, 5)], 1, 5, 1);
        let seen: Vec<_> = plan
            .units
            .iter()
            .flat_map(|u| u.seen()[..u.rows].to_vec())
            .collect();
        let expected: Vec<_> = (0..25).map(|row| 127 + row / 5).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_long_context_is_split_and_many_short_ones_are_not() {
        let long = Plan::new(&[span(1023, 1)], 3, 3, 2);
        assert_eq!((long.units.len(), long.slots, long.tasks.len()), (3, 24, 9));
        let alone = Plan::new(&[span(1023, 1)], 3, 3, 1);
        assert_eq!((alone.slots, alone.tasks.len()), (0, 3));
        let many = Plan::new(&[span(100, 1); 16], 3, 3, 2);
        assert_eq!((many.slots, many.tasks.len()), (0, 48));
    }
}
