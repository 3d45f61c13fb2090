//! Keys and values written in place into memory that is taken once (chapters 4, 5 and 9).
//!
//! A slot is a run of blocks of [`BLOCK`] positions, reserved for one sequence. On a CPU the memory
//! is the kernels', which take a list of blocks for each sequence; on other devices it is a tensor a
//! layer, of which a run is a view.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use candle_core::{Result, Tensor, bail};
use kernels::{
    Cpu, attention,
    kv::{BLOCK, KvBlocks, KvShape},
};

use super::{
    super::{Backend, Decoder, Heads, KvCache, Slot, Span, ops},
    causal::{self, Split},
    runs::Runs,
};
use crate::error::EngineError;

/// Memory for a number of positions, of which sequences reserve runs.
pub struct InPlace {
    heads: Heads,
    memory: Memory,
    blocks: u32,
    free: Runs,
    slots: BTreeMap<Slot, Reserved>,
    /// Names are not used again, so that a stale one is unknown.
    next_slot: Slot,
}

/// What belongs to one sequence.
struct Reserved {
    run: Range<u32>,
    /// The blocks of the run, as the kernels take them.
    blocks: Vec<u32>,
    /// Positions that are written.
    len: usize,
}

enum Memory {
    Kernels {
        cpu: Arc<Cpu>,
        kv: KvBlocks,
    },
    /// Keys and values of each layer: `[kv_heads, positions, head_dim]`.
    Candle(Vec<(Tensor, Tensor)>),
}

impl InPlace {
    /// Takes memory for `positions` positions of this model's keys and values, rounded up to whole
    /// blocks.
    ///
    /// # Errors
    /// The device has no such memory.
    pub fn new(decoder: &Decoder, positions: usize) -> std::result::Result<Self, EngineError> {
        let heads = decoder.heads;
        let none = |why: String| {
            EngineError::Internal(format!(
                "memory for keys and values of {positions} positions: {why}"
            ))
        };
        let blocks =
            u32::try_from(positions.div_ceil(BLOCK)).map_err(|_| none("too many".to_owned()))?;
        let memory = match &decoder.backend {
            Backend::Kernels(cpu) => {
                let kv = KvBlocks::new(kv_shape(decoder), blocks as usize)
                    .map_err(|error| none(error.to_string()))?;
                Memory::Kernels {
                    cpu: Arc::clone(cpu),
                    kv,
                }
            }
            Backend::Candle(device) => {
                let shape = (heads.kv, blocks as usize * BLOCK, heads.dim);
                let zeros = || Tensor::zeros(shape, decoder.dtype, device);
                let layers = decoder.layers.iter().map(|_| Ok((zeros()?, zeros()?)));
                let layers: Result<_> = layers.collect();
                Memory::Candle(layers.map_err(|error| none(error.to_string()))?)
            }
        };
        Ok(Self {
            heads,
            memory,
            blocks,
            free: Runs::new(blocks),
            slots: BTreeMap::new(),
            next_slot: 0,
        })
    }

    /// Bytes of one position, all layers.
    pub fn position_bytes(decoder: &Decoder) -> usize {
        match &decoder.backend {
            Backend::Kernels(_) => kv_shape(decoder).block_bytes() / BLOCK,
            Backend::Candle(_) => {
                let Heads { kv, dim, .. } = decoder.heads;
                2 * decoder.layers.len() * kv * dim * decoder.dtype.size_in_bytes()
            }
        }
    }

    /// Reserves a run of at least `positions`, in whole blocks; none if no run that long is free now.
    pub fn reserve(&mut self, positions: usize) -> Option<Slot> {
        let run = self
            .free
            .take(u32::try_from(positions.div_ceil(BLOCK)).ok()?)?;
        let slot = self.next_slot;
        self.next_slot += 1;
        let blocks = run.clone().collect();
        self.slots.insert(
            slot,
            Reserved {
                run,
                blocks,
                len: 0,
            },
        );
        Some(slot)
    }

    /// Gives a slot back. An unknown one is ignored.
    pub fn release(&mut self, slot: Slot) {
        if let Some(reserved) = self.slots.remove(&slot) {
            self.free.give(reserved.run);
        }
    }

    /// Positions in all: no longer sequence can ever be reserved.
    pub fn positions(&self) -> usize {
        self.blocks as usize * BLOCK
    }

    /// Checks that each span continues its sequence within its run, and notes how long that is then.
    fn advance(&mut self, spans: &[Span<'_>]) -> Result<()> {
        for Span {
            slot, ids, start, ..
        } in spans
        {
            let Some(reserved) = self.slots.get_mut(slot) else {
                bail!("slot {slot} is not reserved")
            };
            let (end, room) = (start + ids.len(), reserved.blocks.len() * BLOCK);
            if *start > reserved.len || end > room {
                let len = reserved.len;
                bail!(
                    "positions {start}..{end} of slot {slot}, which has {len} and room for {room}"
                );
            }
            reserved.len = end;
        }
        Ok(())
    }
}

/// Sizes of the kernels' memory.
fn kv_shape(decoder: &Decoder) -> KvShape {
    KvShape {
        layers: decoder.layers.len(),
        kv_heads: decoder.heads.kv,
        head_dim: decoder.heads.dim,
    }
}

impl KvCache for InPlace {
    fn attend(&mut self, layer: usize, qkv: &Tensor, spans: &[Span<'_>]) -> Result<Tensor> {
        self.advance(spans)?;
        let reserved = |span: &Span<'_>| self.slots.get(&span.slot);
        match &mut self.memory {
            Memory::Kernels { cpu, kv } => {
                let of_kernels = |span: &Span<'_>| {
                    Some(attention::Span {
                        blocks: &reserved(span)?.blocks,
                        start: span.start,
                        len: span.ids.len(),
                    })
                };
                let spans: Vec<_> = spans.iter().filter_map(of_kernels).collect();
                ops::attend(cpu, kv, layer, &spans, qkv, self.heads)
            }
            Memory::Candle(layers) => {
                let Some((keys, values)) = layers.get(layer) else {
                    bail!("no layer {layer}")
                };
                let mut rows = Vec::with_capacity(spans.len());
                let mut row = 0;
                for span in spans {
                    let first =
                        reserved(span).map_or(0, |reserved| reserved.run.start as usize * BLOCK);
                    let split = causal::split(qkv, row, span.ids.len(), self.heads)?;
                    rows.push(attend_span(keys, values, first, span, split, self.heads)?);
                    row += span.ids.len();
                }
                Tensor::cat(&rows, 0)
            }
        }
    }
}

/// Writes a span's keys and values into the run that begins at position `first` of the memory, and
/// attends to what the run holds. The query heads that share a key head are rows of one product, so
/// that no key is copied. Returns `[len, query heads * head_dim]`.
fn attend_span(
    keys: &Tensor,
    values: &Tensor,
    first: usize,
    span: &Span<'_>,
    Split { q, k, v }: Split,
    heads: Heads,
) -> Result<Tensor> {
    let (start, len) = (span.start, span.ids.len());
    keys.slice_set(&k, 1, first + start)?;
    values.slice_set(&v, 1, first + start)?;
    let k = keys.narrow(1, first, start + len)?; // [kv_heads, positions, head_dim]
    let v = values.narrow(1, first, start + len)?;
    let group = heads.query / heads.kv;
    let q = q.reshape((heads.kv, group * len, heads.dim))?;
    let scores = q.matmul(&k.t()?)?; // [kv_heads, group * len, positions]
    let scores = scores.reshape((heads.kv, group, len, start + len))?;
    let mask = causal::mask(start, len, q.device())?;
    let weights = causal::weights(&scores, mask.as_ref(), heads)?;
    let weights = weights.reshape((heads.kv, group * len, start + len))?;
    let out = weights.matmul(&v)?; // [kv_heads, group * len, head_dim]
    out.reshape((heads.query, len, heads.dim))?
        .transpose(0, 1)?
        .contiguous()?
        .reshape((len, heads.query * heads.dim))
}
