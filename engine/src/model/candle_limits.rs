//! What candle's own models can't run, though our decoder can: refused by name where a chapter is
//! built over candle's models.
//!
//! candle deserialises the fields it wants and ignores the rest, so such a model would run and be
//! wrong. What nobody here can run is refused by [`super::config`].

use candle_core::{DType, Device};
use contracts::run::Dtype;

use super::{
    config::{Config, Family},
    device,
    rope::RopeScaling,
};
use crate::error::EngineError;

/// What works instead, at the end of each refusal.
const INSTEAD: &str = "candle's own model can't; chapter 3 and later can";

/// Refuses a shape that candle's model of the family would compute wrongly; `model` is the name
/// that the error carries.
pub fn check(config: &Config, model: &str) -> Result<(), EngineError> {
    let family = config.family.name();
    let refused = |what: String| {
        Err(EngineError::Unsupported {
            what: format!("model {model}: {what} in a {family} model"),
            why: INSTEAD.to_owned(),
        })
    };
    let scales = match config.rope_scaling {
        RopeScaling::None => true,
        RopeScaling::Llama3(_) => config.family == Family::Llama,
        _ => false,
    };
    if !scales {
        return refused(format!("rope_type = {}", config.rope_scaling.name()));
    }
    if config.family != Family::Qwen3 && config.head_dim * config.heads != config.hidden {
        return refused(format!(
            "head_dim = {}, not hidden_size {} / num_attention_heads {},",
            config.head_dim, config.hidden, config.heads
        ));
    }
    if config.family == Family::Llama && config.attention_bias {
        return refused("attention_bias = true".to_owned());
    }
    Ok(())
}

/// The type of weights to compute with in candle's model: as [`device::dtype`] says, but for Qwen2.
///
/// candle's Qwen2 counts positions in the weights' type, so that in 16 bits two neighbouring
/// positions share one rotation from 256 (bf16) or 2048 (f16) on: it runs in f32 only.
pub fn dtype(
    asked: Option<Dtype>,
    device: &Device,
    family: Family,
    stored: DType,
) -> Result<DType, EngineError> {
    if family != Family::Qwen2 {
        return Ok(device::dtype(asked, device, stored));
    }
    match asked {
        None | Some(Dtype::F32) => Ok(DType::F32),
        Some(Dtype::F16 | Dtype::Bf16) => Err(EngineError::Unsupported {
            what: format!(
                "dtype {} for a qwen2 model",
                device::name(device::dtype(asked, device, stored))
            ),
            why: format!("its rotary positions would be rounded, use f32; {INSTEAD}"),
        }),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A model whose heads are what candle expects.
    fn config(family: Family) -> Config {
        Config {
            family,
            hidden: 64,
            intermediate: 160,
            vocab: 512,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            norm_eps: 1e-5,
            rope_theta: 1e4,
            rope_scaling: RopeScaling::None,
            context: 256,
            tied: true,
            attention_bias: false,
        }
    }

    #[test]
    fn what_candle_runs_passes_and_what_it_would_ignore_does_not() {
        let families = [Family::Llama, Family::Qwen2, Family::Qwen3];
        for family in families {
            check(&config(family), "x").unwrap();
            let linear = Config {
                rope_scaling: RopeScaling::Linear { factor: 2.0 },
                ..config(family)
            };
            let name = family.name();
            assert_eq!(
                check(&linear, "x").unwrap_err().to_string(),
                format!("cannot run model x: rope_type = linear in a {name} model: {INSTEAD}")
            );
            let wide = Config {
                head_dim: 32,
                ..config(family)
            };
            assert_eq!(check(&wide, "x").is_ok(), family == Family::Qwen3, "{name}");
        }
        let biased = Config {
            attention_bias: true,
            ..config(Family::Llama)
        };
        let error = check(&biased, "x").unwrap_err().to_string();
        assert!(
            error.contains("attention_bias = true in a llama model"),
            "{error}"
        );
    }

    #[test]
    fn qwen2_is_held_in_f32_only() {
        let cpu = Device::Cpu;
        let chosen = |asked, family| dtype(asked, &cpu, family, DType::BF16);
        assert_eq!(chosen(None, Family::Qwen2).unwrap(), DType::F32);
        assert_eq!(
            chosen(Some(Dtype::Bf16), Family::Qwen3).unwrap(),
            DType::BF16
        );
        let error = chosen(Some(Dtype::F16), Family::Qwen2)
            .unwrap_err()
            .to_string();
        assert!(error.contains("dtype f16 for a qwen2 model"), "{error}");
    }
}
