//! RMS norms: of the residual stream, and of single heads (Qwen3).

use std::sync::Arc;

use candle_core::{Result, Tensor};
use kernels::Cpu;

use super::ops;

/// One weight a channel.
#[derive(Debug, Clone)]
pub(super) enum Norm {
    /// For our kernels.
    Kernels {
        cpu: Arc<Cpu>,
        weight: Vec<f32>,
        eps: f32,
    },
    /// candle's.
    Candle { weight: Tensor, eps: f32 },
}

impl Norm {
    /// Each row of the last dimension, in `room` if there is one; the shape stays.
    pub(super) fn forward(&self, x: &Tensor, room: Option<&Tensor>) -> Result<Tensor> {
        match self {
            Self::Kernels { cpu, weight, eps } => ops::rms_norm(cpu, x, weight, *eps, room),
            Self::Candle { weight, eps } => candle_nn::ops::rms_norm(x, weight, *eps),
        }
    }
}

/// Norms of query and key heads before they are turned.
#[derive(Debug, Clone)]
pub(super) enum HeadNorms {
    /// For our kernels: weights of `[head_dim]`. They run as a part of the rotation.
    Kernels { q: Vec<f32>, k: Vec<f32>, eps: f32 },
    /// candle's.
    Candle { q: Norm, k: Norm },
}
