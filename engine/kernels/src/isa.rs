//! Which vector instructions this machine has, asked once at run time.

/// An instruction set that the kernels are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// x86-64 with AVX-512 F.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// 64-bit ARM.
    Neon,
    /// Any machine: plain Rust.
    Portable,
}

impl Isa {
    /// The best that this machine has.
    pub fn detect() -> Self {
        Self::Portable
    }
}
