//! What each token id stands for, in bytes.
//!
//! A tokenizer's decoder is read once into a table, so that decoding a token is a look-up and text
//! can be handed out as soon as its last byte is there. Two schemes cover our model families: the
//! byte alphabet of GPT-2 and SentencePiece's pieces with byte fallback. Others are refused.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tokenizers::Tokenizer;

use crate::error::EngineError;

/// The table has an entry for each id up to the highest: a damaged file must not ask for gigabytes.
/// The largest vocabularies have a few hundred thousand ids.
const MAX_IDS: u32 = 1 << 22;

/// Bytes of every id; special tokens have none.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where each id's bytes end; they begin where the id's before end.
    ends: Vec<usize>,
    leading_spaces_dropped: usize,
}

impl Pieces {
    /// Reads the table out of a tokenizer.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] where the decoder is of neither scheme.
    pub(super) fn of(tokenizer: &Tokenizer) -> Result<Self, EngineError> {
        let decoder = match tokenizer.get_decoder() {
            Some(decoder) => serde_json::to_value(decoder)
                .map_err(|error| EngineError::Internal(format!("tokenizer's decoder: {error}")))?,
            None => return Err(unsupported("none")),
        };
        let scheme = Scheme::read(&decoder)?;
        let added = tokenizer.get_added_tokens_decoder();
        let special: HashSet<&str> = added
            .values()
            .filter(|token| token.special)
            .map(|token| token.content.as_str())
            .collect();

        let count = match tokenizer.get_vocab(true).into_values().max() {
            Some(highest) if highest < MAX_IDS => highest + 1,
            Some(highest) => {
                return Err(EngineError::Unsupported {
                    what: format!("a tokenizer with token id {highest}"),
                    why: format!("ids must be below {MAX_IDS}"),
                });
            }
            None => 0,
        };
        let mut pieces = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            leading_spaces_dropped: scheme.leading_spaces_dropped(),
        };
        for id in 0..count {
            if let Some(token) = tokenizer.id_to_token(id)
                && !special.contains(token.as_str())
            {
                scheme.append(&token, &mut pieces.bytes);
            }
            pieces.ends.push(pieces.bytes.len());
        }
        Ok(pieces)
    }

    /// Number of ids.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of an id; none for special and unknown ids.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let index = id as usize;
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// How many leading spaces of a text are the tokenizer's own and not the text's.
    pub(super) fn leading_spaces_dropped(&self) -> usize {
        self.leading_spaces_dropped
    }
}

/// How a token's name becomes bytes.
enum Scheme {
    /// Each character of the name stands for one byte.
    ByteLevel { byte_of: HashMap<char, u8> },
    /// The name is text, after replacements; `<0xNN>` is one byte.
    SentencePiece {
        replacements: Vec<(String, String)>,
        byte_fallback: bool,
        leading_spaces_dropped: usize,
    },
}

impl Scheme {
    fn read(decoder: &Value) -> Result<Self, EngineError> {
        let mut steps = Vec::new();
        flatten(decoder, &mut steps);
        if let [only] = steps.as_slice()
            && kind(only) == "ByteLevel"
        {
            let byte_of = byte_chars().into_iter().zip(0..=u8::MAX).collect();
            return Ok(Self::ByteLevel { byte_of });
        }
        let (mut replacements, mut byte_fallback, mut leading_spaces_dropped) =
            (Vec::new(), false, 0);
        let mut fused = false;
        for step in steps {
            match kind(step) {
                "Replace" => {
                    let pattern = step.pointer("/pattern/String").and_then(Value::as_str);
                    let content = step.get("content").and_then(Value::as_str);
                    let (Some(pattern), Some(content)) = (pattern, content) else {
                        return Err(unsupported("Replace by a regular expression"));
                    };
                    replacements.push((pattern.to_owned(), content.to_owned()));
                }
                "ByteFallback" => byte_fallback = true,
                "Fuse" => fused = true,
                "Strip" => {
                    let number = |name| step.get(name).and_then(Value::as_u64).unwrap_or(0);
                    if !fused
                        || number("stop") != 0
                        || step.get("content").and_then(Value::as_str) != Some(" ")
                    {
                        return Err(unsupported(
                            "Strip of anything but leading spaces of the whole text",
                        ));
                    }
                    leading_spaces_dropped = usize::try_from(number("start")).unwrap_or(usize::MAX);
                }
                other => return Err(unsupported(other)),
            }
        }
        Ok(Self::SentencePiece {
            replacements,
            byte_fallback,
            leading_spaces_dropped,
        })
    }

    fn leading_spaces_dropped(&self) -> usize {
        match self {
            Self::ByteLevel { .. } => 0,
            Self::SentencePiece {
                leading_spaces_dropped,
                ..
            } => *leading_spaces_dropped,
        }
    }

    fn append(&self, token: &str, out: &mut Vec<u8>) {
        match self {
            Self::ByteLevel { byte_of } => {
                let before = out.len();
                for character in token.chars() {
                    // An added token may hold other characters: then its name is its text.
                    let Some(&byte) = byte_of.get(&character) else {
                        out.truncate(before);
                        out.extend_from_slice(token.as_bytes());
                        return;
                    };
                    out.push(byte);
                }
            }
            Self::SentencePiece {
                replacements,
                byte_fallback,
                ..
            } => {
                if *byte_fallback && let Some(byte) = fallback_byte(token) {
                    out.push(byte);
                    return;
                }
                let text = replacements
                    .iter()
                    .fold(token.to_owned(), |text, (pattern, content)| {
                        text.replace(pattern, content)
                    });
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// The byte that `<0xNN>` stands for.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2)
        .then(|| u8::from_str_radix(digits, 16).ok())
        .flatten()
}

fn flatten<'a>(decoder: &'a Value, steps: &mut Vec<&'a Value>) {
    match decoder.get("decoders").and_then(Value::as_array) {
        Some(inner) => inner.iter().for_each(|step| flatten(step, steps)),
        None => steps.push(decoder),
    }
}

fn kind(step: &Value) -> &str {
    step.get("type")
        .and_then(Value::as_str)
        .unwrap_or("unnamed")
}

fn unsupported(decoder: &str) -> EngineError {
    EngineError::Unsupported {
        what: format!("the tokenizer's decoder ({decoder})"),
        why: "only byte-level and SentencePiece decoders are known".to_owned(),
    }
}

/// The character that stands for each byte in a byte-level vocabulary: printable Latin-1 for
/// itself, the 68 other bytes, in order, U+0100 and on (GPT-2's table).
pub(super) fn byte_chars() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut next = 0x100u32;
    for (byte, slot) in (0..=u8::MAX).zip(&mut table) {
        *slot = if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or_default()
        };
    }
    table
}
