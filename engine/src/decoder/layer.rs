//! One decoder layer: attention and the gated feed-forward block, each around the residual stream.

use candle_core::{Result, Tensor};

use super::{
    Heads, KvCache, Span,
    linear::Linear,
    norm::{HeadNorms, Norm},
    ops,
    rope::Turns,
};

/// The weights of a layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Norm,
    /// Rows of q, k and v, one after another: one pass over the input.
    pub(super) qkv: Linear,
    /// Qwen3 only.
    pub(super) head_norms: Option<HeadNorms>,
    pub(super) output: Linear,
    pub(super) feed_forward_norm: Norm,
    /// Rows of gate and up, one after another.
    pub(super) gate_up: Linear,
    pub(super) down: Linear,
}

impl Layer {
    /// The step's tokens through layer `index`: `[tokens, hidden]` to the same.
    pub(super) fn forward(
        &self,
        index: usize,
        x: Tensor,
        heads: Heads,
        turns: &Turns<'_>,
        cache: &mut dyn KvCache,
        spans: &[Span<'_>],
    ) -> Result<Tensor> {
        let qkv = self.qkv.forward(&self.attention_norm.forward(&x)?)?;
        let qkv = turns.rotate(qkv, heads, self.head_norms.as_ref())?;
        let attended = cache.attend(index, &qkv, spans)?;
        let x = self.output.forward_add(&attended, x)?;
        let gate_up = self.gate_up.forward(&self.feed_forward_norm.forward(&x)?)?;
        let gated = match &self.gate_up {
            Linear::Kernels { cpu, .. } => ops::silu_mul(cpu, &gate_up)?,
            Linear::Candle { .. } => candle_nn::ops::swiglu(&gate_up)?,
        };
        self.down.forward_add(&gated, x)
    }
}
