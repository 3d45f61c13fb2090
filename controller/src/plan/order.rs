//! In which order the arms of a session run, and the letters they have. Pure.

use std::ops::Range;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// In which order the arms of a session run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A B, B A, A B, …: a drift of the machine hits all arms alike.
    Abba,
    /// A A A, B B B.
    Blocked,
}

impl Order {
    /// As it is written and stored.
    pub fn word(self) -> &'static str {
        match self {
            Self::Abba => "abba",
            Self::Blocked => "blocked",
        }
    }
}

/// Places of the arms as the first block runs them: as they were named where `seed` is 0, else
/// shuffled by it, so that no arm is always the first to meet a cold machine.
pub fn arranged(arms: usize, seed: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..arms).collect();
    if seed != 0 {
        places.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    }
    places
}

/// (arm, pass) in the order of running, for the passes that are asked for: every other one runs
/// backwards, so that a session that is extended turns on as it began.
pub fn sequence(arms: usize, passes: Range<u32>, order: Order) -> Vec<(usize, u32)> {
    match order {
        Order::Abba => passes
            .flat_map(|pass| {
                (0..arms).map(move |place| {
                    let forth = pass % 2 == 0;
                    (if forth { place } else { arms - 1 - place }, pass)
                })
            })
            .collect(),
        Order::Blocked => (0..arms)
            .flat_map(|arm| passes.clone().map(move |pass| (arm, pass)))
            .collect(),
    }
}

/// 0 → `a`, 25 → `z`, 26 → `aa`: bijective base 26.
pub fn letter(index: usize) -> String {
    let mut rest = index + 1;
    let mut letters = Vec::new();
    while rest > 0 {
        rest -= 1;
        let digit = u8::try_from(rest % 26).unwrap_or(0);
        letters.push(char::from(b'a' + digit));
        rest /= 26;
    }
    letters.iter().rev().collect()
}
