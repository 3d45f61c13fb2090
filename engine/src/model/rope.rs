//! The rotary embedding's fields of `config.json`, in the old spelling and in that of transformers 5.
//!
//! Only the unscaled embedding and Llama 3's scaling can be run by candle; each other kind is
//! refused by name. Which family may scale is left to [`super::config`].

use serde_json::Value;

use super::fields::Fields;
use crate::error::EngineError;

/// transformers' default where no base is given.
const THETA_DEFAULT: f64 = 10_000.0;

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

/// What the fields come to.
pub(super) struct Rope {
    pub theta: f64,
    pub llama3: Option<Llama3Rope>,
}

/// The field that holds the scaling.
pub(super) fn field(fields: &Fields<'_>) -> &'static str {
    if fields.get("rope_parameters").is_some() {
        "rope_parameters"
    } else {
        "rope_scaling"
    }
}

/// Reads `rope_parameters`, or `rope_theta` and `rope_scaling`.
pub(super) fn read(fields: &Fields<'_>) -> Result<Rope, EngineError> {
    whole_head(fields)?;
    let outer_theta = fields.float("rope_theta")?;
    let name = field(fields);
    let (theta, llama3) = match fields.get(name) {
        None => (None, None),
        Some(Value::Object(map)) => {
            let within = if name == "rope_parameters" {
                "rope_parameters."
            } else {
                "rope_scaling."
            };
            let inner = fields.inner(within, map);
            whole_head(&inner)?;
            (inner.float("rope_theta")?, scaling(&inner)?)
        }
        Some(_) => return Err(fields.ill_typed(name, "an object")),
    };
    if let (Some(inner), Some(outer)) = (theta, outer_theta)
        && inner != outer
    {
        return Err(fields.broken(format!("rope_theta is {outer}, and {inner} in {name}")));
    }
    let theta = theta.or(outer_theta).unwrap_or(THETA_DEFAULT);
    if theta <= 0.0 {
        return Err(fields.broken(format!("rope_theta is {theta}, not a positive number")));
    }
    Ok(Rope { theta, llama3 })
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

fn scaling(fields: &Fields<'_>) -> Result<Option<Llama3Rope>, EngineError> {
    // `type` is the name that the first scaled models used.
    let name = if fields.get("rope_type").is_some() {
        "rope_type"
    } else {
        "type"
    };
    let (llama3, read): (_, &[&str]) = match fields.text(name)? {
        None | Some("default") => (
            None,
            &["rope_theta", "rope_type", "type", "partial_rotary_factor"],
        ),
        Some("llama3") => (
            Some(llama3(fields)?),
            &[
                "rope_theta",
                "rope_type",
                "type",
                "partial_rotary_factor",
                "factor",
                "low_freq_factor",
                "high_freq_factor",
                "original_max_position_embeddings",
            ],
        ),
        Some(_) => return Err(fields.unsupported(name, "default and llama3 can be run")),
    };
    match fields.keys().find(|key| !read.contains(key)) {
        Some(unknown) => Err(fields.unsupported(
            unknown,
            "this field is not known for this kind of embedding",
        )),
        None => Ok(llama3),
    }
}

fn llama3(fields: &Fields<'_>) -> Result<Llama3Rope, EngineError> {
    let positive = |name: &str| -> Result<f64, EngineError> {
        let number = fields.float(name)?.ok_or_else(|| fields.missing(name))?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(fields.ill_typed(name, "a positive number"))
        }
    };
    let rope = Llama3Rope {
        factor: positive("factor")?,
        low_freq_factor: positive("low_freq_factor")?,
        high_freq_factor: positive("high_freq_factor")?,
        original_context: fields.size("original_max_position_embeddings")?,
    };
    if rope.high_freq_factor <= rope.low_freq_factor {
        return Err(fields.ill_typed("high_freq_factor", "more than low_freq_factor"));
    }
    Ok(rope)
}
