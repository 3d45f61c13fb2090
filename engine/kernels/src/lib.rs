//! CPU kernels of our own forward pass, on plain slices: what the engine's decoder wraps in candle
//! custom ops.
//!
//! Everything rests on one primitive, `tile`: a few rows times a panel of 32
//! outputs, summed strictly in the order of the inner dimension. A row's result therefore depends
//! neither on the rows beside it nor on the number of threads. The crate knows no model, no candle
//! and no file.

pub mod arena;
pub mod attention;
#[cfg(test)]
mod cases;
pub mod element;
mod exp;
pub mod isa;
pub mod kv;
pub mod matmul;
pub mod matrix;
mod parts;
pub mod pool;
pub mod rows;
mod simd;
mod tile;

use std::io;

use isa::Isa;
use pool::Pool;

/// What every kernel needs to know of the machine: which instructions, which threads.
#[derive(Debug)]
pub struct Cpu {
    /// The instruction set that the kernels use.
    pub isa: Isa,
    /// The threads that compute.
    pub pool: Pool,
}

impl Cpu {
    /// The best instruction set of this machine, or what [`isa::ISA_ENV`] says, and `threads` threads,
    /// the caller's among them.
    ///
    /// # Errors
    /// The system gives no thread, or the variable names what this machine lacks.
    pub fn new(threads: usize) -> io::Result<Self> {
        let isa =
            Isa::from_env().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Self::with_isa(isa, threads)
    }

    /// As [`Cpu::new`], with an instruction set that the machine must have (see [`Isa::available`]).
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn with_isa(isa: Isa, threads: usize) -> io::Result<Self> {
        Ok(Self {
            isa,
            pool: Pool::new(threads)?,
        })
    }
}
