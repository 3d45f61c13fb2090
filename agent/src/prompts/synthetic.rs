//! Made prompts of exact length, with a beginning that some of them share.
//!
//! A prompt is `[prefix] [nonce] words`: where there is a prefix, the nonce of a cold prompt stands
//! behind it, so that the prefix can be found in a cache; a cold run's prefix is its own.

use contracts::run::{Length, SharedPrefix};

use super::draw::{Draws, Purpose, is_among, length};
use super::words::{Segment, Words};
use super::{Content, Planned, Prompt, PromptError};

const INPUT: &str = "workload.prompts.input";

/// The source of synthetic prompts.
pub(super) struct Synthetic {
    words: Words,
    draws: Draws,
    input: Length,
    output: Length,
    prefix: Option<SharedPrefix>,
}

impl Synthetic {
    pub(super) fn new(
        words: Words,
        draws: Draws,
        input: Length,
        output: Length,
        prefix: Option<SharedPrefix>,
    ) -> Result<Self, PromptError> {
        let head = words.head_tokens();
        if let Some(prefix) = prefix
            && prefix.tokens <= head
        {
            return Err(PromptError {
                field: "workload.prompts.prefix.tokens",
                message: format!(
                    "{} tokens are no more than the {head} that stand before a prompt's words; \
                     give {} or more",
                    prefix.tokens,
                    head + 1
                ),
            });
        }
        let source = Self {
            words,
            draws,
            input,
            output,
            prefix,
        };
        source.check_input()?;
        Ok(source)
    }

    /// Refuses lengths of which all, or half, could not be met. Draws below the smallest length
    /// are raised to it.
    fn check_input(&self) -> Result<(), PromptError> {
        let (asked, usual) = match self.input {
            Length::Fixed { tokens } => (format!("{tokens} tokens are"), tokens),
            Length::Normal { mean_tokens, .. } => {
                let mean = mean_tokens.round() as u32;
                (format!("a mean of {mean_tokens} tokens is"), mean)
            }
            Length::Uniform { high_tokens, .. } => {
                (format!("at most {high_tokens} tokens are"), high_tokens)
            }
        };
        let shared = self.prefix.filter(|prefix| prefix.share > 0.0);
        let smallest = self.smallest(shared);
        if usual >= smallest {
            return Ok(());
        }
        let mut parts = vec![format!(
            "{} of template and special tokens",
            self.words.around_tokens()
        )];
        if let Some(prefix) = shared {
            let words = prefix.tokens - self.words.head_tokens();
            parts.push(format!("{words} of the shared prefix"));
        }
        parts.push(match self.draws.cold() {
            true => format!("{} of the nonce", self.words.nonce_words()),
            false => "one word".to_owned(),
        });
        Err(PromptError {
            field: INPUT,
            message: format!(
                "{asked} too few for a prompt of {}; give {smallest} or more",
                parts.join(", ")
            ),
        })
    }

    /// Tokens of the smallest prompt.
    fn smallest(&self, prefix: Option<SharedPrefix>) -> u32 {
        let shared = prefix.map_or(0, |prefix| prefix.tokens - self.words.head_tokens());
        let own = match self.draws.cold() {
            true => self.words.nonce_words(),
            false => 1,
        };
        self.words.around_tokens() + shared + own
    }

    fn prefix_of(&self, index: u32) -> Option<SharedPrefix> {
        self.prefix.filter(|prefix| is_among(prefix.share, index))
    }

    /// The lengths of a request.
    pub(super) fn planned(&self, warmup: bool, index: u32) -> Planned {
        let mut draws = self.draws.plain(Purpose::Lengths, warmup, index.into());
        let input = length(&mut draws, self.input);
        Planned {
            input_tokens: input.max(self.smallest(self.prefix_of(index))),
            max_tokens: length(&mut draws, self.output),
        }
    }

    pub(super) fn prompt(&self, warmup: bool, index: u32) -> Result<Prompt, PromptError> {
        let planned = self.planned(warmup, index);
        let mut left = planned.input_tokens - self.words.around_tokens();
        let mut segments = Vec::with_capacity(3);
        let mut take = |words: u32, draws| {
            left -= words;
            segments.push(Segment { draws, words });
            left
        };
        if let Some(prefix) = self.prefix_of(index) {
            let words = prefix.tokens - self.words.head_tokens();
            take(words, self.draws.of_both_phases(Purpose::Prefix));
        }
        if self.draws.cold() {
            let draws = self.draws.salted(Purpose::Nonce, warmup, index.into());
            take(self.words.nonce_words(), draws);
        }
        let rest = take(0, self.draws.plain(Purpose::Words, warmup, index.into()));
        if let Some(last) = segments.last_mut() {
            last.words = rest;
        }
        let (text, tokens) = self.words.prompt(&segments, INPUT)?;
        Ok(Prompt {
            content: Content::Text(text),
            max_tokens: planned.max_tokens,
            planned_input_tokens: Some(tokens),
        })
    }
}
