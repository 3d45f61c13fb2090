//! The rotary embedding's fields of `config.json`, in the old spelling and in that of transformers 5.
//!
//! Read are the unscaled embedding and the scalings `linear`, `llama3` and `yarn`; each other kind
//! is refused by name. The numbers that follow from them are left to [`super::rope_table`], what
//! candle's models make of a scaling to [`super::candle_limits`].

use serde_json::Value;

use super::fields::Fields;
use crate::error::EngineError;

/// transformers' default where no base is given.
const THETA_DEFAULT: f64 = 10_000.0;
/// YaRN's defaults, as its paper suggests: turns within the original context.
const BETA_FAST_DEFAULT: f64 = 32.0;
const BETA_SLOW_DEFAULT: f64 = 1.0;

/// Fields that each kind of embedding may have.
const READ_ALWAYS: &[&str] = &["rope_theta", "rope_type", "type", "partial_rotary_factor"];
const READ_LINEAR: &[&str] = &["factor"];
const READ_LLAMA3: &[&str] = &[
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
];
const READ_YARN: &[&str] = &[
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
];

/// How a model's rotary frequencies differ from those of its base alone.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Each is divided by the same number.
    Linear {
        /// That number.
        factor: f64,
    },
    /// By wavelength, as Llama 3.1 does.
    Llama3(Llama3Rope),
    /// By wavelength, and the scores of attention too, as in the YaRN paper.
    Yarn(YarnRope),
}

impl RopeScaling {
    /// The kind, as `rope_type` names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "default",
            Self::Linear { .. } => "linear",
            Self::Llama3(_) => "llama3",
            Self::Yarn(_) => "yarn",
        }
    }
}

/// Llama 3's scaling: low frequencies are divided by `factor`, high ones kept, those between blended.
#[derive(Debug, Clone, PartialEq)]
pub struct Llama3Rope {
    /// Divides low frequencies.
    pub factor: f64,
    /// Wavelengths above original context / this are low.
    pub low_freq_factor: f64,
    /// Wavelengths below original context / this are high.
    pub high_freq_factor: f64,
    /// Context the model was first trained with, in tokens.
    pub original_context: usize,
}

/// YaRN's scaling (Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language
/// Models"): frequencies that turn rarely within the original context are divided by `factor`, those
/// that turn often are kept, those between blended. Cosine and sine are multiplied by `attention_factor`.
#[derive(Debug, Clone, PartialEq)]
pub struct YarnRope {
    /// Divides low frequencies.
    pub factor: f64,
    /// Context the model was first trained with, in tokens.
    pub original_context: usize,
    /// Frequencies of more turns than this are kept.
    pub beta_fast: f64,
    /// Frequencies of fewer turns than this are divided.
    pub beta_slow: f64,
    /// Multiplies cosine and sine; given, or computed from `factor` and the two `mscale` fields.
    pub attention_factor: f64,
    /// Whether the blend begins and ends at whole dimensions.
    pub truncate: bool,
}

/// What the fields come to.
#[derive(Debug, PartialEq)]
pub(super) struct Rope {
    pub theta: f64,
    pub scaling: RopeScaling,
}

/// Reads `rope_parameters`, or `rope_theta` and `rope_scaling`; `context` is the model's, which
/// stands for the original one where that is not given.
pub(super) fn read(fields: &Fields<'_>, context: usize) -> Result<Rope, EngineError> {
    whole_head(fields)?;
    let outer_theta = positive(fields, "rope_theta")?;
    let mut found: Option<(&str, Rope)> = None;
    for (name, within) in [
        ("rope_parameters", "rope_parameters."),
        ("rope_scaling", "rope_scaling."),
    ] {
        let map = match fields.get(name) {
            None => continue,
            Some(Value::Object(map)) => map,
            Some(_) => return Err(fields.ill_typed(name, "an object")),
        };
        let inner = fields.inner(within, map);
        whole_head(&inner)?;
        let inner_theta = positive(&inner, "rope_theta")?;
        if let (Some(inner), Some(outer)) = (inner_theta, outer_theta)
            && inner != outer
        {
            return Err(fields.broken(format!("rope_theta is {outer}, and {inner} in {name}")));
        }
        let rope = Rope {
            theta: inner_theta.or(outer_theta).unwrap_or(THETA_DEFAULT),
            scaling: scaling(&inner, context)?,
        };
        match &found {
            // Some files carry both spellings, for old and new readers.
            Some((first, other)) if *other != rope => {
                return Err(fields.broken(format!("{first} and {name} do not say the same")));
            }
            _ => found = Some((name, rope)),
        }
    }
    let (name, rope) = found.unwrap_or((
        "rope_theta",
        Rope {
            theta: outer_theta.unwrap_or(THETA_DEFAULT),
            scaling: RopeScaling::None,
        },
    ));
    if matches!(rope.scaling, RopeScaling::Yarn(_)) && rope.theta <= 1.0 {
        let message = format!(
            "{name}: yarn needs a rope_theta above 1, not {}",
            rope.theta
        );
        return Err(fields.broken(message));
    }
    Ok(rope)
}

/// Rotating only a part of each head is refused.
fn whole_head(fields: &Fields<'_>) -> Result<(), EngineError> {
    match fields.float("partial_rotary_factor")? {
        Some(share) if share != 1.0 => {
            Err(fields.unsupported("partial_rotary_factor", "only whole heads can be rotated"))
        }
        _ => Ok(()),
    }
}

fn scaling(fields: &Fields<'_>, context: usize) -> Result<RopeScaling, EngineError> {
    // `type` is the name that the first scaled models used.
    let name = if fields.get("rope_type").is_some() {
        "rope_type"
    } else {
        "type"
    };
    let (scaling, read): (_, &[&str]) = match fields.text(name)? {
        None | Some("default") => (RopeScaling::None, &[]),
        Some("linear") => {
            let factor = required(fields, "factor")?;
            (RopeScaling::Linear { factor }, READ_LINEAR)
        }
        Some("llama3") => (RopeScaling::Llama3(llama3(fields, context)?), READ_LLAMA3),
        Some("yarn") => (RopeScaling::Yarn(yarn(fields, context)?), READ_YARN),
        Some(_) => {
            return Err(fields.unsupported(name, "default, linear, llama3 and yarn can be run"));
        }
    };
    let is_read = |key: &&str| READ_ALWAYS.contains(key) || read.contains(key);
    match fields.keys().find(|key| !is_read(key)) {
        Some(unknown) => Err(fields.unsupported(
            unknown,
            "this field is not known for this kind of embedding",
        )),
        None => Ok(scaling),
    }
}

fn llama3(fields: &Fields<'_>, context: usize) -> Result<Llama3Rope, EngineError> {
    let rope = Llama3Rope {
        factor: required(fields, "factor")?,
        low_freq_factor: required(fields, "low_freq_factor")?,
        high_freq_factor: required(fields, "high_freq_factor")?,
        original_context: original_context(fields)?.unwrap_or(context),
    };
    if rope.high_freq_factor <= rope.low_freq_factor {
        return Err(fields.ill_typed("high_freq_factor", "more than low_freq_factor"));
    }
    Ok(rope)
}

fn yarn(fields: &Fields<'_>, context: usize) -> Result<YarnRope, EngineError> {
    let original = original_context(fields)?;
    let factor = match (positive(fields, "factor")?, original) {
        (Some(factor), _) => factor,
        (None, Some(original)) => context as f64 / original as f64,
        (None, None) => return Err(fields.missing("factor")),
    };
    let rope = YarnRope {
        factor,
        original_context: original.unwrap_or(context),
        beta_fast: positive(fields, "beta_fast")?.unwrap_or(BETA_FAST_DEFAULT),
        beta_slow: positive(fields, "beta_slow")?.unwrap_or(BETA_SLOW_DEFAULT),
        attention_factor: match positive(fields, "attention_factor")? {
            Some(given) => given,
            None => yarn_attention_factor(factor, mscales(fields)?),
        },
        truncate: fields.flag("truncate")?.unwrap_or(true),
    };
    if rope.beta_fast < rope.beta_slow {
        let message = format!(
            "yarn's beta_fast is {}, below its beta_slow of {}",
            rope.beta_fast, rope.beta_slow
        );
        return Err(fields.broken(message));
    }
    Ok(rope)
}

/// `mscale` and `mscale_all_dim`; they count only together, and 0 is none.
fn mscales(fields: &Fields<'_>) -> Result<Option<(f64, f64)>, EngineError> {
    let read = |name: &str| match fields.float(name)? {
        Some(number) if number < 0.0 => Err(fields.ill_typed(name, "0 or a positive number")),
        number => Ok(number.filter(|number| *number != 0.0)),
    };
    Ok(read("mscale")?.zip(read("mscale_all_dim")?))
}

/// What YaRN multiplies cosine and sine by: `0.1 ln(factor) + 1` (the paper's equation 22, as a
/// square root), or the quotient of two such terms weighted by the mscales.
pub(super) fn yarn_attention_factor(factor: f64, mscales: Option<(f64, f64)>) -> f64 {
    let term = |weight: f64| {
        if factor <= 1.0 {
            1.0
        } else {
            0.1 * weight * factor.ln() + 1.0
        }
    };
    match mscales {
        Some((one, all)) => term(one) / term(all),
        None => term(1.0),
    }
}

fn original_context(fields: &Fields<'_>) -> Result<Option<usize>, EngineError> {
    fields.size_or_none("original_max_position_embeddings")
}

fn required(fields: &Fields<'_>, name: &str) -> Result<f64, EngineError> {
    positive(fields, name)?.ok_or_else(|| fields.missing(name))
}

fn positive(fields: &Fields<'_>, name: &str) -> Result<Option<f64>, EngineError> {
    match fields.float(name)? {
        Some(number) if number <= 0.0 => Err(fields.ill_typed(name, "a positive number")),
        number => Ok(number),
    }
}
