//! What sampling parameters may be. Each is refused by its name, with its range.
//!
//! The ranges are OpenAI's where it has the parameter. What only a model can know, such as whether a
//! token id exists, is left to the chapters.

use contracts::{
    defaults::{BIAS_MAX, BIASED_MAX, LOGPROBS_MAX, PENALTY_MAX, STOP_BYTES_MAX, STOPS_MAX},
    generate::SamplingParams,
};

use crate::error::EngineError;

/// Refuses, by name, values out of range.
///
/// # Errors
/// [`EngineError::BadInput`] with the field.
pub fn check(params: &SamplingParams) -> Result<(), EngineError> {
    let SamplingParams {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
        logit_bias: _,
        stop: _,
        logprobs,
        ignore_eos: _,
        max_tokens,
        seed: _,
    } = params;
    require(
        temperature.is_finite() && *temperature >= 0.0,
        "temperature",
        || format!("{temperature} is not 0 or a positive number"),
    )?;
    require(*top_k == -1 || *top_k >= 1, "top_k", || {
        format!("{top_k} is neither -1 (all) nor at least 1")
    })?;
    require(*top_p > 0.0 && *top_p <= 1.0, "top_p", || {
        format!("{top_p} is not above 0 and at most 1")
    })?;
    require((0.0..=1.0).contains(min_p), "min_p", || {
        format!("{min_p} is not from 0 to 1")
    })?;
    require(
        repetition_penalty.is_finite() && *repetition_penalty > 0.0,
        "repetition_penalty",
        || format!("{repetition_penalty} is not a positive number"),
    )?;
    for (field, penalty) in [
        ("presence_penalty", presence_penalty),
        ("frequency_penalty", frequency_penalty),
    ] {
        require(penalty.abs() <= PENALTY_MAX, field, || {
            format!("{penalty} is not from -{PENALTY_MAX} to {PENALTY_MAX}")
        })?;
    }
    require(
        logprobs.is_none_or(|n| n <= LOGPROBS_MAX),
        "logprobs",
        || {
            format!(
                "{} is more than {LOGPROBS_MAX}",
                logprobs.unwrap_or_default()
            )
        },
    )?;
    require(*max_tokens > 0, "max_tokens", || {
        "0 is less than 1".to_owned()
    })?;
    check_bias(params)?;
    check_stop(&params.stop)
}

fn check_bias(params: &SamplingParams) -> Result<(), EngineError> {
    let bias = &params.logit_bias;
    require(bias.len() <= BIASED_MAX, "logit_bias", || {
        format!("{} entries are more than {BIASED_MAX}", bias.len())
    })?;
    bias.iter().try_for_each(|(id, bias)| {
        require(bias.abs() <= BIAS_MAX, "logit_bias", || {
            format!("{bias} of token {id} is not from -{BIAS_MAX} to {BIAS_MAX}")
        })
    })
}

fn check_stop(stop: &[String]) -> Result<(), EngineError> {
    require(stop.len() <= STOPS_MAX, "stop", || {
        format!("{} strings are more than {STOPS_MAX}", stop.len())
    })?;
    stop.iter().try_for_each(|stop| {
        require(!stop.is_empty(), "stop", || {
            "an empty string would end every answer before it begins".to_owned()
        })?;
        require(stop.len() <= STOP_BYTES_MAX, "stop", || {
            format!(
                "a string of {} bytes is longer than {STOP_BYTES_MAX}",
                stop.len()
            )
        })
    })
}

fn require(
    holds: bool,
    field: &str,
    otherwise: impl FnOnce() -> String,
) -> Result<(), EngineError> {
    if holds {
        return Ok(());
    }
    Err(EngineError::bad_input(field, otherwise()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edit = fn(&mut SamplingParams);

    fn edited(edit: Edit) -> SamplingParams {
        let mut params = SamplingParams::default();
        edit(&mut params);
        params
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let cases: [(&str, Edit); 27] = [
            ("temperature", |p| p.temperature = -0.1),
            ("temperature", |p| p.temperature = f32::NAN),
            ("temperature", |p| p.temperature = f32::INFINITY),
            ("top_k", |p| p.top_k = 0),
            ("top_k", |p| p.top_k = -2),
            ("top_p", |p| p.top_p = 0.0),
            ("top_p", |p| p.top_p = 1.1),
            ("top_p", |p| p.top_p = f32::NAN),
            ("max_tokens", |p| p.max_tokens = 0),
            ("min_p", |p| p.min_p = -0.1),
            ("min_p", |p| p.min_p = 1.1),
            ("min_p", |p| p.min_p = f32::NAN),
            ("repetition_penalty", |p| p.repetition_penalty = 0.0),
            ("repetition_penalty", |p| p.repetition_penalty = f32::NAN),
            ("repetition_penalty", |p| {
                p.repetition_penalty = f32::INFINITY
            }),
            ("presence_penalty", |p| p.presence_penalty = 2.1),
            ("presence_penalty", |p| p.presence_penalty = -2.1),
            ("presence_penalty", |p| p.presence_penalty = f32::NAN),
            ("frequency_penalty", |p| p.frequency_penalty = 2.1),
            ("frequency_penalty", |p| p.frequency_penalty = f32::NAN),
            ("logit_bias", |p| {
                p.logit_bias = [(1, 0.0), (7, 100.5)].into()
            }),
            ("logit_bias", |p| {
                p.logit_bias = [(7, f32::NEG_INFINITY)].into()
            }),
            ("logit_bias", |p| {
                p.logit_bias = (0..1025).map(|id| (id, 1.0)).collect()
            }),
            ("stop", |p| p.stop = vec!["x".to_owned(), String::new()]),
            ("stop", |p| p.stop = vec!["x".to_owned(); 17]),
            ("stop", |p| p.stop = vec!["é".repeat(513)]),
            ("logprobs", |p| p.logprobs = Some(21)),
        ];
        for (field, edit) in cases {
            match check(&edited(edit)) {
                Err(EngineError::BadInput { field: named, .. }) => assert_eq!(named, field),
                other => unreachable!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_ends_of_all_ranges_are_taken() {
        let cases: [Edit; 7] = [
            |p| (p.temperature, p.top_k, p.top_p, p.min_p) = (1e-30, 1, 1e-30, 1.0),
            |p| (p.temperature, p.top_k, p.top_p, p.min_p) = (1e30, -1, 1.0, 0.0),
            |p| (p.presence_penalty, p.frequency_penalty) = (2.0, -2.0),
            |p| p.repetition_penalty = f32::MIN_POSITIVE,
            |p| p.logit_bias = [(0, 100.0), (u32::MAX, -100.0)].into(),
            |p| p.stop = vec!["é".repeat(512); 16],
            |p| p.logprobs = Some(20),
        ];
        for edit in cases {
            assert!(check(&edited(edit)).is_ok());
        }
    }
}
