//! The tile with AVX-512 F: two vectors of 16 lanes a row, all sums in registers.

use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_castsi512_ps,
    _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};

use super::{LANES, Spot};
use crate::element::{Dtype, Element};

/// Lanes of a vector.
const WIDE: usize = 16;
/// Rows of a panel that are asked for ahead: 8 KiB of floats. Weights that come from memory are too
/// late without it where several rows of `a` share them (measured on Zen 4: 8 rows gain a sixth).
const AHEAD: usize = 64;
/// A line of the caches.
const LINE_BYTES: usize = 64;

/// # Safety
/// The machine has AVX-512 F, and `spot` holds what it says for `rows` rows, at most 12.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn tile<B: Element>(rows: usize, spot: Spot<B>) {
    // SAFETY: handed on, with the number of rows as a constant.
    unsafe {
        match rows {
            1 => sum::<1, B>(spot),
            2 => sum::<2, B>(spot),
            3 => sum::<3, B>(spot),
            4 => sum::<4, B>(spot),
            5 => sum::<5, B>(spot),
            6 => sum::<6, B>(spot),
            7 => sum::<7, B>(spot),
            8 => sum::<8, B>(spot),
            9 => sum::<9, B>(spot),
            10 => sum::<10, B>(spot),
            11 => sum::<11, B>(spot),
            12 => sum::<12, B>(spot),
            _ => {}
        }
    }
}

/// # Safety
/// The machine has AVX-512 F, and `spot` holds what it says for `M` rows.
#[target_feature(enable = "avx512f")]
unsafe fn sum<const M: usize, B: Element>(spot: Spot<B>) {
    let (mut low, mut high) = ([_mm512_setzero_ps(); M], [_mm512_setzero_ps(); M]);
    if spot.add {
        unrolled!(r < M, {
            // SAFETY: 32 floats of each row of `c` may be read.
            unsafe {
                let c = spot.c.add(r * spot.c_row);
                low[r] = _mm512_loadu_ps(c);
                high[r] = _mm512_loadu_ps(c.add(WIDE));
            }
        });
    }
    let next = match spot.next {
        Some(next) => next,
        None => spot.b.wrapping_add(AHEAD * LANES),
    };
    for k in 0..spot.depth {
        prefetch(next.wrapping_add(k * LANES));
        // SAFETY: k is below `depth`: 32 elements of `b`'s row k may be read, and element (r, k) of
        // `a` for each of the M rows.
        unsafe {
            let b = spot.b.add(k * spot.b_row);
            let (b_low, b_high) = (load(b), load(b.add(WIDE)));
            let a = spot.a.add(k * spot.a_step);
            unrolled!(r < M, {
                let a = _mm512_set1_ps(*a.add(r * spot.a_row));
                low[r] = _mm512_fmadd_ps(a, b_low, low[r]);
                high[r] = _mm512_fmadd_ps(a, b_high, high[r]);
            });
        }
    }
    unrolled!(r < M, {
        // SAFETY: 32 floats of each row of `c` may be written.
        unsafe {
            let c = spot.c.add(r * spot.c_row);
            _mm512_storeu_ps(c, low[r]);
            _mm512_storeu_ps(c.add(WIDE), high[r]);
        }
    });
}

/// Asks for a row of a panel, wherever that is: a prefetch never faults, and reads nothing that the
/// program could see.
#[target_feature(enable = "avx512f")]
#[inline]
fn prefetch<B>(row: *const B) {
    let row = row.cast::<i8>();
    for line in (0..LANES * size_of::<B>()).step_by(LINE_BYTES) {
        _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(line));
    }
}

/// Sixteen weights as floats.
///
/// # Safety
/// The machine has AVX-512 F, and 16 elements from `b` may be read.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load<B: Element>(b: *const B) -> __m512 {
    // SAFETY: an element's `DTYPE` is the type's name, so that 16 of it are 64 or 32 bytes.
    unsafe {
        match B::DTYPE {
            Dtype::F32 => _mm512_loadu_ps(b.cast()),
            Dtype::F16 => _mm512_cvtph_ps(_mm256_loadu_si256(b.cast())),
            Dtype::Bf16 => {
                let halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(b.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves))
            }
        }
    }
}
