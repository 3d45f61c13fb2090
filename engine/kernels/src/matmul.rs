//! Rows times a weight matrix: one row streams the weights at the memory's speed, many rows reuse
//! each panel from the cache.
//!
//! Both are the same tiles, so that a row's result has the same bits whatever stands
//! beside it. Rows are first packed tile by tile as `[k][rows]`, which a tile reads from front to
//! back; a single row is that already. Then each task takes a block of tiles through a range of
//! panels: a panel stays in the inner caches for all tiles of a block, and the block in the second
//! level for all panels (Goto and van de Geijn 2008).

use std::{cell::Cell, ops::Range};

use crate::{
    Cpu,
    element::Element,
    matrix::{Matrix, Panels},
    parts::Parts,
    tile::{LANES, Left, ROWS_MAX, Right, tile},
};

/// Bytes of a block of packed rows: a good third of a second-level cache of 1 MiB; panels pass
/// through the rest.
const BLOCK_BYTES: usize = 384 << 10;
/// Rows that are packed at a time, which bounds the memory for it (of a thread, kept for the next
/// product): 2 KiB a column.
const PACKED_ROWS: usize = 512;
/// Tasks for each thread, so that one that is late leaves little to wait for.
const TASKS_A_THREAD: usize = 8;

thread_local! {
    /// Packed rows of the products that this thread asks for.
    static PACKED: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// `out[m][n] = x[m][k] · W[n][k]ᵀ (+ bias)`; with `add` it is added to what `out` holds.
///
/// # Panics
/// `x` is not `[m][columns]`, or `out` not `[m][rows]`.
pub fn matmul(cpu: &Cpu, x: &[f32], m: usize, weights: &Matrix, out: &mut [f32], add: bool) {
    assert_eq!(x.len(), m * weights.columns());
    assert_eq!(out.len(), m * weights.rows());
    match &weights.panels {
        Panels::F32(panels) => product(cpu, x, m, weights, panels, out, add),
        Panels::F16(panels) => product(cpu, x, m, weights, panels, out, add),
        Panels::Bf16(panels) => product(cpu, x, m, weights, panels, out, add),
    }
}

fn product<E: Element>(
    cpu: &Cpu,
    x: &[f32],
    m: usize,
    weights: &Matrix,
    panels: &[E],
    out: &mut [f32],
    add: bool,
) {
    let (n, k) = (weights.rows(), weights.columns());
    let mut packed = PACKED.take();
    for first in (0..m).step_by(PACKED_ROWS) {
        let rows = PACKED_ROWS.min(m - first);
        let x = &x[first * k..(first + rows) * k];
        let tiles = Tiles::new(rows);
        let job = Job {
            cpu,
            tiles,
            packed: if rows == 1 {
                x
            } else {
                pack(cpu, x, k, tiles, &mut packed)
            },
            panels,
            n,
            k,
            bias: weights.bias.as_deref(),
            out: Parts::new(&mut out[first * n..(first + rows) * n]),
            add,
        };
        job.run();
    }
    PACKED.set(packed);
}

/// Rows as tiles of at most [`ROWS_MAX`], alike to a row: 17 are 9 and 8.
#[derive(Clone, Copy)]
struct Tiles {
    rows: usize,
    count: usize,
}

impl Tiles {
    fn new(rows: usize) -> Self {
        let count = rows.div_ceil(ROWS_MAX);
        Self { rows, count }
    }

    /// The rows of one tile.
    fn of(self, tile: usize) -> Range<usize> {
        tile * self.rows / self.count..(tile + 1) * self.rows / self.count
    }
}

/// `x` (`[rows][k]`) tile by tile as `[k][rows of the tile]`.
fn pack<'a>(cpu: &Cpu, x: &[f32], k: usize, tiles: Tiles, packed: &'a mut Vec<f32>) -> &'a [f32] {
    packed.resize(packed.len().max(x.len()), 0.0);
    let parts = Parts::new(packed);
    cpu.pool.run(tiles.count, &|tile| {
        let rows = tiles.of(tile);
        // SAFETY: tasks are run once each, and no two tiles share a row.
        let to = unsafe { parts.part(rows.start * k..rows.end * k) };
        for (r, row) in rows.clone().enumerate() {
            let from = &x[row * k..(row + 1) * k];
            for (to, from) in to.iter_mut().skip(r).step_by(rows.len()).zip(from) {
                *to = *from;
            }
        }
    });
    &packed[..x.len()]
}

/// One product of packed rows.
struct Job<'a, E> {
    cpu: &'a Cpu,
    tiles: Tiles,
    packed: &'a [f32],
    panels: &'a [E],
    n: usize,
    k: usize,
    bias: Option<&'a [f32]>,
    /// `[rows][n]`.
    out: Parts<'a, f32>,
    add: bool,
}

impl<E: Element> Job<'_, E> {
    /// Shares it out: blocks of tiles that stay in the cache, times ranges of panels.
    fn run(&self) {
        let panels = self.n.div_ceil(LANES);
        let tile_bytes = ROWS_MAX * self.k * size_of::<f32>();
        let blocks = self
            .tiles
            .count
            .div_ceil((BLOCK_BYTES / tile_bytes.max(1)).max(1));
        let wanted = (self.cpu.pool.threads() * TASKS_A_THREAD).div_ceil(blocks);
        // A block of one tile gains nothing from panels one after another.
        let ranges = if self.tiles.count == 1 {
            panels
        } else {
            wanted.min(panels)
        };
        self.cpu.pool.run(ranges * blocks, &|task| {
            let (range, block) = (task / blocks, task % blocks);
            let tiles = share(self.tiles.count, blocks, block);
            for panel in share(panels, ranges, range) {
                tiles.clone().for_each(|tile| self.tile(tile, panel));
            }
        });
    }

    /// One tile times one panel, and what is added to it.
    fn tile(&self, number: usize, panel: usize) {
        let rows = self.tiles.of(number);
        let left = Left {
            data: &self.packed[rows.start * self.k..rows.end * self.k],
            row: 1,
            step: rows.len(),
        };
        // The next panel lies behind this one.
        let right = Right {
            data: &self.panels[panel * LANES * self.k..(panel + 1) * LANES * self.k],
            row: LANES,
            next: None,
        };
        let mut sums = [0.0_f32; ROWS_MAX * LANES];
        let isa = self.cpu.isa;
        tile(
            isa,
            rows.len(),
            self.k,
            left,
            right,
            &mut sums,
            LANES,
            false,
        );
        let columns = panel * LANES..self.n.min((panel + 1) * LANES);
        for (row, sums) in rows.zip(sums.chunks_exact_mut(LANES)) {
            if let Some(bias) = self.bias {
                plus(sums, &bias[columns.clone()]);
            }
            let spot = row * self.n;
            // SAFETY: tasks are run once each, and no two share both a row and a panel.
            let out = unsafe { self.out.part(spot + columns.start..spot + columns.end) };
            if self.add {
                plus(sums, out);
            }
            out.copy_from_slice(&sums[..columns.len()]);
        }
    }
}

fn plus(sums: &mut [f32], others: &[f32]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

/// Part `i` of `parts` like parts of `0..count`.
fn share(count: usize, parts: usize, i: usize) -> Range<usize> {
    count * i / parts..count * (i + 1) / parts
}
