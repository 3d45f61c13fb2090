//! One body in plain Rust, compiled once for each instruction set: the compiler makes the vectors.
//!
//! Bodies work on arrays of [`WIDTH`] lanes and sum lane by lane, so that a sum has the same order
//! on each of them. What the compiler would not find, [tiles](crate::tile), is written by hand.

/// Lanes of a sum: one AVX-512 vector, two of AVX2, four of NEON.
pub(crate) const WIDTH: usize = 16;

/// `a · b + c`, rounded once where the instruction set can: elsewhere that would be a call.
#[inline(always)]
pub(crate) fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// The lanes of a sum, folded by halves.
#[inline(always)]
pub(crate) fn fold(mut lanes: [f32; WIDTH], with: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = with(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Makes `fn name(isa, …)` of a body `fn body<const FMA: bool>(…)` that is `#[inline(always)]`.
macro_rules! per_isa {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $body:ident) => {
        $(#[$meta])*
        pub(crate) fn $name(isa: $crate::isa::Isa, $($arg: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn avx512($($arg: $type),*) $(-> $out)? {
                $body::<true>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) $(-> $out)? {
                $body::<true>($($arg),*)
            }
            match isa.kind() {
                // SAFETY: an `Isa` of this kind exists only where the machine has the instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Kind::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: see above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Kind::Avx2 => unsafe { avx2($($arg),*) },
                // Part of every 64-bit ARM.
                #[cfg(target_arch = "aarch64")]
                $crate::isa::Kind::Neon => $body::<true>($($arg),*),
                _ => $body::<false>($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;
