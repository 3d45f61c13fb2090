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

/// `x · Wᵀ + bias`: `[rows, in]` to `[rows, out]`, in `room` if there is one.
pub(super) fn linear(
    cpu: &Cpu,
    x: &Tensor,
    weights: &Matrix,
    room: Option<&Tensor>,
) -> Result<Tensor> {
    let rows = rows_of("linear", x, weights.columns())?;
    let filled = Filled {
        name: "linear",
        shape: (rows, weights.rows()),
        fill: |x: &[f32], out: &mut [f32]| matmul(cpu, x, rows, weights, out, false),
    };
    filled.apply(x, room)
}

/// Adds `x · Wᵀ + bias` to `sum`, in place: the residual stream is not copied.
pub(super) fn linear_add(cpu: &Cpu, x: &Tensor, weights: &Matrix, sum: &Tensor) -> Result<Tensor> {
    let rows = rows_of("linear-add", x, weights.columns())?;
    let filled = Filled {
        name: "linear-add",
        shape: (rows, weights.rows()),
        fill: |x: &[f32], sum: &mut [f32]| matmul(cpu, x, rows, weights, sum, true),
    };
    filled.apply(x, Some(sum))
}

/// RMS norm of each row, in `room` if there is one.
pub(super) fn rms_norm(
    cpu: &Cpu,
    x: &Tensor,
    weight: &[f32],
    eps: f32,
    room: Option<&Tensor>,
) -> Result<Tensor> {
    let rows = rows_of("rms-norm", x, weight.len())?;
    let filled = Filled {
        name: "rms-norm",
        shape: (rows, weight.len()),
        fill: |x: &[f32], out: &mut [f32]| rows::rms_norm(cpu, x, weight, eps, out),
    };
    filled.apply(x, room)
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
        bail!("rotate: {qkv:?} with {} positions", turns.len());
    }
    qkv.inplace_op1(&Changed {
        name: "rotate",
        change: |qkv: &mut [f32]| {
            rows::rotate(cpu, qkv, heads.query, heads.kv, norms, turns);
        },
    })
}

/// `silu(gate) · up`: `[rows, gate | up]` to `[rows, half of that]`, in `room` if there is one.
pub(super) fn silu_mul(cpu: &Cpu, gate_up: &Tensor, room: Option<&Tensor>) -> Result<Tensor> {
    let (rows, both) = gate_up.dims2()?;
    let width = both / 2;
    rows_of("silu-mul", gate_up, 2 * width)?;
    let filled = Filled {
        name: "silu-mul",
        shape: (rows, width),
        fill: |x: &[f32], out: &mut [f32]| rows::silu_mul(cpu, x, width, out),
    };
    filled.apply(gate_up, room)
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
        bail!("attend: {qkv:?} does not have a row for each token of the spans");
    }
    // candle hands a custom operation out shared; this one is called once.
    let kv = RefCell::new(kv);
    let filled = Filled {
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
    };
    filled.apply(qkv, None)
}

/// An operation that fills a tensor of `shape`, a new one or one that is there.
struct Filled<F> {
    name: &'static str,
    shape: (usize, usize),
    fill: F,
}

/// An operation that changes its tensor.
struct Changed<F> {
    name: &'static str,
    change: F,
}

impl<F: Fn(&[f32], &mut [f32])> Filled<F> {
    fn apply(&self, x: &Tensor, room: Option<&Tensor>) -> Result<Tensor> {
        let Some(room) = room else {
            return x.apply_op1_no_bwd(self);
        };
        if room.dims() != [self.shape.0, self.shape.1] {
            bail!("{}: {:?} does not fit into {room:?}", self.name, self.shape);
        }
        room.inplace_op2(x, self)?;
        Ok(room.clone())
    }
}

impl<F: Fn(&[f32], &mut [f32])> CustomOp1 for Filled<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, columns) = self.shape;
        let mut out = vec![0.0_f32; rows * columns];
        (self.fill)(floats(self.name, x, layout)?, &mut out);
        Ok((CpuStorage::F32(out), self.shape.into()))
    }
}

impl<F: Fn(&[f32], &mut [f32])> InplaceOp2 for Filled<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        out_layout: &Layout,
        x: &CpuStorage,
        layout: &Layout,
    ) -> Result<()> {
        let x = floats(self.name, x, layout)?;
        (self.fill)(x, floats_mut(self.name, out, out_layout)?);
        Ok(())
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

/// Rows of a tensor that must have two dimensions, this many columns, and floats.
fn rows_of(name: &str, x: &Tensor, columns: usize) -> Result<usize> {
    match x.dims() {
        [rows, found] if *found == columns && x.dtype() == DType::F32 => Ok(*rows),
        _ => bail!("{name}: {x:?}, where rows of {columns} floats are wanted"),
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
