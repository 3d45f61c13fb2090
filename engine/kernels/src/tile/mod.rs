//! The primitive under everything: up to [`ROWS_MAX`] rows times a panel of [`LANES`] columns.
//!
//! One file for each instruction set. Each output has its own sum, over the inner dimension strictly
//! in order and with one fused multiply-add a step, so that all vector files give the same bits; plain
//! Rust rounds twice a step.

/// `$body` for each `$i` below `$n` (at most 12), written out: sums stay in registers only if the
/// compiler sees every index, and at this size it does not unroll all loops by itself.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! unrolled {
    ($i:ident < $n:expr, $body:expr) => {
        unrolled!(@ $i, $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (@ $i:ident, $n:expr, $body:expr, $($at:literal)*) => {
        $(if $at < $n {
            let $i: usize = $at;
            $body;
        })*
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use crate::{
    element::Element,
    isa::{Isa, Kind},
};

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

/// The right factor, a panel: element (k, j) is `data[k * row + j]`.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a, B> {
    pub data: &'a [B],
    pub row: usize,
    /// What is read after this panel, to be asked for ahead of its use; none: what lies behind it.
    pub next: Option<&'a [B]>,
}

/// `c[r * c_row + j] (+)= Σ_k left(r, k) · right(k, j)` for r below `rows`, j below [`LANES`],
/// k from 0 to `depth` in order, one multiply-add each. With `add` the sum starts from what `c` holds.
///
/// # Panics
/// There are more than [`ROWS_MAX`] rows, or an index above is beyond its slice.
#[expect(
    clippy::too_many_arguments,
    reason = "a matrix product has two strides a factor"
)]
#[inline]
pub(crate) fn tile<B: Element>(
    isa: Isa,
    rows: usize,
    depth: usize,
    left: Left<'_>,
    right: Right<'_, B>,
    c: &mut [f32],
    c_row: usize,
    add: bool,
) {
    assert!(rows <= ROWS_MAX, "a tile of {rows} rows");
    if rows == 0 {
        return;
    }
    if depth > 0 {
        let last = reach(depth, left.step).zip(reach(rows, left.row));
        let last = last.and_then(|(k, r)| k.checked_add(r));
        assert!(last.is_some_and(|last| last < left.data.len()), "left");
        assert!(fits(reach(depth, right.row), right.data.len()), "right");
    }
    assert!(fits(reach(rows, c_row), c.len()), "sums");
    let spot = Spot {
        depth,
        a: left.data.as_ptr(),
        a_row: left.row,
        a_step: left.step,
        b: right.data.as_ptr(),
        b_row: right.row,
        next: right.next.map(<[B]>::as_ptr),
        c: c.as_mut_ptr(),
        c_row,
        add,
    };
    match isa.kind() {
        // SAFETY (of all that follow): an `Isa` of this kind exists only where the machine has the
        // instructions. `spot` is within the slices for `rows` rows, as asserted above, and nobody
        // else has `c`, which is borrowed exclusively.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::tile(rows, spot) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: see above.
        Kind::Avx2 => unsafe { avx2::tile(rows, spot) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: see above.
        Kind::Neon => unsafe { neon::tile(rows, spot) },
        // The rest is plain Rust, or belongs to other machines.
        _ => portable::tile(rows, depth, left, right.data, right.row, c, c_row, add),
    }
}

/// Where the last of `count` steps begins; `count` is not zero.
fn reach(count: usize, stride: usize) -> Option<usize> {
    (count - 1).checked_mul(stride)
}

/// Whether a panel's row that begins there ends within `len`.
fn fits(last: Option<usize>, len: usize) -> bool {
    last.and_then(|last| last.checked_add(LANES))
        .is_some_and(|end| end <= len)
}

/// What a tile of some rows works on: the arguments of [`tile`], checked there.
///
/// For each row r and each step k below `depth`, `a + r * a_row + k * a_step` may be read; for each k
/// [`LANES`] elements from `b + k * b_row` may be read; for each r [`LANES`] floats from
/// `c + r * c_row` may be read and written.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Spot<B> {
    depth: usize,
    a: *const f32,
    a_row: usize,
    a_step: usize,
    b: *const B,
    b_row: usize,
    /// Only ever asked for ahead, never read: it need not be as long as the panel.
    #[cfg_attr(
        target_arch = "aarch64",
        expect(dead_code, reason = "only the AVX-512 tile asks ahead")
    )]
    next: Option<*const B>,
    c: *mut f32,
    c_row: usize,
    add: bool,
}

#[cfg(test)]
mod tests;
