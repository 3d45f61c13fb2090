//! Memory of keys and values: blocks of 32 positions, in place, taken once.
//!
//! `[block][layer]{ K: [kv_head][head_dim][32], V: [kv_head][32][head_dim up to a multiple of 32] }`.
//! Keys lie with positions side by side and values with channels side by side, so that both products
//! of attention are [tiles](crate::tile). All layers of a block lie together: a short sequence
//! touches few pages. Which blocks a sequence has is left to the caller.

use crate::{
    arena::{Arena, Slab},
    tile::LANES,
};

/// Positions of a block.
pub const BLOCK: usize = LANES;

/// Sizes of a model's keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    /// Decoder layers.
    pub layers: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Size of one head.
    pub head_dim: usize,
}

/// A number of blocks.
#[derive(Debug)]
pub struct KvBlocks {
    pub(crate) shape: KvShape,
    pub(crate) data: Slab<f32>,
}

impl KvShape {
    /// Floats of one layer's keys within a block.
    pub(crate) fn keys(&self) -> usize {
        self.kv_heads * self.head_dim * BLOCK
    }

    /// A value's row, filled up to whole vectors.
    pub(crate) fn value_row(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Floats of one layer's values within a block.
    pub(crate) fn values(&self) -> usize {
        self.kv_heads * self.value_row() * BLOCK
    }

    /// Bytes of one block, all layers.
    pub fn block_bytes(&self) -> usize {
        self.layers * (self.keys() + self.values()) * size_of::<f32>()
    }
}

impl KvBlocks {
    /// Memory for `blocks` blocks; pages are taken as they are first written.
    ///
    /// # Errors
    /// The system has no such memory.
    pub fn new(shape: KvShape, blocks: usize) -> std::io::Result<Self> {
        let bytes = shape.block_bytes() * blocks;
        let data = Arena::new(bytes)?.take(bytes / size_of::<f32>());
        let data = data.ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self { shape, data })
    }

    /// Where one layer's part of a block begins.
    pub(crate) fn offset(&self, block: u32, layer: usize) -> usize {
        (block as usize * self.shape.layers + layer) * (self.shape.keys() + self.shape.values())
    }
}
