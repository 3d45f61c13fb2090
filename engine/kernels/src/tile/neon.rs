//! The tile with NEON: as many vectors of 4 lanes as 32 registers hold sums for, and the panel in
//! one, two or four passes.

use std::arch::aarch64::{
    float32x4_t, uint32x4_t, vandq_u32, vcgeq_u32, vdupq_n_f32, vdupq_n_u32, vfmaq_n_f32, vld1_u16,
    vld1q_f32, vmovl_u16, vmulq_n_f32, vorrq_u32, vreinterpretq_f32_u32, vreinterpretq_u32_f32,
    vshlq_n_u32, vst1q_f32,
};

use super::{LANES, Spot};
use crate::element::{Dtype, Element};

/// Lanes of a vector.
const WIDE: usize = 4;

/// # Safety
/// The machine has NEON, and `spot` holds what it says for `rows` rows, at most 12.
#[target_feature(enable = "neon")]
pub(super) unsafe fn tile<B: Element>(rows: usize, spot: Spot<B>) {
    // SAFETY: handed on, with the number of rows as a constant.
    unsafe {
        match rows {
            1 => sum::<1, 8, B>(&spot),
            2 => sum::<2, 8, B>(&spot),
            3 => sum::<3, 4, B>(&spot),
            4 => sum::<4, 4, B>(&spot),
            5 => sum::<5, 4, B>(&spot),
            6 => sum::<6, 4, B>(&spot),
            7 => sum::<7, 2, B>(&spot),
            8 => sum::<8, 2, B>(&spot),
            9 => sum::<9, 2, B>(&spot),
            10 => sum::<10, 2, B>(&spot),
            11 => sum::<11, 2, B>(&spot),
            12 => sum::<12, 2, B>(&spot),
            _ => {}
        }
    }
}

/// `M` rows in passes of `V` vectors.
///
/// # Safety
/// As [`tile`], for `M` rows.
#[target_feature(enable = "neon")]
unsafe fn sum<const M: usize, const V: usize, B: Element>(spot: &Spot<B>) {
    for lane in (0..LANES).step_by(V * WIDE) {
        let mut sums = [[vdupq_n_f32(0.0); V]; M];
        if spot.add {
            unrolled!(r < M, {
                // SAFETY: 32 floats of each row of `c` may be read.
                unsafe {
                    let c = spot.c.add(r * spot.c_row + lane);
                    unrolled!(v < V, sums[r][v] = vld1q_f32(c.add(v * WIDE)));
                }
            });
        }
        for k in 0..spot.depth {
            // SAFETY: k is below `depth`: 32 elements of `b`'s row k may be read, and element (r, k)
            // of `a` for each of the rows.
            unsafe {
                let b = spot.b.add(k * spot.b_row + lane);
                let mut right = [vdupq_n_f32(0.0); V];
                unrolled!(v < V, right[v] = load(b.add(v * WIDE)));
                let a = spot.a.add(k * spot.a_step);
                unrolled!(r < M, {
                    let a = *a.add(r * spot.a_row);
                    unrolled!(v < V, sums[r][v] = vfmaq_n_f32(sums[r][v], right[v], a));
                });
            }
        }
        unrolled!(r < M, {
            // SAFETY: 32 floats of each row of `c` may be written.
            unsafe {
                let c = spot.c.add(r * spot.c_row + lane);
                unrolled!(v < V, vst1q_f32(c.add(v * WIDE), sums[r][v]));
            }
        });
    }
}

/// Four weights as floats.
///
/// # Safety
/// The machine has NEON, and 4 elements from `b` may be read.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn load<B: Element>(b: *const B) -> float32x4_t {
    // SAFETY: an element's `DTYPE` is the type's name, so that 4 of it are 16 or 8 bytes.
    unsafe {
        match B::DTYPE {
            Dtype::F32 => vld1q_f32(b.cast()),
            Dtype::F16 => half_to_f32(vmovl_u16(vld1_u16(b.cast()))),
            Dtype::Bf16 => vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(vld1_u16(b.cast())))),
        }
    }
}

/// IEEE halves, each in 32 bits, as floats: the instruction for it is not yet to be had in stable
/// Rust without the arithmetic on halves, which early ARMv8 lacks.
///
/// Exponent and mantissa move to their places, and a product with 2¹¹² mends the exponent's bias, of
/// subnormal halves too. Infinities and what is no number then get a full exponent.
#[target_feature(enable = "neon")]
#[inline]
fn half_to_f32(halves: uint32x4_t) -> float32x4_t {
    /// 2¹¹²: the bias of a float's exponent, 127, less that of a half's, 15.
    const BIAS: f32 = f32::from_bits((127 + 112) << 23);
    let moved = vshlq_n_u32::<13>(vandq_u32(halves, vdupq_n_u32(0x7fff)));
    let value = vreinterpretq_u32_f32(vmulq_n_f32(vreinterpretq_f32_u32(moved), BIAS));
    let special = vcgeq_u32(moved, vdupq_n_u32(0x7c00 << 13));
    let exponent = vandq_u32(special, vdupq_n_u32(0xff << 23));
    let sign = vshlq_n_u32::<16>(vandq_u32(halves, vdupq_n_u32(0x8000)));
    vreinterpretq_f32_u32(vorrq_u32(vorrq_u32(value, exponent), sign))
}
