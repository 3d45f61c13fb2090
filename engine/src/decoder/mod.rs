//! Our own forward pass: Llama, Mistral, Qwen2 and Qwen3 in candle's tensors, one idea a file.
//!
//! A step runs the tokens of one or many sequences, laid one after another without padding. What
//! depends on the sequence, attention over its keys and values, goes through one seam, [`KvCache`];
//! all else is the same for every token. On a CPU the products are our own kernels behind candle's
//! custom ops; on other devices everything is candle's own.

mod backend;
pub mod cache;
mod embedding;
mod layer;
mod linear;
mod load;
mod norm;
mod ops;
mod rope;

use candle_core::{DType, Tensor};
use contracts::run::ModelFacts;

pub use self::backend::Backend;
use self::{
    embedding::Embedding,
    layer::{Layer, Step},
    linear::Linear,
    norm::Norm,
    rope::Turns,
};
use crate::{
    error::EngineError,
    model::{
        ModelRequest,
        open::{self, Opened, Runner},
        rope_table::RopeTable,
    },
    text::Text,
};

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

/// Sizes of attention.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// Query heads.
    query: usize,
    /// Key and value heads: each serves `query / kv` query heads.
    kv: usize,
    /// Size of one head.
    dim: usize,
}

impl Heads {
    /// A token's queries, keys and values.
    fn width(self) -> usize {
        (self.query + 2 * self.kv) * self.dim
    }
}

/// The weights of a model, and the pass over them.
pub struct Decoder {
    backend: Backend,
    /// Of activations.
    dtype: DType,
    vocab: usize,
    context: usize,
    heads: Heads,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
    rope: RopeTable,
}

/// Loads a model for our own forward pass.
///
/// # Errors
/// As [`open::open`]; the system has no memory for the weights, or no threads.
pub fn load(request: &ModelRequest) -> Result<LoadedDecoder, EngineError> {
    let opened = open::open(request, Runner::Decoder)?;
    let backend = Backend::of(&opened.device, opened.facts.threads)?;
    loaded(opened, backend)
}

/// As [`load`], with a backend of the caller's choice: how tests run the operations of other devices
/// on a CPU, and other numbers of threads.
///
/// # Errors
/// As [`load`].
pub fn load_on(request: &ModelRequest, backend: Backend) -> Result<LoadedDecoder, EngineError> {
    loaded(open::open(request, Runner::Decoder)?, backend)
}

fn loaded(opened: Opened, backend: Backend) -> Result<LoadedDecoder, EngineError> {
    let weights = opened.weights;
    Ok(LoadedDecoder {
        decoder: load::decoder(&opened.config, weights.as_ref(), opened.dtype, backend)?,
        text: opened.text,
        facts: opened.facts,
    })
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
    /// A span is empty, beyond the context, or of ids beyond the vocabulary; two are of one slot; a
    /// device fails.
    pub fn forward(
        &mut self,
        cache: &mut dyn KvCache,
        spans: &[Span<'_>],
    ) -> Result<Vec<f32>, EngineError> {
        let positions = self.check(spans)?;
        self.rope.reach(positions);
        let mut x = self.embedding.forward(spans)?; // [tokens, hidden]
        let first = self.layers.first();
        let room = first.map(|layer| layer.room(x.dim(0)?)).transpose()?;
        let step = Step {
            spans,
            turns: Turns::of(&self.rope, spans, &self.backend, self.dtype)?,
            heads: self.heads,
            room: room.flatten(),
        };
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.forward(index, x, &step, cache)?;
        }
        let x = wanted_rows(&x, spans)?; // [rows, hidden]
        let logits = self.head.forward(&self.norm.forward(&x, None)?, None)?; // [rows, vocab]
        Ok(logits.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?)
    }

    /// Refuses what would go wrong further down; gives the number of positions in use.
    fn check(&self, spans: &[Span<'_>]) -> Result<usize, EngineError> {
        let refused = |what: String| Err(EngineError::Internal(format!("a forward {what}")));
        if spans.is_empty() || spans.iter().any(|span| span.ids.is_empty()) {
            return refused("of no tokens".to_owned());
        }
        let ends = spans.iter().map(|span| span.start + span.ids.len());
        let end = ends.max().unwrap_or_default();
        if end > self.context {
            let context = self.context;
            return refused(format!(
                "to position {end}, beyond the context of {context}"
            ));
        }
        let mut ids = spans.iter().flat_map(|span| span.ids);
        if let Some(id) = ids.find(|id| **id as usize >= self.vocab) {
            return refused(format!("of token id {id}, beyond the vocabulary"));
        }
        let mut slots: Vec<Slot> = spans.iter().map(|span| span.slot).collect();
        slots.sort_unstable();
        if slots.windows(2).any(|pair| pair.first() == pair.last()) {
            return refused("with two spans of one sequence".to_owned());
        }
        Ok(end)
    }
}

/// The rows that get logits: the head is a large part of the work, and of a prompt only the last
/// token's is wanted.
fn wanted_rows(x: &Tensor, spans: &[Span<'_>]) -> candle_core::Result<Tensor> {
    let tokens = x.dim(0)?;
    let mut rows: Vec<u32> = Vec::with_capacity(spans.len());
    let mut first = 0;
    for span in spans {
        let end = first + span.ids.len();
        match span.wanted {
            Wanted::Last => rows.push(end as u32 - 1),
            Wanted::All => rows.extend(first as u32..end as u32),
        }
        first = end;
    }
    match rows.as_slice() {
        all if all.len() == tokens => Ok(x.clone()),
        [one] => x.narrow(0, *one as usize, 1),
        some => x.index_select(&Tensor::new(some, x.device())?, 0),
    }
}
