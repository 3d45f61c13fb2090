//! GPUs by NVML. A machine without NVIDIA's library has none, which is no error.

use contracts::host::GpuFacts;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// The GPUs that NVML sees, in its order.
pub fn gpus() -> Vec<GpuFacts> {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(error) => {
            tracing::debug!("no NVML, so no GPU is known: {error}");
            return Vec::new();
        }
    };
    let driver = nvml.sys_driver_version().unwrap_or_default();
    let count = nvml.device_count().unwrap_or_default();
    let mut gpus = Vec::new();
    for index in 0..count {
        match gpu(&nvml, index, &driver) {
            Ok(gpu) => gpus.push(gpu),
            Err(error) => tracing::warn!("GPU {index} cannot be read: {error}"),
        }
    }
    gpus
}

fn gpu(nvml: &Nvml, index: u32, driver: &str) -> Result<GpuFacts, NvmlError> {
    let device = nvml.device_by_index(index)?;
    Ok(GpuFacts {
        index,
        name: device.name()?,
        uuid: device.uuid()?,
        memory_bytes: device.memory_info()?.total,
        driver: driver.to_owned(),
    })
}
