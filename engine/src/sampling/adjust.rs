//! Bias and penalties: what is added to the model's logits before anything is chosen.
//!
//! In vLLM's order: bias, repetition, frequency, presence. Repetition looks at the prompt and the
//! answer (Keskar et al. 2019, "CTRL", § 4.1, with the sign rule of Hugging Face transformers); the
//! other two at the answer alone, with OpenAI's formula
//! `logit − count · frequency − (count > 0) · presence`.

use std::collections::BTreeMap;

use contracts::generate::SamplingParams;

/// What changes the logits of one answer.
pub(super) struct Adjustments {
    bias: BTreeMap<u32, f32>,
    repetition: f32,
    frequency: f32,
    presence: f32,
    /// How often each token is in the answer so far; 0: it is in the prompt only. Empty where no
    /// penalty is asked for.
    seen: BTreeMap<u32, u32>,
    /// The latest adjusted logits, kept to spare an allocation a token.
    adjusted: Vec<f32>,
}

impl Adjustments {
    /// None where the logits stay as they are, so that a plain request copies nothing.
    pub(super) fn new(params: &SamplingParams, prompt_ids: &[u32]) -> Option<Self> {
        let adjustments = Self {
            bias: params.logit_bias.clone(),
            repetition: params.repetition_penalty,
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            seen: BTreeMap::new(),
            adjusted: Vec::new(),
        };
        if !adjustments.penalises() {
            return (!adjustments.bias.is_empty()).then_some(adjustments);
        }
        Some(Self {
            seen: prompt_ids.iter().map(|id| (*id, 0)).collect(),
            ..adjustments
        })
    }

    fn penalises(&self) -> bool {
        self.repetition != 1.0 || self.frequency != 0.0 || self.presence != 0.0
    }

    /// The logits with all changes. Ids beyond them are passed over.
    pub(super) fn apply(&mut self, logits: &[f32]) -> &[f32] {
        self.adjusted.clear();
        self.adjusted.extend_from_slice(logits);
        for (id, bias) in &self.bias {
            if let Some(logit) = self.adjusted.get_mut(*id as usize) {
                *logit += bias;
            }
        }
        for (id, count) in &self.seen {
            if let Some(logit) = self.adjusted.get_mut(*id as usize)
                && logit.is_finite()
            {
                let scaled = if *logit > 0.0 {
                    *logit / self.repetition
                } else {
                    *logit * self.repetition
                };
                let presence = if *count > 0 { self.presence } else { 0.0 };
                // A tiny or huge penalty may leave f32's range; to be infinite is the model's word.
                *logit =
                    (scaled - *count as f32 * self.frequency - presence).clamp(f32::MIN, f32::MAX);
            }
        }
        &self.adjusted
    }

    /// A token of the answer.
    pub(super) fn count(&mut self, id: u32) {
        if self.penalises() {
            *self.seen.entry(id).or_default() += 1;
        }
    }
}
