//! One decoder layer: attention and the gated feed-forward block, each around the residual stream.

use candle_core::{DType, Device, Result, Tensor};

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

/// What all layers share in one step.
pub(super) struct Step<'a> {
    pub(super) spans: &'a [Span<'a>],
    pub(super) turns: Turns<'a>,
    pub(super) heads: Heads,
    pub(super) room: Option<Room>,
}

/// Memory for what lives within one layer only, taken once a step: with a long prompt these are
/// megabytes, and clearing them anew in each layer is time. Nothing that is kept may lie here.
#[derive(Debug)]
pub(super) struct Room {
    normed: Tensor,
    gate_up: Tensor,
    gated: Tensor,
}

impl Layer {
    /// Room for a step of this many tokens; none where candle's operations make their own.
    pub(super) fn room(&self, tokens: usize) -> Result<Option<Room>> {
        let (Linear::Kernels { weights: wide, .. }, Linear::Kernels { weights: down, .. }) =
            (&self.gate_up, &self.down)
        else {
            return Ok(None);
        };
        let zeros = |width| Tensor::zeros((tokens, width), DType::F32, &Device::Cpu);
        Ok(Some(Room {
            normed: zeros(wide.columns())?,
            gate_up: zeros(wide.rows())?,
            gated: zeros(down.columns())?,
        }))
    }

    /// The step's tokens through layer `index`: `[tokens, hidden]` to the same.
    pub(super) fn forward(
        &self,
        index: usize,
        x: Tensor,
        step: &Step<'_>,
        cache: &mut dyn KvCache,
    ) -> Result<Tensor> {
        let room = step.room.as_ref();
        let normed = self
            .attention_norm
            .forward(&x, room.map(|room| &room.normed))?;
        let qkv = self.qkv.forward(&normed, None)?;
        let qkv = step
            .turns
            .rotate(qkv, step.heads, self.head_norms.as_ref())?;
        let attended = cache.attend(index, &qkv, step.spans)?;
        let x = self.output.forward_add(&attended, x)?;
        let normed = self
            .feed_forward_norm
            .forward(&x, room.map(|room| &room.normed))?;
        let gate_up = self
            .gate_up
            .forward(&normed, room.map(|room| &room.gate_up))?;
        let gated = match &self.gate_up {
            Linear::Kernels { cpu, .. } => {
                ops::silu_mul(cpu, &gate_up, room.map(|room| &room.gated))?
            }
            Linear::Candle { .. } => candle_nn::ops::swiglu(&gate_up)?,
        };
        self.down.forward_add(&gated, x)
    }
}
