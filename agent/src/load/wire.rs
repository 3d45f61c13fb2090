//! The JSON of answers as servers at large send it: everything optional, unknown fields ignored,
//! strings borrowed where they can be. The strict form that our own server sends is in
//! `contracts::openai`.

use std::borrow::Cow;

use contracts::generate::RequestMetrics;
use serde::Deserialize;
use serde_json::Value;

/// Characters of a server's words that an error keeps.
const MESSAGE_CHARS_MAX: usize = 300;

/// A string borrowed from the document unless it has escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// One event of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub struct Chunk<'a> {
    #[serde(default, borrow)]
    pub choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(default)]
    metrics: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default, borrow)]
    object: Option<Text<'a>>,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    pub prompt_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    pub token_ids: Option<Vec<u32>>,
}

/// One answer of a chunk.
#[derive(Debug, Deserialize)]
pub struct Choice<'a> {
    #[serde(default)]
    pub index: u32,
    #[serde(default, borrow)]
    text: Option<Text<'a>>,
    #[serde(default, borrow)]
    delta: Option<Message<'a>>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default, borrow)]
    pub finish_reason: Option<Text<'a>>,
}

/// `delta` or `message`.
#[derive(Debug, Default, Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<Text<'a>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(default, borrow)]
    reasoning: Option<Text<'a>>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

/// `usage`; servers at large send it empty or in part.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub prompt_tokens: Option<u32>,
    #[serde(default)]
    pub completion_tokens: Option<u32>,
}

/// What a choice says, by kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a> {
    pub text: &'a str,
    pub reasoning: &'a str,
    /// A tool call's name or a part of its arguments.
    pub tool_call: bool,
}

impl Words<'_> {
    /// Whether there is anything that a model made.
    pub fn is_content(&self) -> bool {
        !self.text.is_empty() || !self.reasoning.is_empty() || self.tool_call
    }
}

impl<'a> Chunk<'a> {
    /// Reads one document. The error is one line.
    pub fn parse(data: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(data).map_err(|e| format!("not UTF-8: {e}"))?;
        serde_json::from_str(text).map_err(|e| format!("{e} in {:?}", one_line(text)))
    }

    /// The server's words if this is an error object, in any of the shapes that servers use.
    pub fn error_message(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(words_of(error));
        }
        let is_error = self.object.as_ref().is_some_and(|o| o.0 == "error");
        is_error.then(|| self.message.as_ref().map(words_of).unwrap_or_default())
    }

    /// `metrics` if it is the one that our servers send; another's is not ours to judge.
    pub fn metrics(&self) -> Option<RequestMetrics> {
        let value = self.metrics.as_ref()?;
        RequestMetrics::deserialize(value).ok()
    }

    /// The one answer that we ask for; none in the usage event.
    pub fn choice(&self) -> Option<&Choice<'a>> {
        self.choices.as_ref()?.iter().find(|c| c.index == 0)
    }
}

impl Choice<'_> {
    /// What it says, whichever endpoint it is from.
    pub fn words(&self) -> Words<'_> {
        let message = self.delta.as_ref().or(self.message.as_ref());
        let Some(message) = message else {
            return Words {
                text: str_of(&self.text),
                ..Words::default()
            };
        };
        let reasoning = message.reasoning_content.as_ref();
        let calls = message.tool_calls.as_deref().unwrap_or_default();
        Words {
            text: str_of(&message.content),
            reasoning: reasoning.map_or(str_of(&message.reasoning), |r| &r.0),
            tool_call: calls.iter().any(ToolCall::says_something),
        }
    }
}

impl ToolCall {
    fn says_something(&self) -> bool {
        let full = |s: &Option<String>| s.as_ref().is_some_and(|s| !s.is_empty());
        self.function
            .as_ref()
            .is_some_and(|f| full(&f.name) || full(&f.arguments))
    }
}

fn str_of<'a>(text: &'a Option<Text<'_>>) -> &'a str {
    text.as_ref().map_or("", |t| &t.0)
}

fn words_of(error: &Value) -> String {
    let message = error.get("message").unwrap_or(error);
    match message.as_str() {
        Some(text) => one_line(text),
        None => one_line(&message.to_string()),
    }
}

/// A server's words fit for an error line: one line, bounded.
pub fn one_line(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > 4 * MESSAGE_CHARS_MAX {
            break;
        }
    }
    match words.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words,
    }
}
