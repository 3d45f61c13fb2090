//! The JSON of answers as servers at large send it: everything optional, unknown fields ignored,
//! strings borrowed where they can be. The strict form that our own server sends is in
//! `contracts::openai`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use contracts::generate::RequestMetrics;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
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
    choices: Option<Choices<'a>>,
    #[serde(default)]
    pub usage: Option<Usage>,
    // Boxed, as is all that a token's event does not have: chunks are moved a few times each.
    #[serde(default)]
    metrics: Option<Box<Value>>,
    #[serde(default)]
    error: Option<Box<Value>>,
    #[serde(default, borrow)]
    object: Option<Text<'a>>,
    #[serde(default)]
    message: Option<Box<Value>>,
    #[serde(default)]
    pub prompt_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    pub token_ids: Option<Vec<u32>>,
}

/// The one answer of a chunk that we ask for, index 0, picked from the list without keeping it: an
/// event must not cost an allocation.
#[derive(Debug)]
struct Choices<'a>(Option<Choice<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pick<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Pick<'a> {
            type Value = Choices<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut picked = None;
                while let Some(choice) = list.next_element::<Choice<'a>>()? {
                    if choice.index == 0 && picked.is_none() {
                        picked = Some(choice);
                    }
                }
                Ok(Choices(picked))
            }
        }
        deserializer.deserialize_seq(Pick(PhantomData))
    }
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
    message: Option<Box<Message<'a>>>,
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
    tool_calls: Option<ToolCalls>,
    #[serde(default, borrow)]
    function_call: Option<Box<Function<'a>>>,
}

/// Whether any of a list of tool calls says something.
#[derive(Debug)]
struct ToolCalls(bool);

impl<'de> Deserialize<'de> for ToolCalls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = ToolCalls;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tool calls")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut any = false;
                while let Some(call) = list.next_element::<ToolCall<'de>>()? {
                    any |= call.function.is_some_and(|f| f.says_something());
                }
                Ok(ToolCalls(any))
            }
        }
        deserializer.deserialize_seq(Any)
    }
}

#[derive(Debug, Deserialize)]
struct ToolCall<'a> {
    #[serde(default, borrow)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(default, borrow)]
    name: Option<Text<'a>>,
    #[serde(default, borrow)]
    arguments: Option<Text<'a>>,
}

impl Function<'_> {
    fn says_something(&self) -> bool {
        !str_of(&self.name).is_empty() || !str_of(&self.arguments).is_empty()
    }
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
        is_error.then(|| self.message.as_deref().map(words_of).unwrap_or_default())
    }

    /// `metrics` if it is the one that our servers send; another's is not ours to judge.
    pub fn metrics(&self) -> Option<RequestMetrics> {
        let value = self.metrics.as_deref()?;
        RequestMetrics::deserialize(value).ok()
    }

    /// The one answer that we ask for; none in the usage event.
    pub fn choice(&self) -> Option<&Choice<'a>> {
        self.choices.as_ref()?.0.as_ref()
    }
}

impl Choice<'_> {
    /// What it says, whichever endpoint it is from.
    pub fn words(&self) -> Words<'_> {
        let message = self.delta.as_ref().or(self.message.as_deref());
        let Some(message) = message else {
            return Words {
                text: str_of(&self.text),
                ..Words::default()
            };
        };
        let reasoning = message.reasoning_content.as_ref();
        let function = message.function_call.as_deref();
        Words {
            text: str_of(&message.content),
            reasoning: reasoning.map_or(str_of(&message.reasoning), |r| &r.0),
            tool_call: message.tool_calls.as_ref().is_some_and(|calls| calls.0)
                || function.is_some_and(|f| f.says_something()),
        }
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
