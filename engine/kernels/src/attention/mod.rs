//! Causal attention over blocks of keys and values, for tokens of one or many sequences.
//!
//! Positions are taken in chunks of 128. Each chunk is computed alone, from nothing: its largest
//! score, the sum of its weights, its weighted values. What the chunks of a row give is merged in
//! their order by the rule of the online softmax (Milakov and Gimelshein 2018; FlashAttention, Dao
//! et al. 2022). So a row's result has the same bits whether one thread does its chunks or several,
//! alone or beside others, in one step with the tokens before it or after them.

mod chunk;
mod plan;

use std::cell::RefCell;

use crate::{
    Cpu,
    kv::{BLOCK, KvBlocks, Place},
    parts::Parts,
};
use chunk::{Chunk, Part, Queries};
use plan::{CHUNK, Plan, Task, Unit};

/// One sequence's part of a step.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Its blocks in order: position p is in `blocks[p / 32]`.
    pub blocks: &'a [u32],
    /// Position of its first token in this step.
    pub start: usize,
    /// Its tokens in this step.
    pub len: usize,
}

/// What one step's attention reads.
struct Step<'a> {
    cpu: &'a Cpu,
    kv: &'a KvBlocks,
    layer: usize,
    spans: &'a [Span<'a>],
    qkv: &'a [f32],
    heads: usize,
}

/// Memory of a thread for the task that it is at, kept from call to call.
#[derive(Default)]
struct Scratch {
    queries: Vec<f32>,
    scores: Vec<f32>,
    sum: Vec<f32>,
    part: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    /// Chunks of rows whose chunks several threads do; the caller's.
    static PARTS: RefCell<Vec<f32>> = RefCell::default();
}

/// Writes keys and values of the step's tokens into `kv`, then attends to all positions up to each.
///
/// `qkv`: `[tokens][(heads + 2 * kv_heads) * head_dim]`, rotated; tokens of the spans one after
/// another. `out`: `[tokens][heads * head_dim]`. Scores are divided by √head_dim. Positions before
/// a span's start must have been written by earlier steps; others are never read.
///
/// # Panics
/// A shape does not fit, a span lacks blocks, or a block does not exist.
pub fn attend(
    cpu: &Cpu,
    kv: &mut KvBlocks,
    layer: usize,
    spans: &[Span<'_>],
    qkv: &[f32],
    heads: usize,
    out: &mut [f32],
) {
    let shape = kv.shape;
    let tokens: usize = spans.iter().map(|span| span.len).sum();
    assert!(heads.is_multiple_of(shape.kv_heads) && layer < shape.layers);
    assert_eq!(out.len(), tokens * heads * shape.head_dim);
    assert_eq!(
        qkv.len(),
        tokens * (heads + 2 * shape.kv_heads) * shape.head_dim
    );
    store(kv, layer, spans, qkv, heads);
    let step = Step {
        cpu,
        kv,
        layer,
        spans,
        qkv,
        heads,
    };
    let group = heads / shape.kv_heads;
    let plan = Plan::new(spans, shape.kv_heads, group, cpu.pool.threads());
    let out = Parts::new(out);
    PARTS.with_borrow_mut(|parts| {
        let size = Part::floats(&shape);
        parts.resize(parts.len().max(plan.slots * size), 0.0);
        let shared = Parts::new(parts.as_mut_slice());
        cpu.pool.run(plan.tasks.len(), &|task| {
            SCRATCH.with_borrow_mut(|scratch| {
                step.task(&plan, &plan.tasks[task], scratch, &shared, &out)
            });
        });
        for (unit, slots) in plan.split_units() {
            let slots = &mut parts[slots.start * size..slots.end * size];
            let (sum, rest) = slots.split_at_mut(size);
            let mut sum = Part::of(sum, &shape, unit.rows);
            for part in rest.chunks_exact_mut(size) {
                sum.merge(cpu.isa, &Part::of(part, &shape, unit.rows));
            }
            step.finish(unit, &sum, &out);
        }
    });
}

/// Writes the tokens' keys and values where the spans' blocks have them.
fn store(kv: &mut KvBlocks, layer: usize, spans: &[Span<'_>], qkv: &[f32], heads: usize) {
    let (kv_heads, hd) = (kv.shape.kv_heads, kv.shape.head_dim);
    let positions = spans
        .iter()
        .flat_map(|span| (span.start..span.start + span.len).map(|p| (span.blocks, p)));
    let rows = qkv.chunks_exact((heads + 2 * kv_heads) * hd);
    for ((blocks, position), row) in positions.zip(rows) {
        let (keys, values) = row[heads * hd..].split_at(kv_heads * hd);
        let pairs = keys.chunks_exact(hd).zip(values.chunks_exact(hd));
        for (head, (key, value)) in pairs.enumerate() {
            let block = blocks[position / BLOCK];
            kv.write(Place { block, layer, head }, position % BLOCK, key, value);
        }
    }
}

impl Step<'_> {
    /// One task: some chunks of one unit; all of them, and then its rows of `out`, unless it is split.
    fn task(
        &self,
        plan: &Plan,
        task: &Task,
        scratch: &mut Scratch,
        shared: &Parts<'_, f32>,
        out: &Parts<'_, f32>,
    ) {
        let unit = &plan.units[task.unit];
        let shape = &self.kv.shape;
        let size = Part::floats(shape);
        scratch.sum.resize(size, 0.0);
        scratch.part.resize(size, 0.0);
        let queries = self.queries(unit, &mut scratch.queries);
        let (isa, scores) = (self.cpu.isa, &mut scratch.scores);
        if let Some(first) = unit.slot {
            for index in task.chunks.clone() {
                let slot = first + index;
                // SAFETY: each chunk of a split unit has a slot of its own, and belongs to one task,
                // which the pool runs once.
                let part = unsafe { shared.part(slot * size..(slot + 1) * size) };
                let mut part = Part::of(part, shape, unit.rows);
                self.chunk(unit, index)
                    .attend(isa, &queries, scores, &mut part);
            }
            return;
        }
        let mut sum = Part::of(&mut scratch.sum, shape, unit.rows);
        let mut part = Part::of(&mut scratch.part, shape, unit.rows);
        self.chunk(unit, 0).attend(isa, &queries, scores, &mut sum);
        for index in 1..task.chunks.end {
            self.chunk(unit, index)
                .attend(isa, &queries, scores, &mut part);
            sum.merge(isa, &part);
        }
        self.finish(unit, &sum, out);
    }

    fn chunk(&self, unit: &Unit, index: usize) -> Chunk<'_> {
        Chunk {
            kv: self.kv,
            layer: self.layer,
            head: unit.head,
            blocks: self.spans[unit.span].blocks,
            first: index * CHUNK,
        }
    }

    /// The unit's query rows, scaled, and what each of them may see.
    fn queries<'s>(&self, unit: &Unit, scaled: &'s mut Vec<f32>) -> Queries<'s> {
        let hd = self.kv.shape.head_dim;
        let width = (self.heads + 2 * self.kv.shape.kv_heads) * hd;
        let scale = 1.0 / (hd as f32).sqrt();
        scaled.resize(hd * unit.rows, 0.0);
        for (r, scaled) in scaled.chunks_exact_mut(hd).enumerate() {
            let (token, head) = unit.row(r);
            let query = &self.qkv[token * width + head * hd..][..hd];
            for (scaled, q) in scaled.iter_mut().zip(query) {
                *scaled = q * scale;
            }
        }
        Queries {
            scaled,
            rows: unit.rows,
            seen: unit.seen(),
        }
    }

    /// Writes a unit's rows of `out`.
    fn finish(&self, unit: &Unit, sum: &Part<'_>, out: &Parts<'_, f32>) {
        let hd = self.kv.shape.head_dim;
        for r in 0..unit.rows {
            let (token, head) = unit.row(r);
            let at = (token * self.heads + head) * hd;
            // SAFETY: every pair of a token and a head is a row of exactly one unit, and a unit is
            // finished once: by its only task, or by the caller after the run.
            sum.row(r, unsafe { out.part(at..at + hd) });
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
