//! The exponential function of what is not positive, in a form that the compiler turns into vectors.
//!
//! A softmax asks for no more (its largest score is subtracted first), nor does a sigmoid. The
//! standard library's `exp` is one call a value: a third of attention's time.

use crate::simd::multiply_add;

/// Below it 2ⁿ would be no normal number: e^-87.3 is 1.2e-38, which is taken for zero.
const SMALLEST: f32 = -87.3;
/// Added and taken off again, it rounds to a whole number, which then lies in its lowest bits.
const ROUND: f32 = 12_582_912.0; // 1.5 · 2²³

/// e^x for x ≤ 0, within two units in the last place; exactly 0 below -87.3, exactly 1 at 0.
///
/// x = n ln 2 + r with n whole and |r| ≤ ln 2 / 2; then e^x = 2ⁿ e^r. Coefficients of e^r and the two
/// parts of ln 2 are those of Cephes' `expf` (Moshier 1992).
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4; // exact in ten bits, so that n times it is, too
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let shifted = multiply_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FMA>(n, -LN2_HIGH, x);
    let r = multiply_add::<FMA>(n, -LN2_LOW, r);
    let mut sum = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        sum = multiply_add::<FMA>(sum, r, coefficient);
    }
    let e_r = multiply_add::<FMA>(sum, r * r, r) + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    // A comparison, not a maximum: what is no number stays none.
    if x < SMALLEST { 0.0 } else { e_r * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_exponential_of_double_precision() {
        let steps = if cfg!(miri) { 500 } else { 1_000_000 };
        for i in 0..=steps {
            let x = SMALLEST * i as f32 / steps as f32;
            let true_value = f64::from(x).exp();
            for value in [exp::<true>(x), exp::<false>(x)] {
                let error = (f64::from(value) - true_value).abs() / true_value;
                assert!(error < 2.4e-7, "x {x}: {value:e}, off by {error:e}");
            }
        }
    }

    #[test]
    fn keeps_its_edges() {
        for exp in [exp::<true>, exp::<false>] {
            assert_eq!(exp(0.0), 1.0);
            assert_eq!(exp(-0.0), 1.0);
            for x in [-87.4, -1e3, -1e30, f32::MIN, f32::NEG_INFINITY] {
                assert_eq!(exp(x).to_bits(), 0, "x {x}");
            }
            assert!(exp(f32::NAN).is_nan());
        }
    }
}
