//! Keys and values of one sequence in tensors that grow (chapter 3): the plain way, in candle's own
//! operations. Each token copies all that was there before it, twice: once to append, once to give
//! each query head its own copy of the keys it shares.

use candle_core::{Result, Tensor, bail};
use candle_transformers::utils::repeat_kv;

use super::{
    super::{Decoder, Heads, KvCache, Span},
    causal::{self, Split},
};

/// One sequence, slot 0.
pub struct Growing {
    heads: Heads,
    /// Of each layer: keys and values, `[kv_heads, positions, head_dim]`.
    layers: Vec<Option<(Tensor, Tensor)>>,
}

impl Growing {
    /// An empty cache.
    pub fn new(decoder: &Decoder) -> Self {
        Self {
            heads: decoder.heads,
            layers: vec![None; decoder.layers.len()],
        }
    }
}

impl KvCache for Growing {
    fn attend(&mut self, layer: usize, qkv: &Tensor, spans: &[Span<'_>]) -> Result<Tensor> {
        let [
            Span {
                slot: 0,
                ids,
                start,
                ..
            },
        ] = spans
        else {
            bail!("this cache holds one sequence, in slot 0")
        };
        let (heads, start, len) = (self.heads, *start, ids.len());
        let Some(held) = self.layers.get_mut(layer) else {
            bail!("no layer {layer}")
        };
        let Split { q, k, v } = causal::split(qkv, 0, len, heads)?;
        // Append; what is behind `start` is forgotten.
        let (k, v) = match held.take() {
            _ if start == 0 => (k, v),
            Some((old_k, old_v)) => (
                Tensor::cat(&[&old_k.narrow(1, 0, start)?, &k], 1)?,
                Tensor::cat(&[&old_v.narrow(1, 0, start)?, &v], 1)?,
            ),
            None => bail!("position {start} of a sequence that has not begun"),
        };
        *held = Some((k.clone(), v.clone()));
        // Attend.
        let group = heads.query / heads.kv;
        let k = repeat_kv(k.unsqueeze(0)?, group)?.squeeze(0)?; // [heads, positions, head_dim]
        let v = repeat_kv(v.unsqueeze(0)?, group)?.squeeze(0)?;
        let scores = q.matmul(&k.t()?)?; // [heads, len, positions]
        let mask = causal::mask(start, len, qkv.device())?;
        let weights = causal::weights(&scores, mask.as_ref(), heads)?;
        let out = weights.matmul(&v)?; // [heads, len, head_dim]
        out.transpose(0, 1)?
            .contiguous()?
            .reshape((len, heads.query * heads.dim))
    }
}
