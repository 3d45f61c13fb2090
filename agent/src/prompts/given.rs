//! Prompts that were given word for word, with or without recorded answers.

use contracts::run::PromptPair;
use engine::text::{Input, Text};

use super::draw::Draws;
use super::{Content, Prompt, PromptError};

/// Texts in turn.
pub(super) struct Texts {
    pub texts: Vec<String>,
    pub max_tokens: u32,
    /// None: as they are.
    pub draws: Option<Draws>,
}

impl Texts {
    pub(super) fn prompt(&self, warmup: bool, index: u32) -> Prompt {
        let text = in_turn(&self.texts, index).map_or("", String::as_str);
        Prompt {
            content: Content::Text(with_nonce(self.draws.as_ref(), warmup, index, text)),
            max_tokens: self.max_tokens,
            planned_input_tokens: None,
        }
    }
}

/// Questions in turn, each with its answer's tokens as the ceiling.
pub(super) struct Pairs {
    pairs: Vec<PromptPair>,
    text: Text,
    draws: Draws,
    /// Tokens that the tokenizer adds to any text.
    special_tokens: usize,
}

impl Pairs {
    pub(super) fn new(
        pairs: Vec<PromptPair>,
        text: Text,
        draws: Draws,
    ) -> Result<Self, PromptError> {
        let special_tokens = count(&text, "")?;
        Ok(Self {
            pairs,
            text,
            draws,
            special_tokens,
        })
    }

    pub(super) fn prompt(&self, warmup: bool, index: u32) -> Result<Prompt, PromptError> {
        let pair = in_turn(&self.pairs, index);
        let (prompt, answer) = pair.map_or(("", ""), |pair| (&pair.prompt, &pair.answer));
        let tokens = count(&self.text, answer)?.saturating_sub(self.special_tokens);
        Ok(Prompt {
            content: Content::Text(with_nonce(Some(&self.draws), warmup, index, prompt)),
            max_tokens: u32::try_from(tokens).unwrap_or(u32::MAX).max(1),
            planned_input_tokens: None,
        })
    }
}

fn in_turn<T>(items: &[T], index: u32) -> Option<&T> {
    items.get((index as usize).checked_rem(items.len())?)
}

fn with_nonce(draws: Option<&Draws>, warmup: bool, index: u32, text: &str) -> String {
    match draws.filter(|draws| draws.cold()) {
        Some(draws) => draws.nonce_line(warmup, index.into()) + text,
        None => text.to_owned(),
    }
}

fn count(text: &Text, words: &str) -> Result<usize, PromptError> {
    let ids = text.encode(&Input::Text(words.to_owned()));
    let ids = ids.map_err(|error| PromptError {
        field: "workload.prompts.pairs",
        message: format!("an answer cannot be counted: {error}"),
    })?;
    Ok(ids.len())
}
