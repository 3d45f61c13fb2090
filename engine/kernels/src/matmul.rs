//! Rows times a weight matrix: one row streams the weights at the memory's speed, many rows reuse
//! each panel from the cache.

use crate::{
    Cpu,
    element::Element,
    matrix::{Matrix, Panels},
    tile::{LANES, Left, tile},
};

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
    for row in 0..m {
        for first in (0..n).step_by(LANES) {
            let mut c = [0.0_f32; LANES];
            let left = Left {
                data: &x[row * k..(row + 1) * k],
                row: k,
                step: 1,
            };
            tile(
                cpu.isa,
                1,
                k,
                left,
                &panels[first * k..],
                LANES,
                &mut c,
                LANES,
                false,
            );
            for (j, value) in c.iter().enumerate().take(n - first) {
                let out = &mut out[row * n + first + j];
                let bias = weights.bias.as_ref().map_or(0.0, |bias| bias[first + j]);
                *out = value + bias + if add { *out } else { 0.0 };
            }
        }
    }
}
