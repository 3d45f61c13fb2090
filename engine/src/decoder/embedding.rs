//! The embedding: token ids to the first rows of the residual stream.

use candle_core::{Device, Result, Tensor};

use super::{Span, linear::Linear};

/// One row for each id. Where the head is tied it is the same memory, packed as the head needs it:
/// reading a row out of that is cheap next to a second copy.
#[derive(Debug, Clone)]
pub(super) struct Embedding(pub(super) Linear);

impl Embedding {
    /// Rows of all tokens of the spans, one after another: `[tokens, hidden]`. Ids are below the vocabulary.
    pub(super) fn forward(&self, spans: &[Span<'_>]) -> Result<Tensor> {
        let ids: Vec<u32> = spans.iter().flat_map(|span| span.ids).copied().collect();
        match &self.0 {
            Linear::Kernels { weights, .. } => {
                let hidden = weights.columns();
                let mut rows = vec![0.0; ids.len() * hidden];
                for (id, row) in ids.iter().zip(rows.chunks_exact_mut(hidden)) {
                    weights.row(*id as usize, row);
                }
                Tensor::from_vec(rows, (ids.len(), hidden), &Device::Cpu)
            }
            Linear::Candle { weights, .. } => {
                weights.index_select(&Tensor::new(ids, weights.device())?, 0)
            }
        }
    }
}
