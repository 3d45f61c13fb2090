//! The numbers of a rotary embedding: the frequency of each pair of a head, and the cosines and
//! sines of every position, computed as transformers computes them.
//!
//! Turning queries and keys by them is left to whoever runs a model; what the config says, to
//! [`super::rope`].

use std::f64::consts::TAU;

use super::{
    config::Config,
    rope::{Llama3Rope, RopeScaling, YarnRope},
};

/// Rows of the table are made this many at a time: a few milliseconds, and under 1 MiB for heads of 128.
const STEP_POSITIONS: usize = 1024;

/// Cosines and sines by position, made as far as they were asked for: a long context is rarely
/// used whole, and its table would take tens of megabytes.
#[derive(Debug, Clone)]
pub struct RopeTable {
    /// `[head_dim / 2]`
    frequencies: Vec<f32>,
    attention_factor: f32,
    context: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// An empty table for models of this shape.
    pub fn new(config: &Config) -> Self {
        Self {
            frequencies: inverse_frequencies(config),
            attention_factor: attention_factor(&config.rope_scaling) as f32,
            context: config.context,
            cos: Vec::new(),
            sin: Vec::new(),
        }
    }

    /// Makes the rows of positions `0..positions`, and some more up to the context; rows that are
    /// there stay as they are.
    pub fn reach(&mut self, positions: usize) {
        let from = self.positions();
        if positions <= from {
            return;
        }
        let to = positions
            .next_multiple_of(STEP_POSITIONS)
            .min(self.context)
            .max(positions);
        let more = (to - from) * self.frequencies.len();
        self.cos.reserve(more);
        self.sin.reserve(more);
        for position in from..to {
            for frequency in &self.frequencies {
                // The product is rounded to f32, as transformers rounds it: at position 100,000 its
                // error is larger than that of the cosine.
                let angle = f64::from(position as f32 * frequency);
                self.cos.push(angle.cos() as f32 * self.attention_factor);
                self.sin.push(angle.sin() as f32 * self.attention_factor);
            }
        }
    }

    /// Positions that have a row.
    pub fn positions(&self) -> usize {
        self.cos.len() / self.frequencies.len().max(1)
    }

    /// Pairs of a head: the length of a row.
    pub fn half(&self) -> usize {
        self.frequencies.len()
    }

    /// All cosines that are made: `[positions][head_dim / 2]`, multiplied by the attention factor.
    pub fn cos(&self) -> &[f32] {
        &self.cos
    }

    /// All sines that are made: `[positions][head_dim / 2]`, multiplied by the attention factor.
    pub fn sin(&self) -> &[f32] {
        &self.sin
    }
}

/// The frequency of each pair of a head, in radians a position: `[head_dim / 2]`. Pair `i` is
/// channels `i` and `i + head_dim / 2`.
pub fn inverse_frequencies(config: &Config) -> Vec<f32> {
    let plain: Vec<f32> = (0..config.head_dim / 2)
        .map(|pair| {
            // In f32 up to the power, as transformers has it: a rounded exponent moves the result by
            // more than the precision of an f32.
            let exponent = (2 * pair) as f32 / config.head_dim as f32;
            1.0 / config.rope_theta.powf(f64::from(exponent)) as f32
        })
        .collect();
    match &config.rope_scaling {
        RopeScaling::None => plain,
        RopeScaling::Linear { factor } => {
            let factor = *factor as f32;
            plain.iter().map(|frequency| frequency / factor).collect()
        }
        RopeScaling::Llama3(rope) => plain
            .iter()
            .map(|frequency| llama3(*frequency, rope))
            .collect(),
        RopeScaling::Yarn(rope) => {
            let (low, high) = yarn_range(rope, config.head_dim, config.rope_theta);
            let blend = |(pair, frequency)| yarn(frequency, pair, rope.factor as f32, low, high);
            plain.into_iter().enumerate().map(blend).collect()
        }
    }
}

/// What cosines and sines are multiplied by.
pub fn attention_factor(scaling: &RopeScaling) -> f64 {
    match scaling {
        RopeScaling::Yarn(rope) => rope.attention_factor,
        _ => 1.0,
    }
}

/// Long waves are stretched by the factor, short ones kept, those between blended by how often they
/// turn within the original context.
fn llama3(frequency: f32, rope: &Llama3Rope) -> f32 {
    let (factor, low, high) = (
        rope.factor as f32,
        rope.low_freq_factor as f32,
        rope.high_freq_factor as f32,
    );
    let original = rope.original_context as f32;
    let wavelength = TAU as f32 / frequency;
    if wavelength > original / low {
        frequency / factor
    } else if wavelength < original / high {
        frequency
    } else {
        let kept = (original / wavelength - low) / (high - low);
        (1.0 - kept) * frequency / factor + kept * frequency
    }
}

/// The pairs, counted in fractions, between which YaRN blends: the one that turns `beta_fast` times
/// within the original context, and the one that turns `beta_slow` times.
fn yarn_range(rope: &YarnRope, head_dim: usize, theta: f64) -> (f32, f32) {
    let dim = head_dim as f64;
    let pair_that_turns =
        |times: f64| dim * (rope.original_context as f64 / (times * TAU)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (
        pair_that_turns(rope.beta_fast),
        pair_that_turns(rope.beta_slow),
    );
    if rope.truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    // The upper bound counts channels, not pairs: transformers and llama.cpp both have it so.
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    // An empty range would divide by zero.
    if low == high {
        high += 0.001;
    }
    (low as f32, high as f32)
}

fn yarn(frequency: f32, pair: usize, factor: f32, low: f32, high: f32) -> f32 {
    let divided = ((pair as f32 - low) / (high - low)).clamp(0.0, 1.0);
    let kept = 1.0 - divided;
    1.0 / (factor * (1.0 / frequency)) * divided + frequency * kept
}
