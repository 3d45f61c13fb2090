//! The primitive under everything: up to [`ROWS_MAX`] rows times a panel of [`LANES`] columns.

mod portable;

use crate::{element::Element, isa::Isa};

/// Columns of a panel.
pub(crate) const LANES: usize = 32;
/// Rows of one tile, at most: as many accumulators as AVX-512 has registers for.
pub(crate) const ROWS_MAX: usize = 12;

/// The left factor: element (r, k) is `data[r * row + k * step]`.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub data: &'a [f32],
    pub row: usize,
    pub step: usize,
}

/// `c[r * c_row + j] (+)= Σ_k left(r, k) · b[k * b_row + j]` for r below `rows`, j below [`LANES`],
/// k from 0 to `depth` in order, one multiply-add each. With `add` the sum starts from what `c` holds.
#[expect(
    clippy::too_many_arguments,
    reason = "a matrix product has two strides a factor"
)]
pub(crate) fn tile<B: Element>(
    isa: Isa,
    rows: usize,
    depth: usize,
    left: Left<'_>,
    b: &[B],
    b_row: usize,
    c: &mut [f32],
    c_row: usize,
    add: bool,
) {
    match isa {
        _ => portable::tile(rows, depth, left, b, b_row, c, c_row, add),
    }
}
