//! The types that weights are kept in. Arithmetic is always f32.

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
pub trait Element: Copy + Send + Sync + 'static {
    /// Its value, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value of this type.
    fn from_f32(value: f32) -> Self;
}

impl Element for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Element for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Element for bf16 {
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
}
