//! Memory of keys and values: blocks of 32 positions, in place, taken once.
//!
//! `[block][layer]{ K: [kv_head][head_dim][32], V: [kv_head][32][head_dim up to a multiple of 32] }`.
//! Keys lie with positions side by side and values with channels side by side, so that both products
//! of attention are tiles. All layers of a block lie together: a short sequence
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

/// One head of one layer of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub block: u32,
    pub layer: usize,
    pub head: usize,
}

impl KvShape {
    /// Floats of one layer's keys within a block.
    fn keys(&self) -> usize {
        self.kv_heads * self.head_dim * BLOCK
    }

    /// A value's row, filled up to whole vectors.
    pub(crate) fn value_row(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Floats of one layer's values within a block.
    fn values(&self) -> usize {
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
        let bytes = shape.block_bytes().checked_mul(blocks);
        let bytes = bytes.ok_or(std::io::ErrorKind::OutOfMemory)?;
        let data = Arena::new(bytes)?.take(bytes / size_of::<f32>());
        let data = data.ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self { shape, data })
    }

    /// Writes one position of one head.
    ///
    /// # Panics
    /// There is no such block, layer or head.
    pub(crate) fn write(&mut self, place: Place, lane: usize, key: &[f32], value: &[f32]) {
        let (hd, row) = (self.shape.head_dim, self.shape.value_row());
        assert!(lane < BLOCK && key.len() == hd && value.len() == hd);
        let (keys, values) = (self.keys_at(place), self.values_at(place));
        let panel = &mut self.data[keys..][..hd * BLOCK];
        for (lanes, key) in panel.chunks_exact_mut(BLOCK).zip(key) {
            lanes[lane] = *key;
        }
        self.data[values + lane * row..][..hd].copy_from_slice(value);
    }

    /// Keys of one head in a block: `[head_dim][32]`.
    pub(crate) fn keys(&self, place: Place) -> &[f32] {
        &self.data[self.keys_at(place)..][..self.shape.head_dim * BLOCK]
    }

    /// Values of one head in a block: `[32][head_dim up to a multiple of 32]`.
    pub(crate) fn values(&self, place: Place) -> &[f32] {
        &self.data[self.values_at(place)..][..BLOCK * self.shape.value_row()]
    }

    fn keys_at(&self, place: Place) -> usize {
        self.layer_at(place) + place.head * self.shape.head_dim * BLOCK
    }

    fn values_at(&self, place: Place) -> usize {
        let head = place.head * BLOCK * self.shape.value_row();
        self.layer_at(place) + self.shape.keys() + head
    }

    /// Where one layer's part of a block begins.
    fn layer_at(&self, place: Place) -> usize {
        let shape = &self.shape;
        assert!(place.layer < shape.layers && place.head < shape.kv_heads);
        (place.block as usize * shape.layers + place.layer) * (shape.keys() + shape.values())
    }
}
