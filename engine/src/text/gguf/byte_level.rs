//! Byte-level BPE inside GGUF (`tokenizer.ggml.model` "gpt2").
//!
//! `tokenizer.ggml.pre` names how text is split before merging. It decides above all how digits
//! are split, and a wrong choice gives other ids without any error: unknown names are refused.

use tokenizers::{
    Tokenizer,
    models::bpe::BPE,
    normalizers::unicode::NFC,
    pre_tokenizers::{
        PreTokenizerWrapper,
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
    tokenizer::SplitDelimiterBehavior,
};

use super::{Built, Tokens, keys::Keys};
use crate::error::EngineError;

/// Llama 3's split: up to three digits together.
const LLAMA3_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen2's split: the same, but each digit alone.
const QWEN2_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

pub(super) fn build(keys: &Keys<'_>, tokens: &Tokens) -> Result<Built, EngineError> {
    let pre = keys.required_string("tokenizer.ggml.pre")?;
    let llama3 = pre == "llama-bpe";
    let split = match pre {
        // Each digit alone, then GPT-2's own split.
        "smollm" => sequence(Digits::new(true), ByteLevel::new(false, true, true)),
        "llama-bpe" => sequence(regex(LLAMA3_SPLIT)?, ByteLevel::new(false, true, false)),
        "qwen2" => sequence(regex(QWEN2_SPLIT)?, ByteLevel::new(false, true, false)),
        other => {
            return Err(keys.unsupported(
                "tokenizer.ggml.pre",
                other,
                "smollm, llama-bpe and qwen2",
            ));
        }
    };
    let vocabulary = tokens.vocabulary();
    let merges = keys
        .strings("tokenizer.ggml.merges")?
        .into_iter()
        .map(|merge| {
            // Checked here because the library panics on some merges that fit no token.
            let parts = merge.split_once(' ').filter(|(left, right)| {
                [*left, *right, &format!("{left}{right}")]
                    .iter()
                    .all(|part| vocabulary.contains_key(*part))
            });
            parts
                .map(|(left, right)| (left.to_owned(), right.to_owned()))
                .ok_or_else(|| keys.damaged(&format!("merge {merge:?} fits no tokens")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let model = BPE::builder()
        .vocab_and_merges(vocabulary, merges)
        // Llama 3: a word that is a token is that token, whatever the merges say.
        .ignore_merges(llama3)
        .build()
        .map_err(|error| keys.damaged(&error.to_string()))?;

    let mut tokenizer = Tokenizer::new(model);
    tokenizer
        .with_pre_tokenizer(Some(split))
        .with_decoder(Some(ByteLevel::default()));
    if pre == "qwen2" {
        tokenizer
            .with_normalizer(Some(NFC))
            .map_err(|error| keys.damaged(&error.to_string()))?;
    }
    Ok(Built {
        tokenizer,
        add_bos: llama3,
        default_bos: None,
        default_eos: None,
    })
}

fn sequence(first: impl Into<PreTokenizerWrapper>, second: ByteLevel) -> PreTokenizerWrapper {
    Sequence::new(vec![first.into(), second.into()]).into()
}

fn regex(pattern: &str) -> Result<Split, EngineError> {
    Split::new(
        SplitPattern::Regex(pattern.to_owned()),
        SplitDelimiterBehavior::Isolated,
        false,
    )
    .map_err(|error| EngineError::Internal(format!("pre-tokenizer: {error}")))
}
