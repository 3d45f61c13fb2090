//! Text to token ids and back: tokenizer, chat template, stop tokens.

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
