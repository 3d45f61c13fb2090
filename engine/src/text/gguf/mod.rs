//! A model's words from the metadata inside a `.gguf` file.
//!
//! The tokenizer is built anew from the keys `tokenizer.*`, by the rules of llama.cpp, which writes
//! and reads them; kinds that we would split differently are refused by name. The rest of the
//! metadata, and the tensors, are `model`'s business.

mod byte_level;
mod keys;
mod sentencepiece;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::{BTreeMap, HashMap};

use candle_core::quantized::gguf_file::Value;
use tokenizers::{AddedToken, Tokenizer, models::bpe::Vocab};

use self::keys::Keys;
use super::{Parts, Text, pieces::Pieces, template::Template};
use crate::error::EngineError;

/// A tokenizer of either kind, and what its kind adds to raw text where the file doesn't say.
struct Built {
    tokenizer: Tokenizer,
    add_bos: bool,
    /// Where the file names no BOS and EOS.
    default_bos: Option<u32>,
    default_eos: Option<u32>,
}

/// The tokens of the file, by id, with their types.
struct Tokens {
    names: Vec<String>,
    types: Vec<i64>,
}

impl Tokens {
    const NORMAL: i64 = 1;
    const UNKNOWN: i64 = 2;
    const CONTROL: i64 = 3;
    const USER_DEFINED: i64 = 4;
    const UNUSED: i64 = 5;
}

impl Text {
    /// Builds the tokenizer, template and stop ids from the metadata of a GGUF file; `model` is a
    /// name for errors.
    ///
    /// Stop ids are those of EOS, EOT and EOM.
    ///
    /// # Errors
    /// [`EngineError::Model`] naming the key that is missing or damaged,
    /// [`EngineError::Unsupported`] naming a kind of tokenizer that is not known.
    pub fn from_gguf(model: &str, metadata: &HashMap<String, Value>) -> Result<Self, EngineError> {
        let keys = Keys::new(model, metadata);
        let tokens = keys.tokens()?;
        let built = match keys.required_string("tokenizer.ggml.model")? {
            "gpt2" => byte_level::build(&keys, &tokens)?,
            "llama" => sentencepiece::build(&keys, &tokens)?,
            other => return Err(keys.unsupported("tokenizer.ggml.model", other, "gpt2 and llama")),
        };
        let Built {
            mut tokenizer,
            add_bos,
            default_bos,
            default_eos,
        } = built;
        tokenizer
            .add_tokens(tokens.added())
            .map_err(|error| keys.damaged(&error.to_string()))?;

        let bos = keys
            .token_id("tokenizer.ggml.bos_token_id", &tokens)?
            .or(default_bos);
        let eos = keys
            .token_id("tokenizer.ggml.eos_token_id", &tokens)?
            .or(default_eos);
        let eot = keys.token_id("tokenizer.ggml.eot_token_id", &tokens)?;
        let eom = keys.token_id("tokenizer.ggml.eom_token_id", &tokens)?;
        let added = |key, default, id: Option<u32>| -> Result<Vec<u32>, EngineError> {
            if !keys.boolean(key)?.unwrap_or(default) {
                return Ok(Vec::new());
            }
            id.map(|id| vec![id])
                .ok_or_else(|| keys.damaged(&format!("{key} is set, but there is no such token")))
        };
        let mut names = BTreeMap::new();
        for (name, id) in [("bos_token", bos), ("eos_token", eos)] {
            let token = id.and_then(|id| tokens.names.get(id as usize));
            names.extend(token.map(|token| (name.to_owned(), token.clone())));
        }
        let template = keys.string("tokenizer.chat_template")?;
        Ok(Self::new(
            Parts {
                pieces: Pieces::of(&tokenizer)?,
                tokenizer,
                stop_ids: [eos, eot, eom].into_iter().flatten().collect(),
                before: added("tokenizer.ggml.add_bos_token", add_bos, bos)?,
                after: added("tokenizer.ggml.add_eos_token", false, eos)?,
                sha256: keys.tokenizer_sha256(),
            },
            template.map(|source| Template::new(source, names)),
        ))
    }
}

impl Tokens {
    /// Names to ids. Unused tokens are left out: no text has them, and they stand for nothing.
    fn vocabulary(&self) -> Vocab {
        self.each()
            .filter(|(_, kind, _)| *kind != Self::UNUSED)
            .map(|(name, _, id)| (name.to_owned(), id))
            .collect()
    }

    /// Tokens that are found in a text before it is split: control tokens, which decoding leaves
    /// out, and the user's own, which are text.
    fn added(&self) -> Vec<AddedToken> {
        self.each()
            .filter(|(_, kind, _)| {
                matches!(*kind, Self::UNKNOWN | Self::CONTROL | Self::USER_DEFINED)
            })
            .map(|(name, kind, _)| {
                AddedToken::from(name, kind != Self::USER_DEFINED).normalized(false)
            })
            .collect()
    }

    /// Name, type, id.
    fn each(&self) -> impl Iterator<Item = (&str, i64, u32)> {
        self.names
            .iter()
            .zip(&self.types)
            .zip(0u32..)
            .map(|((name, kind), id)| (name.as_str(), *kind, id))
    }
}
