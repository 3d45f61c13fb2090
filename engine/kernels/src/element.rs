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
        bf16::from_f32(value)
    }
}
