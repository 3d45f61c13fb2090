//! A linear layer: outputs over inputs, with a bias where the model has one.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use kernels::{Cpu, matrix::Matrix};

use super::ops;

/// Weights of `[out, in]`, and a bias.
#[derive(Debug, Clone)]
pub(super) enum Linear {
    /// Packed for our kernels, the bias within.
    Kernels { cpu: Arc<Cpu>, weights: Arc<Matrix> },
    /// candle's.
    Candle {
        weights: Tensor,
        bias: Option<Tensor>,
    },
}

impl Linear {
    /// `[tokens, in]` to `[tokens, out]`, in `room` if there is one.
    pub(super) fn forward(&self, x: &Tensor, room: Option<&Tensor>) -> Result<Tensor> {
        match self {
            Self::Kernels { cpu, weights } => ops::linear(cpu, x, weights, room),
            Self::Candle { weights, bias } => {
                let out = x.matmul(&weights.t()?)?;
                match bias {
                    Some(bias) => out.broadcast_add(bias),
                    None => Ok(out),
                }
            }
        }
    }

    /// As [`Linear::forward`], added to the residual stream, which may be changed in place.
    pub(super) fn forward_add(&self, x: &Tensor, sum: Tensor) -> Result<Tensor> {
        match self {
            Self::Kernels { cpu, weights } => ops::linear_add(cpu, x, weights, &sum),
            Self::Candle { .. } => sum + self.forward(x, None),
        }
    }
}
