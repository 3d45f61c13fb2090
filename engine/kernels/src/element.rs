//! The types that weights are kept in. Arithmetic is always f32.

use std::any::Any;

use half::{bf16, f16};

/// A type of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// Four bytes.
    F32,
    /// Two bytes, IEEE half precision.
    F16,
    /// Two bytes, the upper half of an f32.
    Bf16,
}

impl Dtype {
    /// Bytes of one weight.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// A weight as it lies in memory.
///
/// # Safety
/// [`Element::DTYPE`] names this very type: the tiles read it by that name. Bytes that are all zero
/// are a value of it: an arena's are.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// Which type it is.
    const DTYPE: Dtype;
    /// Its value, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value of this type.
    fn from_f32(value: f32) -> Self;
}

/// One type to another; the same type keeps every bit.
pub(crate) fn convert<S: Element, E: Element>(value: S) -> E {
    // The comparison of types is done by the compiler.
    match (&value as &dyn Any).downcast_ref::<E>() {
        Some(same) => *same,
        None => E::from_f32(value.to_f32()),
    }
}

// SAFETY: the name is right, and zero bytes are +0.
unsafe impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
    fn to_f32(self) -> f32 {
        self
    }
    fn from_f32(value: f32) -> Self {
        value
    }
}

// SAFETY: the name is right, and zero bytes are +0.
unsafe impl Element for f16 {
    const DTYPE: Dtype = Dtype::F16;
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

// SAFETY: the name is right, and zero bytes are +0.
unsafe impl Element for bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        // As half's, to the nearest and of two the even one; but without a branch on the lost bits,
        // which no processor can predict.
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        // What is no number stays one, as a quiet one.
        let quiet = bits | 0x40 << 16;
        Self::from_bits((if value.is_nan() { quiet } else { rounded } >> 16) as u16)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cases::cases;

    proptest! {
        #![proptest_config(cases(256, 50))]

        #[test]
        fn bf16_is_rounded_as_half_does(bits: u32) {
            let value = f32::from_bits(bits);
            let ours = <bf16 as Element>::from_f32(value);
            prop_assert_eq!(ours.to_bits(), bf16::from_f32(value).to_bits());
        }
    }

    /// Ties to even, the largest number (which becomes infinite), infinities, what is no number.
    #[test]
    fn the_edges_of_bf16_are_half_s() {
        for bits in [
            0x3f80_8000,
            0x3f81_8000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0xffff_ffff,
        ] {
            let value = f32::from_bits(bits);
            let ours = <bf16 as Element>::from_f32(value);
            assert_eq!(ours.to_bits(), bf16::from_f32(value).to_bits(), "{bits:x}");
        }
    }
}
