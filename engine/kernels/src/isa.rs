//! Which vector instructions this machine has, asked at run time.
//!
//! An [`Isa`] exists only for instructions that the machine has: its field is private to this file,
//! and every way to one asks the machine first. That is what makes the calls of `tile` sound.

use std::fmt;

/// Forces an instruction set: `avx512`, `avx2`, `neon` or `portable`.
pub const ISA_ENV: &str = "CHAPTERBENCH_ISA";

/// An instruction set that the kernels are written for, and that this machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

/// All instruction sets that the kernels are written for, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// x86-64 with AVX-512 F, and all of AVX2's kind.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// 64-bit ARM.
    Neon,
    /// Any machine: plain Rust.
    Portable,
}

/// What [`ISA_ENV`] asks for is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{ISA_ENV}={asked}: this machine has {}; set one of these or unset it", names(.available))]
pub struct NoSuchIsa {
    asked: String,
    available: Vec<Isa>,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Asks the processor (and, by the standard library, whether the system keeps the registers).
    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && Self::Avx2.is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Portable => true,
            // What belongs to other machines.
            _ => false,
        }
    }
}

impl Isa {
    /// Plain Rust, which every machine runs.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best that this machine has.
    pub fn detect() -> Self {
        Self::available().first().copied().unwrap_or(Self::PORTABLE)
    }

    /// All that this machine has, best first; the last is [`Isa::PORTABLE`].
    pub fn available() -> Vec<Self> {
        let has = Kind::ALL.into_iter().filter(|kind| kind.is_available());
        has.map(Self).collect()
    }

    /// What [`ISA_ENV`] says, or else the best.
    ///
    /// # Errors
    /// It names none, or one that this machine lacks.
    pub fn from_env() -> Result<Self, NoSuchIsa> {
        match std::env::var_os(ISA_ENV) {
            Some(name) => Self::named(&name.to_string_lossy()),
            None => Ok(Self::detect()),
        }
    }

    fn named(name: &str) -> Result<Self, NoSuchIsa> {
        let available = Self::available();
        match available.iter().find(|isa| isa.0.name() == name) {
            Some(isa) => Ok(*isa),
            None => Err(NoSuchIsa {
                asked: name.to_owned(),
                available,
            }),
        }
    }

    /// Which one it is: the machine has it.
    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

fn names(available: &[Isa]) -> String {
    let names: Vec<_> = available.iter().map(Isa::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn each_available_one_is_found_by_its_name() {
        let available = Isa::available();
        assert_eq!(available.first(), Some(&Isa::detect()));
        assert_eq!(available.last(), Some(&Isa::PORTABLE));
        for isa in available {
            assert_eq!(Isa::named(&isa.to_string()), Ok(isa));
        }
    }

    #[test]
    fn what_the_machine_lacks_is_refused_by_the_variable_s_name() {
        let foreign = if cfg!(target_arch = "x86_64") {
            "neon"
        } else {
            "avx2"
        };
        for name in [foreign, "AVX512", "sse", ""] {
            let error = Isa::named(name).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("CHAPTERBENCH_ISA={name}: ")),
                "{error}"
            );
            assert!(error.contains("portable; set one of these"), "{error}");
        }
    }
}
