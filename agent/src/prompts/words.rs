//! Prompts of an exact number of tokens, from words that are one token each in the tokenizer at
//! hand. What the words are drawn from, and how many, is the caller's matter.

use engine::text::Text;
use rand_chacha::ChaCha8Rng;

use super::draw::below;
use super::{Content, PromptError};
use crate::load::Route;

/// Words that a prompt is made of, at most: more variety gains nothing.
const POOL_MAX: usize = 4096;
/// Words below which prompts would hardly differ.
const POOL_MIN: usize = 16;
/// Words that may begin a prompt, at most; each is encoded alone to learn what it costs there.
const FIRST_MAX: usize = 256;
/// A nonce's words tell apart at least 2 to the power of this many prompts.
const NONCE_BITS: f64 = 40.0;
/// Prompts that are tried for one length. The second is right unless words merge with each other.
const TRIES_MAX: usize = 8;

/// A tokenizer's words.
pub(super) struct Words {
    text: Text,
    route: Route,
    /// Words that cost the same at the very start, as they stand there.
    first: Vec<String>,
    /// Words, each with the space before it, that cost one token wherever they follow another.
    more: Vec<String>,
    /// Tokens before the first word: template, special tokens.
    head_tokens: u32,
    /// Tokens beyond one a word, before and behind.
    around_tokens: u32,
    nonce_words: u32,
}

/// Some words of a prompt and where they come from.
pub(super) struct Segment {
    pub draws: ChaCha8Rng,
    pub words: u32,
}

impl Words {
    /// Finds the words of a tokenizer and proves them by encoding.
    pub(super) fn of(text: Text, route: Route) -> Result<Self, PromptError> {
        let mut words = Self {
            text,
            route,
            first: Vec::new(),
            more: Vec::new(),
            head_tokens: 0,
            around_tokens: 0,
            nonce_words: 0,
        };
        let candidates = words.candidates();
        words.find_first(&candidates)?;
        words.find_more(&candidates)?;
        if words.more.len() < POOL_MIN || words.first.len() < 2 {
            return Err(PromptError {
                field: "workload.tokenizer",
                message: format!(
                    "it has {} whole words of the letters a to z; prompts of exact length are made \
                     of at least {POOL_MIN}",
                    words.more.len()
                ),
            });
        }
        let bits = |words: &[String]| (words.len() as f64).log2();
        let behind = (NONCE_BITS - bits(&words.first)) / bits(&words.more);
        words.nonce_words = 1 + behind.max(0.0).ceil() as u32;
        Ok(words)
    }

    /// Tokens of a prompt before its first word.
    pub(super) fn head_tokens(&self) -> u32 {
        self.head_tokens
    }

    /// Tokens of a prompt that are no words.
    pub(super) fn around_tokens(&self) -> u32 {
        self.around_tokens
    }

    /// Words that make a prompt unlike all others.
    pub(super) fn nonce_words(&self) -> u32 {
        self.nonce_words
    }

    /// The words of all segments, one after another, and the tokens that the prompt has with them:
    /// [`Self::around_tokens`] and one a word. The last segment gives or takes words where words
    /// merge; `field` is what an error names.
    pub(super) fn prompt(
        &self,
        segments: &[Segment],
        field: &'static str,
    ) -> Result<(String, u32), PromptError> {
        let wanted = segments.iter().map(|segment| segment.words).sum::<u32>() + self.around_tokens;
        let mut extra = 0;
        let mut nearest = 0;
        for _ in 0..TRIES_MAX {
            let prompt = self.spell(segments, extra);
            let tokens = self.count(&prompt)?;
            if tokens == wanted {
                return Ok((prompt, tokens));
            }
            extra += i64::from(wanted) - i64::from(tokens);
            nearest = tokens;
        }
        Err(PromptError {
            field,
            message: format!(
                "no prompt of {wanted} tokens could be made with this tokenizer, the nearest has \
                 {nearest}; give another length"
            ),
        })
    }

    fn spell(&self, segments: &[Segment], extra: i64) -> String {
        let last = segments.len().saturating_sub(1);
        let mut prompt = String::new();
        for (place, segment) in segments.iter().enumerate() {
            let mut words = i64::from(segment.words);
            if place == last {
                words += extra;
            }
            let mut draws = segment.draws.clone();
            for _ in 0..words {
                let pool = if prompt.is_empty() {
                    &self.first
                } else {
                    &self.more
                };
                let word = below(&mut draws, u32::try_from(pool.len()).unwrap_or(u32::MAX));
                prompt.push_str(pool.get(word as usize).map_or("", String::as_str));
            }
        }
        prompt
    }

    fn count(&self, prompt: &str) -> Result<u32, PromptError> {
        let tokens = self.encode(prompt)?.len();
        Ok(u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// As the engine does.
    fn encode(&self, prompt: &str) -> Result<Vec<u32>, PromptError> {
        let input = Content::Text(prompt.to_owned()).into_input(self.route);
        self.text.encode(&input).map_err(|error| PromptError {
            field: "workload.endpoint",
            message: error.to_string(),
        })
    }

    /// Ids that stand for a word of letters with a space before it, and the word.
    fn candidates(&self) -> Vec<(u32, String)> {
        let emittable = (0_u32..).zip(self.text.emittable());
        let ids = emittable.filter_map(|(id, emittable)| emittable.then_some(id));
        ids.filter_map(|id| {
            // Twice, so that the space shows: some tokenizers drop the one before all text.
            let twice = self.text.decode(&[id, id]);
            let (word, again) = twice.trim_start().split_once(' ')?;
            let plain = word == again && word.bytes().all(|byte| byte.is_ascii_lowercase());
            (plain && !word.is_empty()).then(|| (id, word.to_owned()))
        })
        .take(POOL_MAX)
        .collect()
    }

    /// Words for the first place, and what stands around them. Where a text begins, some tokenizers
    /// and templates put or drop a space: the way that costs less is taken.
    fn find_first(&mut self, candidates: &[(u32, String)]) -> Result<(), PromptError> {
        let mut best: Vec<(String, Vec<u32>)> = Vec::new();
        let mut best_tokens = usize::MAX;
        for lead in ["", " "] {
            for (_, word) in candidates.iter().take(2 * FIRST_MAX) {
                let word = format!("{lead}{word}");
                let ids = self.encode(&word)?;
                if ids.len() < best_tokens {
                    best_tokens = ids.len();
                    best.clear();
                }
                if ids.len() == best_tokens {
                    best.push((word, ids));
                }
            }
        }
        // One way only, or a word might be there twice.
        let lead = best.first().is_some_and(|(word, _)| word.starts_with(' '));
        best.retain(|(word, _)| word.starts_with(' ') == lead);
        best.truncate(FIRST_MAX);
        let Some(((_, one), others)) = best.split_first() else {
            return Ok(());
        };
        let shared = |ids: &[u32]| one.iter().zip(ids).take_while(|(a, b)| a == b).count();
        let head = others.iter().map(|(_, ids)| shared(ids)).min().unwrap_or(0);
        self.head_tokens = u32::try_from(head).unwrap_or(u32::MAX);
        self.around_tokens = u32::try_from(best_tokens.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first = best.into_iter().map(|(word, _)| word).collect();
        Ok(())
    }

    /// Words for all other places: those whose id comes back where they follow others.
    fn find_more(&mut self, candidates: &[(u32, String)]) -> Result<(), PromptError> {
        let Some(first) = self.first.first().cloned() else {
            return Ok(());
        };
        let before = self.encode(&first)?;
        // Halves of what does not come back whole, until what is left is one word.
        let mut untried = vec![candidates];
        let mut good: Vec<&(u32, String)> = Vec::new();
        while let Some(some) = untried.pop() {
            let prompt = some
                .iter()
                .fold(first.clone(), |prompt, (_, word)| prompt + " " + word);
            let ids = self.encode(&prompt)?;
            let start = before.iter().zip(&ids).take_while(|(a, b)| a == b).count();
            let expected = some.iter().map(|(id, _)| id);
            if ids.len() == before.len() + some.len()
                && ids.iter().skip(start).take(some.len()).eq(expected)
            {
                good.extend(some);
            } else if some.len() > 1 {
                let (left, right) = some.split_at(some.len() / 2);
                untried.extend([right, left]);
            }
        }
        self.more = good.iter().map(|(_, word)| format!(" {word}")).collect();
        Ok(())
    }
}
