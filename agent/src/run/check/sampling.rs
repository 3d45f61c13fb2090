//! Bounds of the sampling parameters, so that a value that the engine would refuse is refused before
//! a run. The ranges are the engine's own; only what a spec may not ask of any engine is added.

use contracts::generate::SamplingParams;
use engine::error::EngineError;

use super::{Refusal, bounded};

/// A ceiling of tokens beyond any model's context.
pub(super) const MAX_TOKENS_MAX: u32 = 16 << 20;
/// Hotter than this every token is as likely as any other.
const TEMPERATURE_MAX: f32 = 100.0;

/// The first parameter that is out of range, if any.
pub(super) fn sampling(sampling: &SamplingParams) -> Result<(), Refusal> {
    let field = |name: &str| format!("workload.sampling.{name}");
    engine::sampling::check(sampling).map_err(|error| match error {
        EngineError::BadInput { field: at, message } => Refusal::new(field(&at), message),
        other => Refusal::new("workload.sampling", other.to_string()),
    })?;
    if sampling.temperature > TEMPERATURE_MAX {
        let message = format!("must be from 0 to {TEMPERATURE_MAX}");
        return Err(Refusal::new(field("temperature"), message));
    }
    bounded(
        &field("max_tokens"),
        sampling.max_tokens.into(),
        1,
        MAX_TOKENS_MAX.into(),
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::defaults;

    use super::*;

    #[test]
    fn what_the_engine_would_refuse_is_refused_by_its_path() {
        type Spoil = fn(&mut SamplingParams);
        let cases: [(&str, Spoil); 13] = [
            ("max_tokens", |p| p.max_tokens = 0),
            ("max_tokens", |p| p.max_tokens = u32::MAX),
            ("temperature", |p| p.temperature = f32::NAN),
            ("temperature", |p| p.temperature = 101.0),
            ("top_k", |p| p.top_k = 0),
            ("top_p", |p| p.top_p = 0.0),
            ("min_p", |p| p.min_p = 1.5),
            ("repetition_penalty", |p| p.repetition_penalty = 0.0),
            ("presence_penalty", |p| p.presence_penalty = 2.5),
            ("frequency_penalty", |p| p.frequency_penalty = f32::NAN),
            ("stop", |p| {
                p.stop = vec!["x".to_owned(); defaults::STOPS_MAX + 1]
            }),
            ("stop", |p| {
                p.stop = vec!["x".repeat(defaults::STOP_BYTES_MAX + 1)]
            }),
            ("logprobs", |p| p.logprobs = Some(21)),
        ];
        for (name, spoil) in cases {
            let mut params = SamplingParams::default();
            sampling(&params).unwrap();
            spoil(&mut params);
            let refused = sampling(&params).unwrap_err();
            assert_eq!(refused.field, format!("workload.sampling.{name}"));
        }
    }
}
