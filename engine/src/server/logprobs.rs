//! Log probabilities in OpenAI's two shapes, for a whole answer or for the part of it that an event
//! of a stream carries.

use contracts::generate::TokenLogprobs;
use serde_json::{Map, Value, json};

use super::request::Kind;
use crate::text::{Detokenizer, Text};

/// Writes the log probabilities of one answer, in order, in as many parts as its caller likes.
#[derive(Debug)]
pub struct Logprobs {
    kind: Kind,
    text: Text,
    /// Follows the answer, to know where each token begins.
    detokenizer: Detokenizer,
    /// Characters of the answer that are complete so far.
    characters: usize,
}

impl Logprobs {
    /// At the start of an answer made with this tokenizer.
    pub fn new(kind: Kind, text: Text) -> Self {
        Self {
            kind,
            detokenizer: text.detokenizer(),
            text,
            characters: 0,
        }
    }

    /// The next tokens, as a choice's `logprobs`; none for no tokens.
    pub fn write(&mut self, tokens: &[TokenLogprobs]) -> Option<Value> {
        if tokens.is_empty() {
            return None;
        }
        Some(match self.kind {
            Kind::Chat => {
                let content: Vec<Value> = tokens.iter().map(|token| self.chat(token)).collect();
                json!({ "content": content })
            }
            Kind::Completions => self.completions(tokens),
        })
    }

    fn chat(&self, token: &TokenLogprobs) -> Value {
        let top = token.top.iter();
        let mut entry = self.chat_entry(token.id, token.logprob);
        entry["top_logprobs"] = top
            .map(|(id, logprob)| self.chat_entry(*id, *logprob))
            .collect();
        entry
    }

    /// `token` is for people: an unfinished character shows as U+FFFD, and `bytes` tells which.
    /// Special tokens stand for no bytes: they have null.
    fn chat_entry(&self, id: u32, logprob: f32) -> Value {
        let bytes = self.text.bytes(id);
        let (token, bytes) = match bytes.is_empty() {
            true => (self.text.name(id).unwrap_or_default(), Value::Null),
            false => (String::from_utf8_lossy(bytes).into_owned(), json!(bytes)),
        };
        json!({ "token": token, "logprob": logprob, "bytes": bytes })
    }

    /// `text_offset` counts characters of the answer. A token that ends a character begins, as the
    /// ones before it, where the character does.
    fn completions(&mut self, tokens: &[TokenLogprobs]) -> Value {
        let (mut names, mut logprobs, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
        for token in tokens {
            names.push(self.unique_name(token.id));
            logprobs.push(token.logprob);
            tops.push(self.top(token));
            offsets.push(self.characters);
            self.characters += self.detokenizer.push(token.id).chars().count();
        }
        json!({
            "tokens": names,
            "token_logprobs": logprobs,
            "top_logprobs": tops,
            "text_offset": offsets,
        })
    }

    /// The best by name, and the token itself if it is none of them. Where two have one name, the
    /// likelier stays.
    fn top(&self, token: &TokenLogprobs) -> Map<String, Value> {
        let mut map = Map::new();
        let itself = (token.id, token.logprob);
        for (id, logprob) in token.top.iter().chain([&itself]) {
            map.entry(self.unique_name(*id))
                .or_insert_with(|| json!(logprob));
        }
        map
    }

    /// Names are keys here: what is no text is spelt out, in OpenAI's way.
    fn unique_name(&self, id: u32) -> String {
        let bytes = self.text.bytes(id);
        if bytes.is_empty() {
            return self.text.name(id).unwrap_or_default();
        }
        std::str::from_utf8(bytes).map_or_else(
            |_| {
                let spelt = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
                format!("bytes:{}", spelt.collect::<String>())
            },
            str::to_owned,
        )
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::text::MIN_VOCAB_SIZE;

    fn token(id: u32, logprob: f32, top: &[(u32, f32)]) -> TokenLogprobs {
        TokenLogprobs {
            id,
            logprob,
            top: top.to_vec(),
        }
    }

    /// In the made tokenizer byte b is token 3 + b.
    fn byte(byte: u8) -> u32 {
        3 + u32::from(byte)
    }

    #[test]
    fn a_chats_entry_has_the_bytes_of_a_part_of_a_character() {
        let text = Text::made(MIN_VOCAB_SIZE).unwrap();
        let mut logprobs = Logprobs::new(Kind::Chat, text);
        assert_eq!(logprobs.write(&[]), None);
        let written = logprobs.write(&[token(byte(0xE6), -0.5, &[(byte(b'a'), -0.25)])]);
        let entry = &written.unwrap()["content"][0];
        assert_eq!(
            *entry,
            json!({
                "token": "\u{FFFD}", "logprob": -0.5, "bytes": [0xE6],
                "top_logprobs": [{"token": "a", "logprob": -0.25, "bytes": [97]}],
            })
        );
    }

    #[test]
    fn a_completions_offsets_count_characters_over_all_parts() {
        let text = Text::made(MIN_VOCAB_SIZE).unwrap();
        let mut logprobs = Logprobs::new(Kind::Completions, text);
        // "日" in three bytes, then "a"; the first two come in a part of their own.
        let tokens = [0xE6, 0x97, 0xA5, b'a'].map(|b| token(byte(b), -1.0, &[(0, -0.5)]));
        let first = logprobs.write(&tokens[..2]).unwrap();
        assert_eq!(first["tokens"], json!(["bytes:\\xe6", "bytes:\\x97"]));
        assert_eq!(first["text_offset"], json!([0, 0]));
        assert_eq!(
            first["top_logprobs"][0],
            json!({"<|endoftext|>": -0.5, "bytes:\\xe6": -1.0})
        );
        let second = logprobs.write(&tokens[2..]).unwrap();
        assert_eq!(second["text_offset"], json!([0, 1]));
        assert_eq!(second["token_logprobs"], json!([-1.0, -1.0]));
    }
}
