//! The tile in plain Rust, for machines without the vectors of the others.

use super::{LANES, Left};
use crate::element::Element;

/// See [`tile`](super::tile()); a multiplication and an addition a step, each rounded.
#[expect(clippy::too_many_arguments, reason = "as the tile it is one case of")]
pub(super) fn tile<B: Element>(
    rows: usize,
    depth: usize,
    left: Left<'_>,
    b: &[B],
    b_row: usize,
    c: &mut [f32],
    c_row: usize,
    add: bool,
) {
    for r in 0..rows {
        let out = &mut c[r * c_row..r * c_row + LANES];
        let mut sums = [0.0_f32; LANES];
        if add {
            sums.copy_from_slice(out);
        }
        for k in 0..depth {
            let a = left.data[r * left.row + k * left.step];
            for (sum, b) in sums.iter_mut().zip(&b[k * b_row..k * b_row + LANES]) {
                *sum += a * b.to_f32();
            }
        }
        out.copy_from_slice(&sums);
    }
}
