//! Text to token ids and back: tokenizer, chat template, stop tokens.
//!
//! [`Text`] is all that chapters and the server see. Where it comes from is told in `files`
//! (a Hugging Face directory), `gguf` (inside the weights file) and `made` (dummy models).
//! Which model takes it, and how many ids that model has, is `model`'s business.

mod detokenizer;
mod files;
mod gguf;
mod made;
mod pieces;
mod stop;
mod template;
mod template_functions;

use std::{fmt, sync::Arc};

use contracts::openai::ChatMessage;
use tokenizers::Tokenizer;

pub use self::{
    detokenizer::Detokenizer,
    files::TextFiles,
    made::MIN_VOCAB_SIZE,
    stop::{Released, StopMatcher},
};
use self::{pieces::Pieces, template::Template};
use crate::error::EngineError;

/// What a request gives an engine to continue.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Raw text: the tokenizer adds the special tokens that it adds by itself (BOS), no template.
    Text(String),
    /// A conversation: the model's template is applied, the tokenizer adds nothing.
    Chat(Vec<ChatMessage>),
    /// Token ids as they are.
    Ids(Vec<u32>),
}

/// A model's words: its tokenizer, its chat template, the ids that end an answer.
///
/// Never changes once built, and is cheap to clone.
#[derive(Clone)]
pub struct Text {
    parts: Arc<Parts>,
    template: Option<Arc<Template>>,
}

/// What [`Text`] is made of; each source fills it in its own way.
struct Parts {
    tokenizer: Tokenizer,
    pieces: Pieces,
    /// Sorted.
    stop_ids: Vec<u32>,
    /// Ids put before raw text, where the tokenizer has no step of its own for that.
    before: Vec<u32>,
    /// Likewise behind it.
    after: Vec<u32>,
    sha256: String,
}

impl Text {
    fn new(mut parts: Parts, template: Option<Template>) -> Self {
        parts.stop_ids.sort_unstable();
        parts.stop_ids.dedup();
        Self {
            parts: Arc::new(parts),
            template: template.map(Arc::new),
        }
    }

    /// Token ids of a request.
    ///
    /// A chat goes through the model's template with `add_generation_prompt`; the template writes
    /// the special tokens, the tokenizer adds none. Raw text gets those that the tokenizer adds.
    /// Ids are taken as they are. Names of special tokens inside a text become these tokens, as in
    /// every engine that reads Hugging Face tokenizers.
    ///
    /// # Errors
    /// [`EngineError::BadInput`] naming `messages`: no template, content that is not text, or
    /// the template's own refusal.
    pub fn encode(&self, input: &Input) -> Result<Vec<u32>, EngineError> {
        match input {
            Input::Ids(ids) => Ok(ids.clone()),
            Input::Text(text) => {
                let mut ids = self.parts.before.clone();
                ids.extend(self.tokenize(text, true)?);
                ids.extend(&self.parts.after);
                Ok(ids)
            }
            Input::Chat(messages) => {
                let template = self.template.as_ref().ok_or_else(|| {
                    EngineError::bad_input(
                        "messages",
                        "this model has no chat template; send a plain prompt (completions) instead",
                    )
                })?;
                self.tokenize(&template.render(messages)?, false)
            }
        }
    }

    /// How many tokens `text` has by itself: no special tokens, no template.
    ///
    /// # Errors
    /// [`EngineError::Internal`] if the tokenizer cannot take it.
    pub fn count(&self, text: &str) -> Result<u32, EngineError> {
        let ids = self.tokenize(text, false)?;
        Ok(u32::try_from(ids.len()).unwrap_or(u32::MAX))
    }

    fn tokenize(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EngineError> {
        let encoding = self
            .parts
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|error| EngineError::Internal(format!("tokenizer: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of these ids. Special tokens and ids that the tokenizer doesn't know give nothing;
    /// bytes that are no UTF-8 give U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.detokenizer();
        let mut text = String::new();
        for &id in ids {
            text.push_str(&stream.push(id));
        }
        text.push_str(&stream.finish());
        text
    }

    /// The bytes that an id stands for in a text, which need not be whole characters; none for
    /// special tokens and unknown ids.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.parts.pieces.bytes(id)
    }

    /// What the tokenizer calls an id: for special tokens, the text that stands for them in prompts.
    pub fn name(&self, id: u32) -> Option<String> {
        self.parts.tokenizer.id_to_token(id)
    }

    /// A decoder for ids that come one by one.
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(self.clone())
    }

    /// Whether this id ends an answer.
    pub fn is_stop(&self, id: u32) -> bool {
        self.parts.stop_ids.binary_search(&id).is_ok()
    }

    /// The ids that end an answer, ascending; none is possible.
    pub fn stop_ids(&self) -> &[u32] {
        &self.parts.stop_ids
    }

    /// Whether [`Input::Chat`] can be encoded.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// One more than the tokenizer's highest id. The model's own vocabulary may be larger.
    pub fn vocab_size(&self) -> usize {
        self.parts.pieces.len()
    }

    /// For each id of the tokenizer, whether a made model may emit it: not special, no stop token,
    /// no lone byte, and its text is visible.
    pub fn emittable(&self) -> Vec<bool> {
        (0u32..)
            .take(self.vocab_size())
            .map(|id| !self.is_stop(id) && is_visible_word(self.parts.pieces.bytes(id)))
            .collect()
    }

    /// SHA-256 (hex) of the tokenizer: of `tokenizer.json`, or of the metadata it was built from.
    pub fn sha256(&self) -> &str {
        &self.parts.sha256
    }
}

/// Two bytes or more of whole characters, one of them visible and none a control character.
fn is_visible_word(bytes: &[u8]) -> bool {
    bytes.len() > 1
        && std::str::from_utf8(bytes).is_ok_and(|text| {
            text.chars().any(|c| !c.is_whitespace()) && !text.chars().any(char::is_control)
        })
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text")
            .field("vocab_size", &self.vocab_size())
            .field("stop_ids", &self.parts.stop_ids)
            .field("has_template", &self.has_template())
            .field("sha256", &self.parts.sha256)
            .finish()
    }
}
