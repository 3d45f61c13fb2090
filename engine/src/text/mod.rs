//! Text to token ids and back: tokenizer, chat template, stop tokens.

use crate::error::EngineError;
use contracts::openai::ChatMessage;

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

/// STAND-IN
#[derive(Debug, Clone)]
pub struct Text {
    template: bool,
}
impl Text {
    /// STAND-IN
    pub fn made(_vocab: usize) -> Text {
        Text { template: true }
    }
    /// STAND-IN
    pub fn without_template(self) -> Text {
        Text { template: false }
    }
    /// STAND-IN
    pub fn has_template(&self) -> bool {
        self.template
    }
    /// STAND-IN
    pub fn encode(&self, input: &Input) -> Result<Vec<u32>, EngineError> {
        Ok(match input {
            Input::Text(t) => t.bytes().map(u32::from).collect(),
            Input::Chat(m) => m
                .iter()
                .flat_map(|m| {
                    format!("<{}>{}", m.role, m.content.as_str().unwrap_or("")).into_bytes()
                })
                .map(u32::from)
                .collect(),
            Input::Ids(ids) => ids.clone(),
        })
    }
    /// STAND-IN
    pub fn decode(&self, ids: &[u32]) -> String {
        ids.iter()
            .map(|i| (b'a' + (*i % 26) as u8) as char)
            .collect()
    }
    /// STAND-IN
    pub fn sha256(&self) -> &str {
        ""
    }
    /// STAND-IN
    pub fn vocab_size(&self) -> usize {
        256
    }
}
