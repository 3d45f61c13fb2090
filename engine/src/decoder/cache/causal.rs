//! What both caches share where attention is candle's own operations: splitting a step's rows into
//! heads, the mask, the weights of positions.

use candle_core::{DType, Device, Result, Tensor};

use super::super::Heads;

/// Rows of q, k and v of some tokens, a head apart: `[heads, tokens, head_dim]` each.
pub(super) struct Split {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
}

/// `qkv`: `[tokens, heads.width()]`; takes `len` rows from `first` on.
pub(super) fn split(qkv: &Tensor, first: usize, len: usize, heads: Heads) -> Result<Split> {
    let rows = qkv.narrow(0, first, len)?;
    let part = |first: usize, count: usize| {
        rows.narrow(1, first * heads.dim, count * heads.dim)?
            .contiguous()?
            .reshape((len, count, heads.dim))?
            .transpose(0, 1)?
            .contiguous()
    };
    Ok(Split {
        q: part(0, heads.query)?,
        k: part(heads.query, heads.kv)?,
        v: part(heads.query + heads.kv, heads.kv)?,
    })
}

/// What hides later positions: `[len, start + len]`, 0 or −∞; none for a single token, which sees all.
pub(super) fn mask(start: usize, len: usize, device: &Device) -> Result<Option<Tensor>> {
    if len == 1 {
        return Ok(None);
    }
    let total = start + len;
    let hidden = |row: usize, column: usize| match column <= start + row {
        true => 0.0,
        false => f32::NEG_INFINITY,
    };
    let values: Vec<f32> = (0..len)
        .flat_map(|row| (0..total).map(move |column| hidden(row, column)))
        .collect();
    Tensor::from_vec(values, (len, total), device).map(Some)
}

/// How much each position counts: the softmax of the scores, in f32 whatever their type.
///
/// `scores`: `[.., len, positions]`, q · k, not yet divided by √head_dim.
pub(super) fn weights(scores: &Tensor, mask: Option<&Tensor>, heads: Heads) -> Result<Tensor> {
    let mut scaled = (scores.to_dtype(DType::F32)? / (heads.dim as f64).sqrt())?;
    if let Some(mask) = mask {
        scaled = scaled.broadcast_add(mask)?;
    }
    candle_nn::ops::softmax_last_dim(&scaled)?.to_dtype(scores.dtype())
}
