//! SentencePiece BPE inside GGUF (`tokenizer.ggml.model` "llama").
//!
//! The file has pieces with scores and no merges: of two neighbours, those go together first whose
//! union has the best score. The same order comes from a list of merges, each split of a piece
//! into two pieces, ranked by the piece's score. Blanks are `▁`; what no piece covers is spelt in
//! bytes, `<0xNN>`.

use std::collections::HashMap;

use tokenizers::{
    Tokenizer,
    decoders::{
        DecoderWrapper, byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence as Decoders,
        strip::Strip,
    },
    models::bpe::{BPE, Merges},
    normalizers::{NormalizerWrapper, Prepend, Replace, Sequence as Normalizers},
};

use super::{Built, Tokens, keys::Keys};
use crate::error::EngineError;

const BLANK: &str = "▁";

pub(super) fn build(keys: &Keys<'_>, tokens: &Tokens) -> Result<Built, EngineError> {
    let scores = keys.floats("tokenizer.ggml.scores")?;
    if scores.len() != tokens.names.len() {
        let what = format!("{} tokens, but {} scores", tokens.names.len(), scores.len());
        return Err(keys.damaged(&what));
    }
    let unknown = match keys.token_id("tokenizer.ggml.unknown_token_id", tokens)? {
        Some(id) => tokens.names.get(id as usize).map(String::as_str),
        None => tokens
            .each()
            .find(|(_, kind, _)| *kind == Tokens::UNKNOWN)
            .map(|(name, ..)| name),
    };
    let damaged = |error: tokenizers::Error| keys.damaged(&error.to_string());
    let mut model = BPE::builder()
        .vocab_and_merges(tokens.vocabulary(), merges(tokens, &scores))
        .byte_fallback(true)
        .fuse_unk(true);
    if let Some(unknown) = unknown {
        model = model.unk_token(unknown.to_owned());
    }
    let mut tokenizer = Tokenizer::new(model.build().map_err(damaged)?);

    // The blank before a text is put before each part between special tokens, as llama.cpp does.
    let prefix = keys
        .boolean("tokenizer.ggml.add_space_prefix")?
        .unwrap_or(true);
    let to_blank = Replace::new(" ", BLANK).map_err(damaged)?;
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    let mut decoders: Vec<DecoderWrapper> = vec![
        Replace::new(BLANK, " ").map_err(damaged)?.into(),
        ByteFallback::new().into(),
        Fuse::new().into(),
    ];
    if prefix {
        normalizers.push(Prepend::new(BLANK.to_owned()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    normalizers.push(to_blank.into());
    tokenizer
        .with_normalizer(Some(Normalizers::new(normalizers)))
        .map_err(damaged)?;
    tokenizer.with_decoder(Some(Decoders::new(decoders)));
    Ok(Built {
        tokenizer,
        add_bos: true,
        default_bos: Some(1),
        default_eos: Some(2),
    })
}

/// All splits of normal pieces into two normal pieces, best score first, then lowest id.
fn merges(tokens: &Tokens, scores: &[f32]) -> Merges {
    let normal: HashMap<&str, (f32, u32)> = tokens
        .each()
        .zip(scores)
        .filter(|((_, kind, _), _)| *kind == Tokens::NORMAL)
        .map(|((name, _, id), score)| (name, (*score, id)))
        .collect();
    let mut ranked = Vec::new();
    for (piece, &(score, id)) in &normal {
        for (middle, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(middle);
            if normal.contains_key(left) && normal.contains_key(right) {
                ranked.push((score, id, left, right));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(b.2)));
    ranked
        .into_iter()
        .map(|(_, _, left, right)| (left.to_owned(), right.to_owned()))
        .collect()
}
