//! A weight matrix as the kernels want it: panels of 32 rows (outputs), in an arena.
//!
//! `[ceil(rows / 32)][columns][32]`: element (row r, column k) lies at panel r / 32, place k, lane
//! r % 32. A matrix-vector product reads it from front to back; a product with many rows reads a
//! panel that stays in the cache. The last panel is filled up with zeros.

use half::{bf16, f16};

use crate::{
    arena::{Arena, Slab},
    element::{Dtype, Element, convert},
    tile::LANES,
};

/// Weights of `rows` outputs over `columns` inputs.
#[derive(Debug)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    pub(crate) panels: Panels,
    /// Added to each output, if any: `[rows]`.
    pub(crate) bias: Option<Vec<f32>>,
}

#[derive(Debug)]
pub(crate) enum Panels {
    F32(Slab<f32>),
    F16(Slab<f16>),
    Bf16(Slab<bf16>),
}

impl Matrix {
    /// Bytes that a matrix takes of an arena, which are whole lines of it: an arena of the sum of
    /// several holds them all.
    pub fn bytes(dtype: Dtype, rows: usize, columns: usize) -> usize {
        rows.div_ceil(LANES) * LANES * columns * dtype.bytes()
    }

    /// A matrix of zeros, to be filled by [`Matrix::fill`]; none if the arena is too small.
    pub fn zeros(arena: &mut Arena, dtype: Dtype, rows: usize, columns: usize) -> Option<Self> {
        let len = rows.div_ceil(LANES) * LANES * columns;
        let panels = match dtype {
            Dtype::F32 => Panels::F32(arena.take(len)?),
            Dtype::F16 => Panels::F16(arena.take(len)?),
            Dtype::Bf16 => Panels::Bf16(arena.take(len)?),
        };
        Some(Self {
            rows,
            columns,
            panels,
            bias: None,
        })
    }

    /// Writes rows from `first` on: `source` is row-major, `[n][columns]`, of any type.
    ///
    /// # Panics
    /// `source` is no whole number of rows, or they end beyond the matrix.
    pub fn fill<S: Element>(&mut self, first: usize, source: &[S]) {
        if source.is_empty() {
            return;
        }
        assert!(source.len().is_multiple_of(self.columns));
        assert!(source.len() / self.columns <= self.rows - self.rows.min(first));
        match &mut self.panels {
            Panels::F32(panels) => fill(panels, self.columns, first, source),
            Panels::F16(panels) => fill(panels, self.columns, first, source),
            Panels::Bf16(panels) => fill(panels, self.columns, first, source),
        }
    }

    /// Sets what is added to each output.
    ///
    /// # Panics
    /// `bias` is not one value a row.
    pub fn set_bias(&mut self, bias: Vec<f32>) {
        assert_eq!(bias.len(), self.rows);
        self.bias = Some(bias);
    }

    /// One row, as an embedding's lookup needs it: `out` is `[columns]`.
    ///
    /// # Panics
    /// There is no such row, or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.columns);
        match &self.panels {
            Panels::F32(panels) => gather(panels, self.columns, row, out),
            Panels::F16(panels) => gather(panels, self.columns, row, out),
            Panels::Bf16(panels) => gather(panels, self.columns, row, out),
        }
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Columns that are copied row by row before the next ones: what is written stays in the first-level
/// cache until all lanes of it are.
const FILL_COLUMNS: usize = 32;

fn fill<S: Element, E: Element>(panels: &mut [E], columns: usize, first: usize, source: &[S]) {
    let last = first + source.len() / columns;
    let mut row = first;
    while row < last {
        // The rows of one panel.
        let end = last.min((row / LANES + 1) * LANES);
        let panel = &mut panels[row / LANES * LANES * columns..][..LANES * columns];
        let rows = &source[(row - first) * columns..(end - first) * columns];
        for (block, to) in panel.chunks_mut(FILL_COLUMNS * LANES).enumerate() {
            for (lane, from) in (row % LANES..).zip(rows.chunks_exact(columns)) {
                let from = &from[block * FILL_COLUMNS..columns.min((block + 1) * FILL_COLUMNS)];
                // Side by side, which the compiler makes vectors of.
                let mut kept = [E::from_f32(0.0); FILL_COLUMNS];
                for (kept, from) in kept.iter_mut().zip(from) {
                    *kept = convert(*from);
                }
                for (to, kept) in to[lane..].iter_mut().step_by(LANES).zip(kept) {
                    *to = kept;
                }
            }
        }
        row = end;
    }
}

fn gather<E: Element>(panels: &[E], columns: usize, row: usize, out: &mut [f32]) {
    let panel = &panels[row / LANES * LANES * columns..];
    for (value, to) in panel.iter().skip(row % LANES).step_by(LANES).zip(out) {
        *to = value.to_f32();
    }
}
