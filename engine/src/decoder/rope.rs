//! Rotary positions: which angles the tokens of a step have, and turning their queries and keys.
//!
//! The numbers are [`RopeTable`]'s. A step looks them up once, all layers use them.

use candle_core::{DType, Result, Tensor, bail};
use kernels::{
    Cpu,
    rows::{self, Turn},
};

use super::{
    Heads, Span,
    backend::Backend,
    norm::{HeadNorms, Norm},
    ops,
};
use crate::model::rope_table::RopeTable;

/// The angles of a step's tokens, one row each.
pub(super) enum Turns<'a> {
    /// For our kernels.
    Kernels { cpu: &'a Cpu, rows: Vec<Turn<'a>> },
    /// candle's: `[tokens, head_dim / 2]` in the activations' type.
    Candle { cos: Tensor, sin: Tensor },
}

impl<'a> Turns<'a> {
    /// Looks up the positions of the spans' tokens; the table reaches them.
    pub(super) fn of(
        table: &'a RopeTable,
        spans: &[Span<'_>],
        backend: &'a Backend,
        dtype: DType,
    ) -> Result<Self> {
        let positions = spans
            .iter()
            .flat_map(|span| span.start..span.start + span.ids.len());
        let half = table.half();
        let mut rows = Vec::new();
        for position in positions {
            let row = position * half..(position + 1) * half;
            match (table.cos().get(row.clone()), table.sin().get(row)) {
                (Some(cos), Some(sin)) => rows.push(Turn { cos, sin }),
                _ => bail!("rotary position {position} is not in the table"),
            }
        }
        match backend {
            Backend::Kernels(cpu) => Ok(Self::Kernels { cpu, rows }),
            Backend::Candle(device) => {
                let shape = (rows.len(), half);
                let cos: Vec<f32> = rows.iter().flat_map(|turn| turn.cos).copied().collect();
                let sin: Vec<f32> = rows.iter().flat_map(|turn| turn.sin).copied().collect();
                Ok(Self::Candle {
                    cos: Tensor::from_vec(cos, shape, device)?.to_dtype(dtype)?,
                    sin: Tensor::from_vec(sin, shape, device)?.to_dtype(dtype)?,
                })
            }
        }
    }

    /// Norms (where there are any) and turns query and key heads: `[tokens, heads.width()]`, which
    /// may be changed in place.
    pub(super) fn rotate(
        &self,
        qkv: Tensor,
        heads: Heads,
        norms: Option<&HeadNorms>,
    ) -> Result<Tensor> {
        match self {
            Self::Kernels { cpu, rows } => {
                let norms = match norms {
                    Some(HeadNorms::Kernels { q, k, eps }) => {
                        Some(rows::HeadNorms { q, k, eps: *eps })
                    }
                    _ => None,
                };
                ops::rotate(cpu, &qkv, heads, norms, rows)?;
                Ok(qkv)
            }
            Self::Candle { cos, sin } => {
                let (q_norm, k_norm) = match norms {
                    Some(HeadNorms::Candle { q, k }) => (Some(q), Some(k)),
                    _ => (None, None),
                };
                let tokens = qkv.dim(0)?;
                let turned = |first: usize, count: usize, norm: Option<&Norm>| {
                    let part = qkv.narrow(1, first * heads.dim, count * heads.dim)?;
                    let mut part = part.contiguous()?.reshape((1, tokens, count, heads.dim))?;
                    if let Some(norm) = norm {
                        part = norm.forward(&part, None)?;
                    }
                    candle_nn::rotary_emb::rope_thd(&part, cos, sin)?
                        .reshape((tokens, count * heads.dim))
                };
                let q = turned(0, heads.query, q_norm)?;
                let k = turned(heads.query, heads.kv, k_norm)?;
                let (first, width) = ((heads.query + heads.kv) * heads.dim, heads.kv * heads.dim);
                let v = qkv.narrow(1, first, width)?.contiguous()?;
                Tensor::cat(&[q, k, v], 1)
            }
        }
    }
}
