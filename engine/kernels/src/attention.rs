//! Causal attention over blocks of keys and values, for tokens of one or many sequences.

use crate::{
    Cpu,
    kv::{BLOCK, KvBlocks},
};

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

/// Writes keys and values of the step's tokens into `kv`, then attends to all positions up to each.
///
/// `qkv`: `[tokens][(heads + 2 * kv_heads) * head_dim]`, rotated; tokens of the spans one after
/// another. `out`: `[tokens][heads * head_dim]`. Scores are divided by √head_dim.
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
    let _ = cpu;
    let (kv_heads, hd) = (kv.shape.kv_heads, kv.shape.head_dim);
    let width = (heads + 2 * kv_heads) * hd;
    let mut token = 0;
    for span in spans {
        for i in 0..span.len {
            let position = span.start + i;
            let row = &qkv[(token + i) * width..(token + i + 1) * width];
            let base = kv.offset(span.blocks[position / BLOCK], layer);
            let lane = position % BLOCK;
            for h in 0..kv_heads {
                for d in 0..hd {
                    kv.data[base + (h * hd + d) * BLOCK + lane] = row[(heads + h) * hd + d];
                    let values = base + kv.shape.keys();
                    kv.data[values + (h * BLOCK + lane) * kv.shape.value_row() + d] =
                        row[(heads + kv_heads + h) * hd + d];
                }
            }
        }
        for i in 0..span.len {
            let row = &qkv[(token + i) * width..(token + i + 1) * width];
            for head in 0..heads {
                let h = head * kv_heads / heads;
                let q = &row[head * hd..(head + 1) * hd];
                let mut scores = Vec::new();
                for p in 0..=span.start + i {
                    let base = kv.offset(span.blocks[p / BLOCK], layer);
                    let k = |d: usize| kv.data[base + (h * hd + d) * BLOCK + p % BLOCK];
                    let dot: f32 = q.iter().enumerate().map(|(d, q)| q * k(d)).sum();
                    scores.push(dot / (hd as f32).sqrt());
                }
                let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let total: f32 = scores.iter().map(|s| (s - best).exp()).sum();
                let out = &mut out[((token + i) * heads + head) * hd..][..hd];
                out.fill(0.0);
                for (p, score) in scores.iter().enumerate() {
                    let weight = (score - best).exp() / total;
                    let base = kv.offset(span.blocks[p / BLOCK], layer) + kv.shape.keys();
                    let v = &kv.data[base + (h * BLOCK + p % BLOCK) * kv.shape.value_row()..];
                    for (out, v) in out.iter_mut().zip(v) {
                        *out += weight * v;
                    }
                }
            }
        }
        token += span.len;
    }
}
