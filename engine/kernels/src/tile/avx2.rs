//! The tile with AVX2, FMA and F16C: as many vectors of 8 lanes as 16 registers hold sums for, and
//! the panel in one, two or four passes.

use std::arch::x86_64::{
    __m256, _mm_loadu_si128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32,
    _mm256_storeu_ps,
};

use super::{LANES, Spot};
use crate::element::{Dtype, Element};

/// Lanes of a vector.
const WIDE: usize = 8;

/// # Safety
/// The machine has AVX2, FMA and F16C, and `spot` holds what it says for `rows` rows, at most 12.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn tile<B: Element>(rows: usize, spot: Spot<B>) {
    // More than six rows are two parts of like cost.
    let half = if rows > 6 { rows.div_ceil(2) } else { rows };
    // SAFETY: handed on; both parts are of the `rows` rows.
    unsafe {
        part(&spot, 0, half);
        part(&spot, half, rows - half);
    }
}

/// At most six rows, from `first` on.
///
/// # Safety
/// As [`tile`], for `first + rows` rows.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn part<B: Element>(spot: &Spot<B>, first: usize, rows: usize) {
    // SAFETY: handed on, with the number of rows as a constant.
    unsafe {
        match rows {
            1 => sum::<1, 4, B>(spot, first),
            2 => sum::<2, 4, B>(spot, first),
            3 => sum::<3, 4, B>(spot, first),
            4 => sum::<4, 2, B>(spot, first),
            5 => sum::<5, 2, B>(spot, first),
            6 => sum::<6, 2, B>(spot, first),
            _ => {}
        }
    }
}

/// `M` rows from `first` on, in passes of `V` vectors.
///
/// # Safety
/// As [`tile`], for `first + M` rows.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum<const M: usize, const V: usize, B: Element>(spot: &Spot<B>, first: usize) {
    for lane in (0..LANES).step_by(V * WIDE) {
        let mut sums = [[_mm256_setzero_ps(); V]; M];
        if spot.add {
            unrolled!(r < M, {
                // SAFETY: 32 floats of each row of `c` may be read.
                unsafe {
                    let c = spot.c.add((first + r) * spot.c_row + lane);
                    unrolled!(v < V, sums[r][v] = _mm256_loadu_ps(c.add(v * WIDE)));
                }
            });
        }
        for k in 0..spot.depth {
            // SAFETY: k is below `depth`: 32 elements of `b`'s row k may be read, and element (r, k)
            // of `a` for each of the rows.
            unsafe {
                let b = spot.b.add(k * spot.b_row + lane);
                let mut right = [_mm256_setzero_ps(); V];
                unrolled!(v < V, right[v] = load(b.add(v * WIDE)));
                let a = spot.a.add(first * spot.a_row + k * spot.a_step);
                unrolled!(r < M, {
                    let a = _mm256_set1_ps(*a.add(r * spot.a_row));
                    unrolled!(v < V, sums[r][v] = _mm256_fmadd_ps(a, right[v], sums[r][v]));
                });
            }
        }
        unrolled!(r < M, {
            // SAFETY: 32 floats of each row of `c` may be written.
            unsafe {
                let c = spot.c.add((first + r) * spot.c_row + lane);
                unrolled!(v < V, _mm256_storeu_ps(c.add(v * WIDE), sums[r][v]));
            }
        });
    }
}

/// Eight weights as floats.
///
/// # Safety
/// The machine has AVX2 and F16C, and 8 elements from `b` may be read.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn load<B: Element>(b: *const B) -> __m256 {
    // SAFETY: an element's `DTYPE` is the type's name, so that 8 of it are 32 or 16 bytes.
    unsafe {
        match B::DTYPE {
            Dtype::F32 => _mm256_loadu_ps(b.cast()),
            Dtype::F16 => _mm256_cvtph_ps(_mm_loadu_si128(b.cast())),
            Dtype::Bf16 => {
                let halves = _mm256_cvtepu16_epi32(_mm_loadu_si128(b.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(halves))
            }
        }
    }
}
