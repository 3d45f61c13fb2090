//! The tokenizer of dummy models: made up, deterministic, of any vocabulary size.
//!
//! Ids 0 to 2 are special, then come the 256 bytes, so that any text can be encoded; all other ids
//! are " a", " ba", " bab", …: every token is one that exists already plus a letter, vowels and
//! consonants by turns. What a dummy model emits is therefore visible words divided by spaces, and
//! encoding those gives the same ids again.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tokenizers::{
    AddedToken, Tokenizer,
    models::bpe::{BPE, Vocab},
    pre_tokenizers::byte_level::ByteLevel,
};

use super::{
    Parts, Text,
    pieces::{Pieces, byte_chars},
    template::Template,
};
use crate::error::EngineError;

const END_OF_TEXT: &str = "<|endoftext|>";
const TURN_START: &str = "<|im_start|>";
const TURN_END: &str = "<|im_end|>";
const SPECIAL_TOKENS: [&str; 3] = [END_OF_TEXT, TURN_START, TURN_END];

/// Special tokens, bytes, and one word for each letter: with fewer, a model has little to say.
pub const MIN_VOCAB_SIZE: usize = SPECIAL_TOKENS.len() + 256 + 26;

/// ChatML, so that the chat path runs without a network too.
const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] \
                        + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

impl Text {
    /// A tokenizer of exactly `vocab_size` ids for a model of random weights.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] below [`MIN_VOCAB_SIZE`].
    pub fn made(vocab_size: usize) -> Result<Self, EngineError> {
        if vocab_size < MIN_VOCAB_SIZE {
            return Err(EngineError::Unsupported {
                what: format!("a made tokenizer of {vocab_size} ids"),
                why: format!("it needs {MIN_VOCAB_SIZE} or more"),
            });
        }
        let (tokens, merges) = vocabulary(vocab_size);
        let mut hasher = Sha256::new();
        for token in &tokens {
            hasher.update(token);
            hasher.update([0]);
        }
        let vocab: Vocab = tokens.into_iter().zip(0u32..).collect();
        let internal = |error| EngineError::Internal(format!("made tokenizer: {error}"));
        let model = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .build()
            .map_err(internal)?;
        let mut tokenizer = Tokenizer::new(model);
        let byte_level = ByteLevel::new(false, false, true);
        tokenizer
            .with_pre_tokenizer(Some(byte_level))
            .with_decoder(Some(byte_level));
        tokenizer
            .add_special_tokens(SPECIAL_TOKENS.map(|token| AddedToken::from(token, true)))
            .map_err(internal)?;

        let names = [("bos_token", TURN_START), ("eos_token", TURN_END)];
        let names: BTreeMap<_, _> = names
            .map(|(key, token)| (key.to_owned(), token.to_owned()))
            .into();
        Ok(Self::new(
            Parts {
                pieces: Pieces::of(&tokenizer)?,
                stop_ids: [END_OF_TEXT, TURN_END]
                    .iter()
                    .filter_map(|token| tokenizer.token_to_id(token))
                    .collect(),
                tokenizer,
                before: Vec::new(),
                after: Vec::new(),
                sha256: hex::encode(hasher.finalize()),
            },
            Some(Template::new(TEMPLATE, names)),
        ))
    }
}

/// Token names by id, in the byte alphabet, and the merges that make the words.
fn vocabulary(size: usize) -> (Vec<String>, Vec<(String, String)>) {
    let bytes = byte_chars();
    let mut tokens: Vec<String> = SPECIAL_TOKENS.map(str::to_owned).into();
    tokens.extend(bytes.iter().map(|c| c.to_string()));

    let space = bytes[usize::from(b' ')].to_string();
    let mut merges = Vec::new();
    let mut parents = vec![space];
    while tokens.len() < size {
        let mut words = Vec::new();
        let children = parents
            .iter()
            .flat_map(|parent| next_letters(parent).map(move |letter| (parent, letter)));
        for (parent, letter) in children.take(size - tokens.len()) {
            let word = format!("{parent}{letter}");
            merges.push((parent.clone(), letter.to_string()));
            tokens.push(word.clone());
            words.push(word);
        }
        parents = words;
    }
    (tokens, merges)
}

/// Letters that may follow: any after the space, consonants after a vowel, vowels after a consonant.
fn next_letters(word: &str) -> impl Iterator<Item = char> {
    let is_vowel = |letter: char| "aeiou".contains(letter);
    let last = word.chars().last().filter(char::is_ascii_lowercase);
    ('a'..='z').filter(move |&letter| last.is_none_or(|last| is_vowel(last) != is_vowel(letter)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::text::Input;

    #[test]
    fn has_the_size_asked_for_and_stays_the_same() {
        for size in [MIN_VOCAB_SIZE, 512, 4096, 49152] {
            let text = Text::made(size).unwrap();
            assert_eq!(text.vocab_size(), size);
            assert_eq!(text.emittable().len(), size);
        }
        assert_eq!(
            Text::made(512).unwrap().sha256(),
            Text::made(512).unwrap().sha256()
        );
        assert_ne!(
            Text::made(512).unwrap().sha256(),
            Text::made(513).unwrap().sha256()
        );
        let error = Text::made(MIN_VOCAB_SIZE - 1).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot run a made tokenizer of 284 ids: it needs 285 or more"
        );
    }

    #[test]
    fn emits_words_and_never_special_or_lone_bytes() {
        let text = Text::made(4096).unwrap();
        let emittable = text.emittable();
        for (id, emittable) in (0u32..).zip(emittable) {
            assert_eq!(emittable, id >= 259, "id {id}");
            if emittable {
                let word = text.decode(&[id]);
                assert!(
                    word.starts_with(' ') && word[1..].chars().all(|c| c.is_ascii_lowercase()),
                    "{word:?}"
                );
                assert!(word.len() > 1);
            }
        }
        assert_eq!(text.decode(&[259, 260, 285, 4095]), " a b ab alem");
        assert_eq!(text.stop_ids(), [0, 2]);
        assert_eq!(text.decode(&[0, 1, 2]), "");
    }

    #[test]
    fn a_chat_is_chatml() {
        let text = Text::made(512).unwrap();
        let message = contracts::openai::ChatMessage {
            role: "user".into(),
            content: "hi".into(),
        };
        let chat = text.encode(&Input::Chat(vec![message])).unwrap();
        let same = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(chat, text.encode(&Input::Text(same.into())).unwrap());
        assert_eq!(chat.iter().filter(|&&id| id < 3).count(), 3);
    }

    static MADE: LazyLock<Text> = LazyLock::new(|| Text::made(1000).unwrap());

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            let ids = MADE.encode(&Input::Text(text.clone())).unwrap();
            prop_assert_eq!(MADE.decode(&ids), text);
        }

        #[test]
        fn what_is_emitted_is_encoded_to_the_same_ids(ids in prop::collection::vec(259u32..1000, 0..40)) {
            let text = MADE.decode(&ids);
            prop_assert_eq!(MADE.encode(&Input::Text(text)).unwrap(), ids);
        }

        #[test]
        fn a_stream_never_splits_a_character(ids in prop::collection::vec(0u32..1000, 0..60)) {
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| MADE.parts.pieces.bytes(id).to_vec()).collect();
            let mut stream = MADE.detokenizer();
            let mut text = String::new();
            for &id in &ids {
                text.push_str(&stream.push(id));
            }
            text.push_str(&stream.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
