//! Our own forward pass: Llama, Mistral, Qwen2 and Qwen3 in candle's tensors, one idea a file.
//!
//! A step runs the tokens of one or many sequences, laid one after another without padding. What
//! depends on the sequence, attention over its keys and values, goes through one seam, [`KvCache`];
//! all else is the same for every token. On a CPU the products are our own kernels behind candle's
//! custom ops; on other devices everything is candle's own.

pub mod cache;

use candle_core::Tensor;
use contracts::run::ModelFacts;

use crate::{error::EngineError, model::ModelRequest, text::Text};

/// Names a sequence within a cache.
pub type Slot = usize;

/// One sequence's part of a step.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Whose keys and values.
    pub slot: Slot,
    /// Its tokens in this step.
    pub ids: &'a [u32],
    /// Position of the first of them: as many positions of the sequence are in the cache. Earlier
    /// than those there are is a rollback: what follows is written anew.
    pub start: usize,
    /// Which logits are wanted.
    pub wanted: Wanted,
}

/// Which positions of a span get logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The last only: what a next token needs.
    Last,
    /// Every one: what checking drafted tokens needs.
    All,
}

/// The keys and values of all sequences, and attention over them.
pub trait KvCache: Send {
    /// Keeps the keys and values of the step's tokens for `layer`, and attends.
    ///
    /// `qkv`: `[tokens, (heads + 2 * kv_heads) * head_dim]`, rotated. Returns `[tokens, heads * head_dim]`.
    ///
    /// # Errors
    /// A device fails; a span lies beyond its slot.
    fn attend(
        &mut self,
        layer: usize,
        qkv: &Tensor,
        spans: &[Span<'_>],
    ) -> candle_core::Result<Tensor>;
}

/// A model ready to run.
pub struct LoadedDecoder {
    /// Its tokenizer and chat template.
    pub text: Text,
    /// What it is.
    pub facts: ModelFacts,
    /// Its forward pass.
    pub decoder: Decoder,
}

/// The weights of a model, and the pass over them.
pub struct Decoder {
    vocab: usize,
    context: usize,
}

/// Loads a model for our own forward pass.
///
/// # Errors
/// As [`crate::model::load`]; a `.gguf` file without a dtype is refused.
pub fn load(request: &ModelRequest) -> Result<LoadedDecoder, EngineError> {
    Err(EngineError::Internal(format!("{}: not yet", request.name)))
}

impl Decoder {
    /// Ids are below this.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Longest sequence, in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Runs the spans' tokens. Returns one row of logits (`[vocab]`, f32) for each wanted position,
    /// in the order of the spans: `[rows][vocab]` flat.
    ///
    /// # Errors
    /// A span is empty, beyond the context, or of ids beyond the vocabulary; a device fails.
    pub fn forward(
        &mut self,
        cache: &mut dyn KvCache,
        spans: &[Span<'_>],
    ) -> Result<Vec<f32>, EngineError> {
        let _ = (cache, spans);
        Err(EngineError::Internal("not yet".to_owned()))
    }
}
