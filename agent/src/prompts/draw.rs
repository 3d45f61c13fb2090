//! What chance decides in a workload: one generator for each thing drawn, seeded by SHA-256 from
//! what it is for. So any request can be made alone, in any order, on any host.

use contracts::run::{CacheState, Length, RunSpec};
use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use sha2::{Digest, Sha256};

/// Tokens of a normal draw, at most: its tail has no end, and a prompt lies in memory.
const NORMAL_TOKENS_MAX: u32 = 16 << 20;

/// What something is drawn for: draws for different purposes have nothing in common.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// Lengths of prompt and answer.
    Lengths = 1,
    /// A prompt's words.
    Words = 2,
    /// A cold prompt's first words.
    Nonce = 3,
    /// The beginning that prompts share.
    Prefix = 4,
    /// A block of a trace.
    Block = 5,
}

/// The draws of a run.
#[derive(Debug)]
pub(super) struct Draws {
    seed: u64,
    /// Empty unless prompts are cold: then other runs get other words.
    salt: String,
    cold: bool,
    /// Whether warm-up requests are other requests than the measured ones.
    phases_apart: bool,
}

impl Draws {
    pub(super) fn of(spec: &RunSpec) -> Self {
        let cache = spec.workload.cache;
        let cold = cache == CacheState::Cold;
        Self {
            seed: spec.workload.sampling.seed,
            salt: if cold {
                spec.salt.clone()
            } else {
                String::new()
            },
            cold,
            // What is declared warm is warmed by the very prompts that are measured.
            phases_apart: cache != CacheState::Warm,
        }
    }

    /// Whether prompts must be unlike those of all other requests and runs.
    pub(super) fn cold(&self) -> bool {
        self.cold
    }

    /// Draws that are the same in every run of the workload.
    pub(super) fn plain(&self, purpose: Purpose, warmup: bool, index: u64) -> ChaCha8Rng {
        self.generator(purpose, "", Some(warmup), [index, 0])
    }

    /// Draws that are this run's, where prompts are cold, else as [`Self::plain`].
    pub(super) fn salted(&self, purpose: Purpose, warmup: bool, index: u64) -> ChaCha8Rng {
        self.generator(purpose, &self.salt, Some(warmup), [index, 0])
    }

    /// As [`Self::salted`], and the same for warm-up and measured requests.
    pub(super) fn of_both_phases(&self, purpose: Purpose) -> ChaCha8Rng {
        self.generator(purpose, &self.salt, None, [0, 0])
    }

    /// As [`Self::salted`], for block `id` of a pass over a trace.
    pub(super) fn block(&self, warmup: bool, pass: u64, id: u64) -> ChaCha8Rng {
        self.generator(Purpose::Block, &self.salt, Some(warmup), [pass, id])
    }

    /// The hash has a version and a fixed place for each part: the same spec gives the same
    /// prompts in every build.
    fn generator(
        &self,
        purpose: Purpose,
        salt: &str,
        warmup: Option<bool>,
        numbers: [u64; 2],
    ) -> ChaCha8Rng {
        let phase: u8 = match warmup {
            None => 0,
            Some(true) if self.phases_apart => 1,
            Some(_) => 2,
        };
        let mut hasher = Sha256::new();
        hasher.update(b"chapterbench prompts 1");
        hasher.update([purpose as u8, phase]);
        hasher.update(self.seed.to_le_bytes());
        for number in numbers {
            hasher.update(number.to_le_bytes());
        }
        hasher.update(salt.as_bytes());
        ChaCha8Rng::from_seed(hasher.finalize().into())
    }

    /// A line that makes a given text cold. Digits in threes are as many tokens whatever they are,
    /// in tokenizers that take digits one by one and in those that take them by three.
    pub(super) fn nonce_line(&self, warmup: bool, index: u64) -> String {
        let mut draws = self.salted(Purpose::Nonce, warmup, index);
        let groups: [String; 5] =
            std::array::from_fn(|_| format!("{:03}", below(&mut draws, 1000)));
        groups.join(" ") + "\n"
    }
}

/// Whether a request is one of the `share` (0 to 1) that something holds for: of any number of
/// requests in a row as near to that share as can be, without a period.
pub(super) fn is_among(share: f64, index: u32) -> bool {
    /// Multiples of the golden ratio's fraction spread most evenly over 0 to 1.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    (f64::from(index) * GOLDEN).fract() < share
}

/// Uniform in 0 to `n` − 1; 0 for 0. The bias is below n / 2^32.
pub(super) fn below(draws: &mut ChaCha8Rng, n: u32) -> u32 {
    ((u64::from(draws.next_u32()) * u64::from(n)) >> 32) as u32
}

/// Draws a length, at least 1.
pub(super) fn length(draws: &mut ChaCha8Rng, length: Length) -> u32 {
    let tokens = match length {
        Length::Fixed { tokens } => tokens,
        Length::Uniform {
            low_tokens,
            high_tokens,
        } => {
            let span = high_tokens.saturating_sub(low_tokens).saturating_add(1);
            low_tokens.saturating_add(below(draws, span))
        }
        Length::Normal {
            mean_tokens,
            sd_tokens,
        } => match Normal::new(mean_tokens, sd_tokens) {
            // The cast takes what is below 0 to 0.
            Ok(normal) => (normal.sample(draws).round() as u32).min(NORMAL_TOKENS_MAX),
            Err(_) => mean_tokens.round() as u32,
        },
    };
    tokens.max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::super::testing::spec;
    use super::*;

    fn draws(seed: u64, salt: &str, cache: CacheState) -> Draws {
        let mut spec = spec();
        spec.workload.sampling.seed = seed;
        spec.workload.cache = cache;
        spec.salt = salt.to_owned();
        Draws::of(&spec)
    }

    #[test]
    fn nonces_are_distinct_and_of_one_shape() {
        let mut seen = HashSet::new();
        for seed in 0..3 {
            for salt in ["", "a", "b"] {
                let draws = draws(seed, salt, CacheState::Cold);
                for warmup in [true, false] {
                    for index in 0..200 {
                        let line = draws.nonce_line(warmup, index);
                        assert_eq!(line.len(), 20, "{line:?}");
                        assert!(seen.insert(line));
                    }
                }
            }
        }
        assert_eq!(seen.len(), 3 * 3 * 2 * 200);
    }

    #[test]
    fn the_salt_counts_for_cold_prompts_only_and_the_phase_not_for_warm_ones() {
        let first = |draws: &Draws, warmup| draws.salted(Purpose::Words, warmup, 7).next_u64();
        let as_is = draws(0, "a", CacheState::AsIs);
        assert_eq!(
            first(&as_is, false),
            first(&draws(0, "b", CacheState::AsIs), false)
        );
        assert_ne!(first(&as_is, false), first(&as_is, true));
        let cold = draws(0, "a", CacheState::Cold);
        assert_ne!(
            first(&cold, false),
            first(&draws(0, "b", CacheState::Cold), false)
        );
        let warm = draws(0, "a", CacheState::Warm);
        assert_eq!(first(&warm, false), first(&warm, true));
    }

    #[test]
    fn a_share_is_met_by_any_run_of_requests() {
        for share in [0.0, 0.1, 0.5, 0.9, 1.0] {
            for n in [20_u32, 100, 1000] {
                let met = (0..n).filter(|&index| is_among(share, index)).count() as f64;
                assert!(
                    (met - share * f64::from(n)).abs() < 2.0,
                    "{met} of {n} for {share}"
                );
            }
        }
    }

    #[test]
    fn lengths_follow_their_distribution() {
        let draws = draws(3, "", CacheState::AsIs);
        let all = |shape| -> Vec<f64> {
            (0..4000)
                .map(|index| length(&mut draws.plain(Purpose::Lengths, false, index), shape).into())
                .collect()
        };
        let mean = |lengths: &[f64]| lengths.iter().sum::<f64>() / lengths.len() as f64;
        let normal = all(Length::Normal {
            mean_tokens: 100.0,
            sd_tokens: 10.0,
        });
        let center = mean(&normal);
        assert!((center - 100.0).abs() < 1.0, "{center}");
        let spread = mean(
            &normal
                .iter()
                .map(|n| (n - center).powi(2))
                .collect::<Vec<_>>(),
        )
        .sqrt();
        assert!((spread - 10.0).abs() < 0.5, "{spread}");
        let uniform = all(Length::Uniform {
            low_tokens: 8,
            high_tokens: 11,
        });
        for tokens in [8.0, 9.0, 10.0, 11.0] {
            let share = uniform.iter().filter(|&&n| n == tokens).count() as f64 / 4000.0;
            assert!((share - 0.25).abs() < 0.03, "{tokens}: {share}");
        }
        assert!(uniform.iter().all(|n| (8.0..=11.0).contains(n)));
        let tiny = all(Length::Normal {
            mean_tokens: 1.0,
            sd_tokens: 50.0,
        });
        assert!(tiny.iter().all(|&n| n >= 1.0));
        let wide = all(Length::Normal {
            mean_tokens: 1.0,
            sd_tokens: 1e18,
        });
        assert!(wide.contains(&f64::from(NORMAL_TOKENS_MAX)));
        assert!(wide.iter().all(|&n| n <= f64::from(NORMAL_TOKENS_MAX)));
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_within_bounds(seed: u64, n: u32, low in 1_u32.., span: u32) {
            let draws = draws(seed, "s", CacheState::Cold);
            let mut generator = draws.plain(Purpose::Words, false, 0);
            prop_assert!(below(&mut generator, n) < n.max(1));
            let high = low.saturating_add(span);
            let drawn = length(&mut generator, Length::Uniform { low_tokens: low, high_tokens: high });
            prop_assert!((low..=high).contains(&drawn));
        }
    }
}
