//! Where to compute, in which type, on how many threads. What only candle's models can't is left to
//! [`super::candle_limits`].

use std::sync::{Mutex, PoisonError};

use candle_core::DType;
use contracts::{
    defaults::THREADS_MAX,
    run::{Device, Dtype},
};

use crate::error::EngineError;

/// candle's device for the one asked for.
pub fn open(device: Device) -> Result<candle_core::Device, EngineError> {
    let (name, opened) = match device {
        Device::Cpu => return Ok(candle_core::Device::Cpu),
        Device::Cuda { index } => (
            format!("cuda:{index}"),
            candle_core::Device::new_cuda(index as usize),
        ),
        Device::Metal { index } => (
            format!("metal:{index}"),
            candle_core::Device::new_metal(index as usize),
        ),
    };
    opened.map_err(|error| {
        let text = error.to_string();
        let why = text.lines().next().unwrap_or_default();
        EngineError::bad_input(
            "device",
            format!("{name} cannot be used: {why} (is the feature built in?)"),
        )
    })
}

/// The type of weights to compute with: the one asked for, else f32 on the CPU and as stored elsewhere.
pub fn dtype(asked: Option<Dtype>, device: &candle_core::Device, stored: DType) -> DType {
    match asked {
        Some(Dtype::F32) => DType::F32,
        Some(Dtype::F16) => DType::F16,
        Some(Dtype::Bf16) => DType::BF16,
        None if device.is_cpu() => DType::F32,
        None => stored,
    }
}

/// `f32`, `f16`, `bf16`.
pub fn name(dtype: DType) -> &'static str {
    dtype.as_str()
}

/// Threads that were asked for first; they cannot change within a process.
static THREADS: Mutex<Option<u32>> = Mutex::new(None);

/// Sets how many threads candle computes with, once per process, and says how many it will use.
///
/// candle has no call for this: it reads `RAYON_NUM_THREADS` (matrix products) and
/// `CANDLE_NUM_THREADS` (quantised ones), so both are set, and rayon's pool is built to match. A
/// program that takes a number of threads should call this at its start, before it starts threads.
pub fn set_threads(asked: Option<u32>) -> Result<u32, EngineError> {
    let mut fixed = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(asked), None) = (asked, *fixed) {
        if !(1..=THREADS_MAX).contains(&asked) {
            return Err(EngineError::bad_input(
                "threads",
                format!("{asked} is not between 1 and {THREADS_MAX}"),
            ));
        }
        // SAFETY: Rust's own readers of the environment take a lock that this call takes too, and
        // no C code of ours reads it while a model loads.
        unsafe {
            std::env::set_var("RAYON_NUM_THREADS", asked.to_string());
            std::env::set_var("CANDLE_NUM_THREADS", asked.to_string());
        }
        // An error says that the pool is already built; candle then still splits work `asked` ways.
        if let Err(error) = rayon::ThreadPoolBuilder::new()
            .num_threads(asked as usize)
            .build_global()
        {
            tracing::warn!("threads: {error}");
        }
        *fixed = Some(asked);
    }
    match (asked, *fixed) {
        (Some(asked), Some(fixed)) if asked != fixed => Err(EngineError::bad_input(
            "threads",
            format!("{asked}: this process already computes with {fixed}; start another"),
        )),
        _ => Ok(u32::try_from(candle_core::utils::get_num_threads()).unwrap_or(u32::MAX)),
    }
}
