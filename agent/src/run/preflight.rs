//! Before anything is started: the device is ours, memory suffices, and how quiet the machine is.
//!
//! Disk was checked when the spool took the run. That nothing of ours still runs is known: one run
//! at a time, each stopped and swept, and quarantine where that failed.

use std::os::fd::OwnedFd;
use std::time::Duration;

use contracts::defaults::FOREIGN_CPU_WARN_SHARE;
use contracts::run::Device;

use super::story::{Failure, Run};
use crate::host;
use crate::process::device_lock;

/// Memory that a run needs beyond the weights: caches, activations, two processes.
const MEMORY_MARGIN_BYTES: u64 = 256 << 20;
/// How long the machine is watched: enough ticks of the kernel's clock for a share, and no more,
/// since every run waits for it.
const QUIET_WATCH: Duration = Duration::from_millis(120);

/// Gives the device's lock, which the child's keeper will hold.
pub(super) async fn pass(run: &Run, lock: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    let spec = run.active.record.status().spec;
    memory(run, spec.arm.device, run.resolved.weights_bytes)?;
    let lock = match lock {
        Some(lock) => lock,
        None => {
            let wait = Duration::from_millis(spec.limits.device_wait_ms);
            let holder = run.bench.holder(&run.active.id);
            device_lock::acquire(&spec.arm.device, &holder, wait)
                .await
                .map_err(|error| run.failed(error.to_string()))?
        }
    };
    quiet(run).await;
    Ok(lock)
}

fn memory(run: &Run, device: Device, weights_bytes: Option<u64>) -> Result<(), Failure> {
    let weights = if device == Device::Cpu {
        weights_bytes.unwrap_or(0)
    } else {
        0
    };
    let needed = weights.saturating_add(MEMORY_MARGIN_BYTES);
    let available = host::state().memory_available_bytes;
    // 0: the system does not say.
    if available == 0 || available >= needed {
        return Ok(());
    }
    Err(run.failed(format!(
        "memory: {} MiB are available, the run needs {} MiB ({} MiB of weights)",
        available >> 20,
        needed >> 20,
        weights >> 20
    )))
}

/// What others use of the CPU before the run: a validity figure, never a refusal.
async fn quiet(run: &Run) {
    let Ok(meter) = host::CpuMeter::start() else {
        return;
    };
    tokio::time::sleep(QUIET_WATCH).await;
    let share = meter.read().ok().and_then(|used| used.foreign_share);
    run.active
        .record
        .update(|status| status.validity.foreign_cpu_before = share);
    if let Some(share) = share.filter(|share| *share > FOREIGN_CPU_WARN_SHARE) {
        let message = format!(
            "others used {:.0} % of the CPU just before the run",
            share * 100.0
        );
        run.active.record.warn("foreign_cpu_before", message);
    }
}
