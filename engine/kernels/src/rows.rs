//! What is done to each row between the products: norms, rotary positions, the gated activation.

use crate::Cpu;

/// RMS norm of each row of `x` (`[m][weight.len()]`) into `out`:
/// `x / √(mean(x²) + eps) · weight` (Zhang and Sennrich 2019).
///
/// # Panics
/// A length does not fit.
pub fn rms_norm(cpu: &Cpu, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let _ = cpu;
    assert_eq!(x.len(), out.len());
    let n = weight.len();
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let mean = x.iter().map(|x| x * x).sum::<f32>() / n as f32;
        let scale = 1.0 / (mean + eps).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * weight;
        }
    }
}

/// What turns a head: cosines and sines of its position, `[head_dim / 2]` each.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Cosines, scaled where the embedding is.
    pub cos: &'a [f32],
    /// Sines, likewise.
    pub sin: &'a [f32],
}

/// Norms of single heads before they are turned (Qwen3): weights of `[head_dim]`.
#[derive(Debug, Clone, Copy)]
pub struct HeadNorms<'a> {
    /// Of query heads.
    pub q: &'a [f32],
    /// Of key heads.
    pub k: &'a [f32],
    /// Epsilon of both.
    pub eps: f32,
}

/// Turns the query and key heads of each row in place, after their norms where there are any.
///
/// `qkv`: `[turns.len()][(heads + 2 * kv_heads) * head_dim]`. Halves of a head are the pairs
/// (Hugging Face's order): `(x1, x2) -> (x1 cos − x2 sin, x2 cos + x1 sin)`.
///
/// # Panics
/// A length does not fit.
pub fn rotate(
    cpu: &Cpu,
    qkv: &mut [f32],
    heads: usize,
    kv_heads: usize,
    norms: Option<HeadNorms<'_>>,
    turns: &[Turn<'_>],
) {
    let Some(first) = turns.first() else { return };
    let hd = first.cos.len() * 2;
    for (row, turn) in qkv.chunks_exact_mut((heads + 2 * kv_heads) * hd).zip(turns) {
        for (head, x) in row.chunks_exact_mut(hd).take(heads + kv_heads).enumerate() {
            if let Some(norms) = norms {
                let weight = if head < heads { norms.q } else { norms.k };
                let copy = x.to_vec();
                rms_norm(cpu, &copy, weight, norms.eps, x);
            }
            let (low, high) = x.split_at_mut(hd / 2);
            for (((low, high), cos), sin) in low.iter_mut().zip(high).zip(turn.cos).zip(turn.sin) {
                (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
            }
        }
    }
}

/// `out[m][n] = silu(gate) · up`, where a row of `gate_up` is `[gate: n][up: n]`.
///
/// # Panics
/// `gate_up` is not twice as long as `out`, or no whole number of rows.
pub fn silu_mul(cpu: &Cpu, gate_up: &[f32], n: usize, out: &mut [f32]) {
    let _ = cpu;
    assert_eq!(gate_up.len(), 2 * out.len());
    assert!(out.len().is_multiple_of(n));
    for (row, out) in gate_up.chunks_exact(2 * n).zip(out.chunks_exact_mut(n)) {
        let (gate, up) = row.split_at(n);
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *out = gate / (1.0 + (-gate).exp()) * up;
        }
    }
}
