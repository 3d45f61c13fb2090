//! What is done to each row between the products: norms, rotary positions, the gated activation.
//!
//! Sums have one order, whatever the instruction set, the rows beside and the threads.

use crate::{
    Cpu,
    exp::exp,
    parts::Parts,
    simd::{WIDTH, fold, multiply_add, per_isa},
};

/// Values from which on rows are shared among the threads. Fewer take one thread some 10 µs, about
/// what it costs to wake the others.
/// An interpreter's tests have few, and are to share them.
const SHARED_FROM: usize = if cfg!(miri) { 64 } else { 1 << 15 };
/// Parts of the work for each thread, so that one that is held up leaves some to the others.
const PARTS_PER_THREAD: usize = 4;

/// RMS norm of each row of `x` (`[m][weight.len()]`) into `out`:
/// `x / √(mean(x²) + eps) · weight` (Zhang and Sennrich 2019).
///
/// # Panics
/// A length does not fit.
pub fn rms_norm(cpu: &Cpu, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    assert_eq!(x.len(), out.len());
    assert!(out.len().is_multiple_of(n));
    for_rows(cpu, out, n, &|first, out| {
        norms(cpu.isa, &x[first * n..][..out.len()], weight, eps, out);
    });
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
    let Some(first) = turns.first() else {
        return assert!(qkv.is_empty());
    };
    let hd = first.cos.len() * 2;
    let width = (heads + 2 * kv_heads) * hd;
    assert_eq!(qkv.len(), turns.len() * width);
    for turn in turns {
        assert!(turn.cos.len() * 2 == hd && turn.sin.len() * 2 == hd);
    }
    if let Some(norms) = norms {
        assert!(norms.q.len() == hd && norms.k.len() == hd);
    }
    for_rows(cpu, qkv, width, &|first, rows| {
        for (row, &turn) in rows.chunks_exact_mut(width).zip(&turns[first..]) {
            let (queries, rest) = row.split_at_mut(heads * hd);
            let eps = norms.map_or(0.0, |norms| norms.eps);
            turn_heads(cpu.isa, queries, norms.map(|norms| norms.q), eps, turn);
            let keys = &mut rest[..kv_heads * hd];
            turn_heads(cpu.isa, keys, norms.map(|norms| norms.k), eps, turn);
        }
    });
}

/// `out[m][n] = silu(gate) · up`, where a row of `gate_up` is `[gate: n][up: n]`.
///
/// # Panics
/// `gate_up` is not twice as long as `out`, or no whole number of rows.
pub fn silu_mul(cpu: &Cpu, gate_up: &[f32], n: usize, out: &mut [f32]) {
    assert_eq!(gate_up.len(), 2 * out.len());
    assert!(out.len().is_multiple_of(n));
    for_rows(cpu, out, n, &|first, out| {
        gates(cpu.isa, &gate_up[2 * n * first..][..2 * out.len()], n, out);
    });
}

/// Calls `work(first row, rows)` for all rows of `out`, on all threads if there are many values.
fn for_rows(cpu: &Cpu, out: &mut [f32], width: usize, work: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    if out.len() < SHARED_FROM || cpu.pool.threads() == 1 {
        return work(0, out);
    }
    let rows = out.len() / width;
    let size = rows.div_ceil(cpu.pool.threads() * PARTS_PER_THREAD);
    let out = Parts::new(out);
    cpu.pool.run(rows.div_ceil(size), &|part| {
        let (first, end) = (part * size, rows.min((part + 1) * size));
        // SAFETY: rows of different parts are different ones, and the pool runs each part once.
        work(first, unsafe { out.part(first * width..end * width) });
    });
}

per_isa! {
    fn norms(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = norms_body
}

#[inline(always)]
fn norms_body<const FMA: bool>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let scale = norm_scale::<FMA>(x, eps);
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * weight;
        }
    }
}

/// What a row is multiplied by: one over the root of its mean square.
#[inline(always)]
fn norm_scale<const FMA: bool>(x: &[f32], eps: f32) -> f32 {
    let mut sums = [0.0_f32; WIDTH];
    let (vectors, rest) = x.as_chunks::<WIDTH>();
    for vector in vectors {
        for (sum, x) in sums.iter_mut().zip(vector) {
            *sum = multiply_add::<FMA>(*x, *x, *sum);
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum = multiply_add::<FMA>(*x, *x, *sum);
    }
    let mean = fold(sums, |a, b| a + b) / x.len() as f32;
    1.0 / (mean + eps).sqrt()
}

per_isa! {
    /// Turns heads that share a position, each after its norm if there is one.
    fn turn_heads(heads: &mut [f32], norm: Option<&[f32]>, eps: f32, turn: Turn<'_>) = turn_heads_body
}

#[inline(always)]
fn turn_heads_body<const FMA: bool>(
    heads: &mut [f32],
    norm: Option<&[f32]>,
    eps: f32,
    turn: Turn<'_>,
) {
    let half = turn.cos.len();
    for head in heads.chunks_exact_mut(2 * half) {
        if let Some(weight) = norm {
            let scale = norm_scale::<FMA>(head, eps);
            for (x, weight) in head.iter_mut().zip(weight) {
                *x = *x * scale * weight;
            }
        }
        let (low, high) = head.split_at_mut(half);
        for (((low, high), cos), sin) in low.iter_mut().zip(high).zip(turn.cos).zip(turn.sin) {
            (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
        }
    }
}

per_isa! {
    fn gates(gate_up: &[f32], n: usize, out: &mut [f32]) = gates_body
}

#[inline(always)]
fn gates_body<const FMA: bool>(gate_up: &[f32], n: usize, out: &mut [f32]) {
    for (row, out) in gate_up.chunks_exact(2 * n).zip(out.chunks_exact_mut(n)) {
        let (gate, up) = row.split_at(n);
        for ((out, &gate), up) in out.iter_mut().zip(gate).zip(up) {
            // The sigmoid by e^-|gate|, which never overflows.
            let e = exp::<FMA>(-gate.abs());
            let above = if gate < 0.0 { e } else { 1.0 };
            *out = gate * above / (1.0 + e) * up;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
