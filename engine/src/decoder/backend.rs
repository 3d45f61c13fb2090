//! Whose code computes: our kernels on a CPU, candle's own operations everywhere else.

use std::sync::{Arc, OnceLock};

use candle_core::Device;
use kernels::{Cpu, isa::Isa};

use crate::error::EngineError;

/// Whose code computes.
#[derive(Debug, Clone)]
pub enum Backend {
    /// Our kernels. Activations are f32 whatever the weights' type.
    Kernels(Arc<Cpu>),
    /// candle's own, on any device, a CPU too. Activations have the weights' type.
    Candle(Device),
}

impl Backend {
    /// What is fastest on this device.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(super) fn of(device: &Device, threads: u32) -> Result<Self, EngineError> {
        match device {
            Device::Cpu => Ok(Self::Kernels(cpu(threads)?)),
            other => Ok(Self::Candle(other.clone())),
        }
    }
}

/// The one pool of a process: a second would compete with the first for the same cores. Its number
/// of threads is that of the first call, as [`crate::model::device::set_threads`] fixes it.
fn cpu(threads: u32) -> Result<Arc<Cpu>, EngineError> {
    static CPU: OnceLock<Arc<Cpu>> = OnceLock::new();
    if let Some(cpu) = CPU.get() {
        return Ok(Arc::clone(cpu));
    }
    let isa = Isa::from_env()
        .map_err(|error| EngineError::bad_input("environment", error.to_string()))?;
    let cpu = Cpu::with_isa(isa, threads as usize)
        .map_err(|error| EngineError::Internal(format!("threads to compute with: {error}")))?;
    Ok(Arc::clone(CPU.get_or_init(|| Arc::new(cpu))))
}
