//! One chunk of positions for one tile of query rows: scores, softmax, weighted values; and how the
//! chunks of a row become one.

use super::plan::CHUNK;
use crate::{
    exp::exp,
    isa::Isa,
    kv::{BLOCK, KvBlocks, KvShape, Place},
    simd::{WIDTH, fold, multiply_add, per_isa},
    tile::{LANES, Left, ROWS_MAX, Right, tile},
};

/// Query rows of a tile.
pub(super) struct Queries<'a> {
    /// `[rows][head_dim]`, divided by √head_dim.
    pub scaled: &'a [f32],
    pub rows: usize,
    /// Positions that each row may see.
    pub seen: [usize; ROWS_MAX],
}

/// A chunk of a sequence's positions, of one layer and key head.
pub(super) struct Chunk<'a> {
    pub kv: &'a KvBlocks,
    pub layer: usize,
    pub head: usize,
    /// All blocks of the sequence.
    pub blocks: &'a [u32],
    /// The chunk's first position.
    pub first: usize,
}

/// What some positions give for a tile of rows, before it is divided by the weights' sum.
pub(super) struct Part<'a> {
    /// Largest score of each row.
    max: &'a mut [f32],
    /// Sum of its weights, e^(score - max).
    sum: &'a mut [f32],
    /// Values by their weights: `[rows][head_dim up to a multiple of 32]`.
    values: &'a mut [f32],
}

impl Chunk<'_> {
    /// Fills `part` from this chunk's positions alone.
    ///
    /// Of positions that no row may see nothing is used: the sequence may not have written them.
    pub fn attend(&self, isa: Isa, q: &Queries<'_>, scores: &mut Vec<f32>, part: &mut Part<'_>) {
        let seen = q
            .seen
            .map(|seen| seen.saturating_sub(self.first).min(CHUNK));
        let positions = seen[q.rows - 1]; // the last row sees most
        scores.resize(ROWS_MAX * CHUNK, 0.0);
        let depth = self.kv.shape.head_dim;
        for first in (0..positions).step_by(BLOCK) {
            let left = Left {
                data: q.scaled,
                row: depth,
                step: 1,
            };
            let keys = Right {
                data: self.kv.keys(self.place(first)),
                row: BLOCK,
                next: Some(match first + BLOCK < positions {
                    true => self.kv.keys(self.place(first + BLOCK)),
                    false => self.kv.values(self.place(0)),
                }),
            };
            tile(
                isa,
                q.rows,
                depth,
                left,
                keys,
                &mut scores[first..],
                CHUNK,
                false,
            );
        }
        let wide = positions.next_multiple_of(BLOCK);
        for (r, scores) in scores.chunks_exact_mut(CHUNK).enumerate().take(q.rows) {
            (part.max[r], part.sum[r]) = soften(isa, &mut scores[..wide], seen[r]);
        }
        let row = self.kv.shape.value_row();
        for first in (0..positions).step_by(BLOCK) {
            let values = self.kv.values(self.place(first));
            let next = self.after_values(first, positions);
            let left = Left {
                data: &scores[first..],
                row: CHUNK,
                step: 1,
            };
            let depth = BLOCK.min(positions - first);
            for slice in (0..row).step_by(LANES) {
                let right = Right {
                    data: &values[slice..],
                    row,
                    // Slice by slice the whole of what is next.
                    next: next.and_then(|next| next.get(slice * BLOCK..)),
                };
                let sums = &mut part.values[slice..];
                tile(isa, q.rows, depth, left, right, sums, row, first > 0);
            }
        }
    }

    /// What is read after a block's values: those of the next block, or the keys of the next chunk.
    fn after_values(&self, first: usize, positions: usize) -> Option<&[f32]> {
        let next = first + BLOCK;
        if next < positions {
            return Some(self.kv.values(self.place(next)));
        }
        let block = *self.blocks.get((self.first + next) / BLOCK)?;
        Some(self.kv.keys(Place {
            block,
            layer: self.layer,
            head: self.head,
        }))
    }

    fn place(&self, first: usize) -> Place {
        Place {
            block: self.blocks[(self.first + first) / BLOCK],
            layer: self.layer,
            head: self.head,
        }
    }
}

impl<'a> Part<'a> {
    /// Floats of a part of up to [`ROWS_MAX`] rows.
    pub fn floats(shape: &KvShape) -> usize {
        ROWS_MAX * (2 + shape.value_row())
    }

    /// A part in memory of [`Part::floats`] floats, with what it holds.
    pub fn of(memory: &'a mut [f32], shape: &KvShape, rows: usize) -> Self {
        let (max, rest) = memory.split_at_mut(rows);
        let (sum, values) = rest.split_at_mut(rows);
        Self {
            max,
            sum,
            values: &mut values[..rows * shape.value_row()],
        }
    }

    /// Adds the positions of `other`, which come after this part's.
    ///
    /// A row that sees none of them has the largest score -∞, the sum 0 and values 0: it keeps
    /// its bits.
    pub fn merge(&mut self, isa: Isa, other: &Part<'_>) {
        let row = self.values.len() / self.max.len();
        let values = self
            .values
            .chunks_exact_mut(row)
            .zip(other.values.chunks_exact(row));
        for (r, (values, others)) in values.enumerate() {
            let (max, sum) = (&mut self.max[r], &mut self.sum[r]);
            (*max, *sum) = join(
                isa,
                (*max, *sum, values),
                (other.max[r], other.sum[r], others),
            );
        }
    }

    /// A row's attention: `[head_dim]`.
    pub fn row(&self, r: usize, out: &mut [f32]) {
        let row = self.values.len() / self.max.len();
        let scale = 1.0 / self.sum[r];
        for (out, value) in out.iter_mut().zip(&self.values[r * row..]) {
            *out = value * scale;
        }
    }
}

per_isa! {
    /// Turns a row's scores into weights e^(score - max), 0 from `seen` on; gives maximum and sum.
    fn soften(scores: &mut [f32], seen: usize) -> (f32, f32) = soften_body
}

#[inline(always)]
fn soften_body<const FMA: bool>(scores: &mut [f32], seen: usize) -> (f32, f32) {
    if seen == 0 {
        scores.fill(0.0);
        return (f32::NEG_INFINITY, 0.0);
    }
    // Scores of unwritten keys may be anything, a NaN too.
    scores[seen..].fill(f32::NEG_INFINITY);
    let (vectors, rest) = scores.as_chunks_mut::<WIDTH>();
    debug_assert!(rest.is_empty());
    let mut lanes = [f32::NEG_INFINITY; WIDTH];
    for vector in &*vectors {
        for (lane, &score) in lanes.iter_mut().zip(vector) {
            *lane = if score > *lane { score } else { *lane };
        }
    }
    let max = fold(lanes, |a, b| if b > a { b } else { a });
    let mut sums = [0.0_f32; WIDTH];
    for vector in vectors {
        for (sum, score) in sums.iter_mut().zip(vector) {
            *score = exp::<FMA>(*score - max);
            *sum += *score;
        }
    }
    (max, fold(sums, |a, b| a + b))
}

type Row<'a> = (f32, f32, &'a [f32]);

per_isa! {
    /// Merges two parts of a row into the first; gives its new maximum and sum.
    fn join(into: (f32, f32, &mut [f32]), other: Row<'_>) -> (f32, f32) = join_body
}

#[inline(always)]
fn join_body<const FMA: bool>(into: (f32, f32, &mut [f32]), other: Row<'_>) -> (f32, f32) {
    let max = if other.0 > into.0 { other.0 } else { into.0 };
    let (keep, gain) = (exp::<FMA>(into.0 - max), exp::<FMA>(other.0 - max));
    for (value, other) in into.2.iter_mut().zip(other.2) {
        *value = multiply_add::<FMA>(*other, gain, *value * keep);
    }
    (max, multiply_add::<FMA>(other.1, gain, into.1 * keep))
}
