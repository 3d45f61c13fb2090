//! Our CPU kernels as candle's custom operations: lengths are checked here, since a kernel panics
//! on a wrong one, and an error of candle's is what callers expect. Tensors are f32 and contiguous.

use std::cell::RefCell;

use candle_core::{
    CpuStorage, CustomOp1, DType, InplaceOp1, InplaceOp2, Layout, Result, Shape, Tensor, bail,
};
use kernels::{
    Cpu,
    attention::{self, Span},
    kv::KvBlocks,
    matmul::matmul,
    matrix::Matrix,
    rows::{self, HeadNorms, Turn},
};

use super::Heads;

/// `x · Wᵀ + bias`: `[rows, in]` to `[rows, out]`.
pub(super) fn linear(cpu: &Cpu, x: &Tensor, weights: &Matrix) -> Result<Tensor> {
    let rows = rows_of("linear", x, weights.columns())?;
    x.apply_op1_no_bwd(&New {
        name: "linear",
        shape: (rows, weights.rows()),
        fill: |x: &[f32], out: &mut [f32]| matmul(cpu, x, rows, weights, out, false),
    })
}

/// Adds `x · Wᵀ + bias` to `sum`, in place: the residual stream is not copied.
pub(super) fn linear_add(cpu: &Cpu, x: &Tensor, weights: &Matrix, sum: &Tensor) -> Result<()> {
    let rows = rows_of("linear-add", x, weights.columns())?;
    if sum.dims() != [rows, weights.rows()] {
        bail!(
            "linear-add: {x} times {} outputs into {sum}",
            weights.rows()
        );
    }
    sum.inplace_op2(
        x,
        &ChangedBy {
            name: "linear-add",
            change: |sum: &mut [f32], x: &[f32]| matmul(cpu, x, rows, weights, sum, true),
        },
    )
}

/// RMS norm of each row.
pub(super) fn rms_norm(cpu: &Cpu, x: &Tensor, weight: &[f32], eps: f32) -> Result<Tensor> {
    let rows = rows_of("rms-norm", x, weight.len())?;
    x.apply_op1_no_bwd(&New {
        name: "rms-norm",
        shape: (rows, weight.len()),
        fill: |x: &[f32], out: &mut [f32]| rows::rms_norm(cpu, x, weight, eps, out),
    })
}

/// Turns query and key heads in place, one turn a row: `qkv` is `[turns, heads.width()]`.
pub(super) fn rotate(
    cpu: &Cpu,
    qkv: &Tensor,
    heads: Heads,
    norms: Option<HeadNorms<'_>>,
    turns: &[Turn<'_>],
) -> Result<()> {
    if rows_of("rotate", qkv, heads.width())? != turns.len() {
        bail!("rotate: {qkv} with {} positions", turns.len());
    }
    qkv.inplace_op1(&Changed {
        name: "rotate",
        change: |qkv: &mut [f32]| {
            rows::rotate(cpu, qkv, heads.query, heads.kv, norms, turns);
        },
    })
}

/// `silu(gate) · up`: `[rows, gate | up]` to `[rows, half of that]`.
pub(super) fn silu_mul(cpu: &Cpu, gate_up: &Tensor) -> Result<Tensor> {
    let (rows, both) = gate_up.dims2()?;
    let width = both / 2;
    rows_of("silu-mul", gate_up, 2 * width)?;
    gate_up.apply_op1_no_bwd(&New {
        name: "silu-mul",
        shape: (rows, width),
        fill: |x: &[f32], out: &mut [f32]| rows::silu_mul(cpu, x, width, out),
    })
}

/// Keeps keys and values in `kv` and attends: `[tokens, heads.width()]` to `[tokens, query heads *
/// head_dim]`. The caller has seen to it that each span's blocks hold it, and that `kv` has this shape.
pub(super) fn attend(
    cpu: &Cpu,
    kv: &mut KvBlocks,
    layer: usize,
    spans: &[Span<'_>],
    qkv: &Tensor,
    heads: Heads,
) -> Result<Tensor> {
    let tokens = rows_of("attend", qkv, heads.width())?;
    if tokens != spans.iter().map(|span| span.len).sum::<usize>() {
        bail!("attend: {qkv} does not have a row for each token of the spans");
    }
    // candle hands a custom operation out shared; this one is called once.
    let kv = RefCell::new(kv);
    qkv.apply_op1_no_bwd(&New {
        name: "attend",
        shape: (tokens, heads.query * heads.dim),
        fill: |qkv: &[f32], out: &mut [f32]| {
            attention::attend(
                cpu,
                &mut kv.borrow_mut(),
                layer,
                spans,
                qkv,
                heads.query,
                out,
            );
        },
    })
}

/// An operation that fills a new tensor of `shape`.
struct New<F> {
    name: &'static str,
    shape: (usize, usize),
    fill: F,
}

/// An operation that changes its tensor.
struct Changed<F> {
    name: &'static str,
    change: F,
}

/// An operation that changes its first tensor by its second.
struct ChangedBy<F> {
    name: &'static str,
    change: F,
}

impl<F: Fn(&[f32], &mut [f32])> CustomOp1 for New<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, columns) = self.shape;
        let mut out = vec![0.0_f32; rows * columns];
        (self.fill)(floats(self.name, storage, layout)?, &mut out);
        Ok((CpuStorage::F32(out), self.shape.into()))
    }
}

impl<F: Fn(&mut [f32])> InplaceOp1 for Changed<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        (self.change)(floats_mut(self.name, storage, layout)?);
        Ok(())
    }
}

impl<F: Fn(&mut [f32], &[f32])> InplaceOp2 for ChangedBy<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        changed: &mut CpuStorage,
        changed_layout: &Layout,
        by: &CpuStorage,
        by_layout: &Layout,
    ) -> Result<()> {
        let by = floats(self.name, by, by_layout)?;
        (self.change)(floats_mut(self.name, changed, changed_layout)?, by);
        Ok(())
    }
}

/// Rows of a tensor that must have two dimensions, this many columns, and floats.
fn rows_of(name: &str, x: &Tensor, columns: usize) -> Result<usize> {
    match x.dims() {
        [rows, found] if *found == columns && x.dtype() == DType::F32 => Ok(*rows),
        _ => bail!("{name}: {x}, where rows of {columns} floats are wanted"),
    }
}

fn floats<'a>(name: &str, storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let all = storage.as_slice::<f32>()?;
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| all.get(start..end)) {
        Some(floats) => Ok(floats),
        None => bail!("{name}: the tensor is not contiguous"),
    }
}

fn floats_mut<'a>(
    name: &str,
    storage: &'a mut CpuStorage,
    layout: &Layout,
) -> Result<&'a mut [f32]> {
    let CpuStorage::F32(all) = storage else {
        bail!("{name}: the tensor is not of floats")
    };
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| all.get_mut(start..end)) {
        Some(floats) => Ok(floats),
        None => bail!("{name}: the tensor is not contiguous"),
    }
}
