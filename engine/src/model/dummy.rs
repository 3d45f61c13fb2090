//! `dummy:NAME`: seeded random weights in a known model's shape, for benches without a network.
//!
//! Each weight is a hash of its tensor's name and its index, an integer, scaled by powers of two:
//! the same bits on every machine and for any number of threads.
//!
//! The answers are noise, but never end early and always show: ids that [`Text::emittable`] leaves
//! out (stop and other special tokens, control characters, lone bytes) are never chosen, because
//! the head does not let them. The first channel of the residual stream is positive always: the embedding sets
//! it, no layer writes to it, and the last norm scales it by a large negative number. The head's row
//! of a suppressed id has more weight there than the others', so that its logit falls far below
//! the best one. This works with a tied head too, for any forward pass over these weights.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::{Init, var_builder::SimpleBackend};
use rayon::prelude::*;

use super::{
    config::{Config, Family},
    rope::RopeScaling,
    tensors::{EMBEDDING, FINAL_NORM, HEAD},
};
use crate::{error::EngineError, text::Text};

/// What `dummy:` names start with.
pub const PREFIX: &str = "dummy:";
/// Part of a dummy's identity: raise it when a change here changes the weights.
pub const GENERATION: u32 = 1;
/// Weight of channel 0 in the last norm: tens of standard deviations of a logit, and little enough
/// for the sum to keep its precision.
const NORM: f32 = -512.0;

struct Shaped {
    name: &'static str,
    hidden: usize,
    intermediate: usize,
    vocab: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    theta: f64,
    context: usize,
    tied: bool,
}

/// The dummies that exist.
const SHAPES: &[Shaped] = &[
    // Shape of the hub's `arnir0/Tiny-LLM`.
    Shaped {
        name: "tiny-llm",
        hidden: 192,
        intermediate: 1024,
        vocab: 32_000,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        theta: 10_000.0,
        context: 1024,
        tied: false,
    },
    // Shape of `HuggingFaceTB/SmolLM2-135M-Instruct`.
    Shaped {
        name: "smollm2-135m",
        hidden: 576,
        intermediate: 1536,
        vocab: 49_152,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        theta: 100_000.0,
        context: 8192,
        tied: true,
    },
    // Shape of `TinyLlama/TinyLlama-1.1B-Chat-v1.0`.
    Shaped {
        name: "tinyllama-1.1b",
        hidden: 2048,
        intermediate: 5632,
        vocab: 32_000,
        layers: 22,
        heads: 32,
        kv_heads: 4,
        theta: 10_000.0,
        context: 2048,
        tied: false,
    },
];

/// The shape of a dummy, by its name without the prefix.
pub fn config(name: &str) -> Result<Config, EngineError> {
    let Some(shape) = SHAPES.iter().find(|shape| shape.name == name) else {
        let names: Vec<_> = SHAPES
            .iter()
            .map(|shape| format!("{PREFIX}{}", shape.name))
            .collect();
        return Err(EngineError::model(
            format!("{PREFIX}{name}"),
            format!("no such dummy; those that exist: {}", names.join(", ")),
        ));
    };
    Ok(Config {
        family: Family::Llama,
        hidden: shape.hidden,
        intermediate: shape.intermediate,
        vocab: shape.vocab,
        layers: shape.layers,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.hidden / shape.heads,
        norm_eps: 1e-5,
        rope_theta: shape.theta,
        rope_scaling: RopeScaling::None,
        context: shape.context,
        tied: shape.tied,
        attention_bias: false,
    })
}

/// Made weights of one shape.
pub struct DummyWeights {
    /// For each id, whether the head lets it be chosen.
    chosen: Vec<bool>,
    tied: bool,
}

impl DummyWeights {
    /// Weights whose head gives only ids that `text` shows.
    pub fn new(config: &Config, text: &Text) -> Self {
        Self {
            chosen: text.emittable(),
            tied: config.tied,
        }
    }

    /// The values of one tensor, row by row.
    pub fn values(&self, name: &str, dims: &[usize]) -> Vec<f32> {
        let columns = dims.last().copied().unwrap_or(1).max(1);
        let count = dims.iter().product();
        let seed = fnv1a(name.as_bytes());
        // Half-width of the uniform distribution, a power of two near what keeps a layer's output as
        // wide as its input; heads are wider, so that the best two logits are seldom a near tie.
        let half_width = match name {
            HEAD => 1.0,
            EMBEDDING if self.tied => 1.0,
            EMBEDDING => 0.5,
            _ => power_of_two_below(1.75 / (columns as f32).sqrt()),
        };
        if dims.len() == 1 {
            let mut norm = vec![1.0; count];
            if name == FINAL_NORM
                && let Some(first) = norm.first_mut()
            {
                *first = NORM;
            }
            return norm;
        }
        let mut values = vec![0.0_f32; count];
        values
            .par_chunks_mut(columns)
            .enumerate()
            .for_each(|(row, values)| {
                let base = (row as u64) * (columns as u64);
                for (index, value) in (base..).zip(values.iter_mut()) {
                    *value = uniform(seed, index) * half_width;
                }
                self.set_constant_channel(name, row, values);
            });
        values
    }

    fn set_constant_channel(&self, name: &str, row: usize, values: &mut [f32]) {
        if name == EMBEDDING || name == HEAD {
            // What comes in is never 0, and a suppressed row is 1 above the others in the head. A
            // tied table is both at once; an own head keeps the others free of the offset.
            let incoming = if name == EMBEDDING { 1.0 } else { 0.0 };
            let is_head = name == HEAD || self.tied;
            let suppressed = is_head && !self.chosen.get(row).copied().unwrap_or(false);
            if let Some(first) = values.first_mut() {
                *first = incoming + if suppressed { 1.0 } else { 0.0 };
            }
        } else if row == 0
            && (name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight"))
        {
            values.fill(0.0);
        }
    }
}

impl SimpleBackend for DummyWeights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        Tensor::from_vec(self.values(name, shape.dims()), shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("{name}: a made tensor needs a shape")
    }

    fn contains_tensor(&self, name: &str) -> bool {
        name != HEAD || !self.tied
    }
}

/// Value `index` of the stream `seed`, uniform over [−1, 1): the finaliser of splitmix64
/// (Steele, Lea, Flood 2014) over a counter. The upper 24 bits convert to f32 exactly.
fn uniform(seed: u64, index: u64) -> f32 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    let signed = (z >> 40) as i32 - (1 << 23);
    signed as f32 / (1 << 23) as f32
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Powers of two scale exactly, so that the bits do not depend on a rounding.
fn power_of_two_below(value: f32) -> f32 {
    let mut power = 1.0;
    while power > value {
        power /= 2.0;
    }
    power
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::model::{forward::Forward, tensors};

    /// All weights of `dummy:tiny-llm`, as little-endian f32, in the order of the tensors' list.
    const TINY_LLM_SHA256: &str =
        "22f77b494160637ff3ad27933d965807dbbbbf914e3a29cad67847650fac9eb0";

    #[test]
    fn tiny_llm_has_the_same_bits_everywhere() {
        let config = config("tiny-llm").unwrap();
        let weights = DummyWeights::new(&config, &Text::made(config.vocab).unwrap());
        let mut hasher = Sha256::new();
        for tensor in tensors::expected(&config) {
            for value in weights.values(&tensor.name, &tensor.shape) {
                hasher.update(value.to_le_bytes());
            }
        }
        assert_eq!(hex::encode(hasher.finalize()), TINY_LLM_SHA256);
        let parameters = tensors::parameters(&config);
        assert!(
            (12_500_000..13_500_000).contains(&parameters),
            "{parameters}"
        );
    }

    /// The head lets only visible ids be chosen, by far, whatever stands before: tied or not.
    #[test]
    fn what_is_not_emittable_is_far_from_being_chosen() {
        let tiny = config("tiny-llm").unwrap();
        let deep_and_tied = Config {
            hidden: 128,
            intermediate: 256,
            vocab: 1000,
            layers: 24,
            tied: true,
            head_dim: 64,
            ..config("tiny-llm").unwrap()
        };
        for config in [tiny, deep_and_tied] {
            let text = Text::made(config.vocab).unwrap();
            let emittable = text.emittable();
            let weights = Box::new(DummyWeights::new(&config, &text));
            let mut forward = Forward::new(&config, weights, DType::F32, &Device::Cpu).unwrap();
            // Special tokens and lone bytes as input too.
            let mut ids: Vec<u32> = vec![0, 1, 2, 5, 258, 259, 999, 400, 7, 2];
            for position in 0..60 {
                let logits = forward
                    .forward(&ids[position..=position], position)
                    .unwrap();
                let best_of = |wanted: bool| {
                    let of_kind = logits
                        .iter()
                        .zip(&emittable)
                        .filter(|(_, kind)| **kind == wanted);
                    of_kind
                        .map(|(logit, _)| *logit)
                        .fold(f32::NEG_INFINITY, f32::max)
                };
                let lead = best_of(true) - best_of(false);
                assert!(
                    lead > 20.0,
                    "tied {}, position {position}: {lead}",
                    config.tied
                );
                let best = best_of(true);
                let next = logits.iter().position(|logit| *logit == best).unwrap();
                ids.push(next as u32);
            }
        }
    }

    #[test]
    fn shapes_are_those_of_the_models_they_are_named_after() {
        assert_eq!(
            tensors::parameters(&config("smollm2-135m").unwrap()),
            134_515_008
        );
        assert_eq!(
            tensors::parameters(&config("tinyllama-1.1b").unwrap()),
            1_100_048_384
        );
    }

    #[test]
    fn an_unknown_dummy_lists_those_that_exist() {
        let error = config("gpt-5").unwrap_err().to_string();
        assert_eq!(
            error,
            "model dummy:gpt-5: no such dummy; those that exist: dummy:tiny-llm, dummy:smollm2-135m, dummy:tinyllama-1.1b"
        );
    }

    #[test]
    fn uniform_fills_its_range_evenly() {
        let values: Vec<f32> = (0..100_000).map(|index| uniform(7, index)).collect();
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let square = values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32;
        assert!(
            mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01,
            "{mean} {square}"
        );
    }
}
