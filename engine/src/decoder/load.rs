//! From the tensors of a model to the layers of a decoder, tensor by tensor.
//!
//! For our kernels all matrices go into one arena, whose size is known beforehand: whatever a tensor
//! took on its way there is given back before the next one. The embedding, by far the largest
//! tensor, comes first, while little else is in memory.

use std::sync::Arc;

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use candle_nn::{Init, var_builder::SimpleBackend};
use kernels::{
    Cpu,
    arena::Arena,
    element::{Dtype, Element},
    matrix::Matrix,
};

use super::{
    Decoder, Heads,
    backend::Backend,
    embedding::Embedding,
    layer::Layer,
    linear::Linear,
    norm::{HeadNorms, Norm},
};
use crate::{
    error::EngineError,
    model::{
        config::{Config, Family},
        rope_table::RopeTable,
        tensors::{self, EMBEDDING, FINAL_NORM, HEAD},
    },
};

/// What a missing tensor would start from: none is missing, and the sources look at none of it.
const NO_INIT: Init = Init::Const(0.0);

/// Makes the decoder; `weights` holds all of [`tensors::expected`].
pub(super) fn decoder(
    config: &Config,
    weights: &dyn SimpleBackend,
    dtype: DType,
    backend: Backend,
) -> Result<Decoder, EngineError> {
    let mut loader = Loader {
        config,
        weights,
        dtype,
        place: Place::of(&backend, config, dtype)?,
    };
    let (vocab, hidden) = (config.vocab, config.hidden);
    let embedding = loader.linear(&[part(EMBEDDING, vocab)], hidden, false)?;
    let head = match config.tied {
        true => embedding.clone(),
        false => loader.linear(&[part(HEAD, vocab)], hidden, false)?,
    };
    let layers = (0..config.layers).map(|index| loader.layer(index));
    let layers = layers.collect::<Result<_, _>>()?;
    let norm = loader.norm(FINAL_NORM, hidden)?;
    Ok(Decoder {
        vocab,
        context: config.context,
        heads: Heads {
            query: config.heads,
            kv: config.kv_heads,
            dim: config.head_dim,
        },
        dtype: match backend {
            Backend::Kernels(_) => DType::F32,
            Backend::Candle(_) => dtype,
        },
        embedding: Embedding(embedding),
        layers,
        norm,
        head,
        rope: RopeTable::new(config),
        backend,
    })
}

/// A tensor of a matrix that may be fused from several: its name and its rows.
struct Part {
    weight: String,
    rows: usize,
}

fn part(weight: &str, rows: usize) -> Part {
    Part {
        weight: weight.to_owned(),
        rows,
    }
}

/// Where weights go.
enum Place {
    Kernels {
        cpu: Arc<Cpu>,
        arena: Arena,
        dtype: Dtype,
    },
    Candle(Device),
}

impl Place {
    fn of(backend: &Backend, config: &Config, dtype: DType) -> Result<Self, EngineError> {
        let cpu = match backend {
            Backend::Kernels(cpu) => Arc::clone(cpu),
            Backend::Candle(device) => return Ok(Self::Candle(device.clone())),
        };
        let dtype = match dtype {
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::Bf16,
            _ => Dtype::F32,
        };
        let bytes = matrices(config)
            .map(|(rows, columns)| Matrix::bytes(dtype, rows, columns))
            .sum();
        let arena = Arena::new(bytes).map_err(|error| {
            EngineError::Internal(format!("{bytes} bytes for the weights: {error}"))
        })?;
        Ok(Self::Kernels { cpu, arena, dtype })
    }
}

/// Rows and columns of all matrices, fused.
fn matrices(config: &Config) -> impl Iterator<Item = (usize, usize)> {
    let Config {
        hidden,
        intermediate,
        ..
    } = *config;
    let (q, kv) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let ends = if config.tied { 1 } else { 2 };
    let layer = [
        (q + 2 * kv, hidden),
        (hidden, q),
        (2 * intermediate, hidden),
        (hidden, intermediate),
    ];
    let ends = std::iter::repeat_n((config.vocab, hidden), ends);
    ends.chain(std::iter::repeat_n(layer, config.layers).flatten())
}

struct Loader<'a> {
    config: &'a Config,
    weights: &'a dyn SimpleBackend,
    dtype: DType,
    place: Place,
}

impl Loader<'_> {
    fn layer(&mut self, index: usize) -> Result<Layer, EngineError> {
        let Config {
            hidden,
            intermediate,
            head_dim,
            ..
        } = *self.config;
        let (q, kv) = (
            self.config.heads * head_dim,
            self.config.kv_heads * head_dim,
        );
        let within = |name: &str| format!("model.layers.{index}.{name}.weight");
        let part = |name: &str, rows| part(&within(name), rows);
        let qkv = [
            part("self_attn.q_proj", q),
            part("self_attn.k_proj", kv),
            part("self_attn.v_proj", kv),
        ];
        let output = [part("self_attn.o_proj", hidden)];
        let gate_up = [
            part("mlp.gate_proj", intermediate),
            part("mlp.up_proj", intermediate),
        ];
        let down = [part("mlp.down_proj", hidden)];
        let biased = |projection| tensors::is_biased(self.config, projection);
        let (qkv_biased, output_biased) = (biased("q_proj"), biased("o_proj"));
        Ok(Layer {
            attention_norm: self.norm(&within("input_layernorm"), hidden)?,
            qkv: self.linear(&qkv, hidden, qkv_biased)?,
            head_norms: self
                .head_norms(&within("self_attn.q_norm"), &within("self_attn.k_norm"))?,
            output: self.linear(&output, q, output_biased)?,
            feed_forward_norm: self.norm(&within("post_attention_layernorm"), hidden)?,
            gate_up: self.linear(&gate_up, hidden, false)?,
            down: self.linear(&down, intermediate, false)?,
        })
    }

    /// The rows of all parts, one after another, as one layer.
    fn linear(
        &mut self,
        parts: &[Part],
        columns: usize,
        biased: bool,
    ) -> Result<Linear, EngineError> {
        let bias = |part: &Part| {
            let name = part.weight.replace(".weight", ".bias");
            self.vector(&name, part.rows)
        };
        let biases = match biased {
            true => Some(
                parts
                    .iter()
                    .map(bias)
                    .collect::<Result<Vec<_>, _>>()?
                    .concat(),
            ),
            false => None,
        };
        let rows = parts.iter().map(|part| part.rows).sum();
        match &mut self.place {
            Place::Kernels { cpu, arena, dtype } => {
                let mut matrix = Matrix::zeros(arena, *dtype, rows, columns).ok_or_else(|| {
                    EngineError::Internal("the arena is smaller than the weights".to_owned())
                })?;
                let mut first = 0;
                for Part { weight, rows } in parts {
                    let shape = (*rows, columns).into();
                    let tensor =
                        self.weights
                            .get(shape, weight, NO_INIT, self.dtype, &Device::Cpu)?;
                    fill(&mut matrix, first, &tensor)?;
                    first += rows;
                }
                if let Some(bias) = biases {
                    matrix.set_bias(bias);
                }
                Ok(Linear::Kernels {
                    cpu: Arc::clone(cpu),
                    weights: Arc::new(matrix),
                })
            }
            Place::Candle(device) => {
                let read = |part: &Part| {
                    let shape = (part.rows, columns).into();
                    self.weights
                        .get(shape, &part.weight, NO_INIT, self.dtype, device)
                };
                let tensors = parts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
                let bias =
                    biases.map(|bias| Tensor::from_vec(bias, rows, device)?.to_dtype(self.dtype));
                Ok(Linear::Candle {
                    weights: Tensor::cat(&tensors, 0)?,
                    bias: bias.transpose()?,
                })
            }
        }
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm, EngineError> {
        let weight = self.vector(name, width)?;
        let eps = self.config.norm_eps as f32;
        Ok(match &self.place {
            Place::Kernels { cpu, .. } => Norm::Kernels {
                cpu: Arc::clone(cpu),
                weight,
                eps,
            },
            Place::Candle(device) => Norm::Candle {
                weight: Tensor::from_vec(weight, width, device)?.to_dtype(self.dtype)?,
                eps,
            },
        })
    }

    fn head_norms(&self, q: &str, k: &str) -> Result<Option<HeadNorms>, EngineError> {
        if self.config.family != Family::Qwen3 {
            return Ok(None);
        }
        let width = self.config.head_dim;
        Ok(Some(match &self.place {
            Place::Kernels { .. } => HeadNorms::Kernels {
                q: self.vector(q, width)?,
                k: self.vector(k, width)?,
                eps: self.config.norm_eps as f32,
            },
            Place::Candle(_) => HeadNorms::Candle {
                q: self.norm(q, width)?,
                k: self.norm(k, width)?,
            },
        }))
    }

    /// A small tensor: norms and biases are f32 for our kernels whatever the weights are.
    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>, EngineError> {
        let tensor = self
            .weights
            .get(len.into(), name, NO_INIT, DType::F32, &Device::Cpu)?;
        Ok(tensor.to_vec1()?)
    }
}

/// Packs a tensor's rows, without another copy of it.
fn fill(matrix: &mut Matrix, first: usize, tensor: &Tensor) -> candle_core::Result<()> {
    let (storage, layout) = tensor.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(all)), Some((start, end))) => {
            pack(matrix, first, all.get(start..end))
        }
        (Storage::Cpu(CpuStorage::F16(all)), Some((start, end))) => {
            pack(matrix, first, all.get(start..end))
        }
        (Storage::Cpu(CpuStorage::BF16(all)), Some((start, end))) => {
            pack(matrix, first, all.get(start..end))
        }
        _ => candle_core::bail!("weights {tensor} are not contiguous floats"),
    }
    Ok(())
}

fn pack<E: Element>(matrix: &mut Matrix, first: usize, rows: Option<&[E]>) {
    matrix.fill(first, rows.unwrap_or_default());
}
