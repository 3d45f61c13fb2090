//! GPUs by NVML: what they are, and how they stand. A machine without NVIDIA's library has none, which
//! is no error.

use std::collections::BTreeSet;

use contracts::host::{GpuFacts, GpuState};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use super::Moment;

/// What holds a clock down, and its name in records. Idling and clocks that somebody set are left
/// out: the machine is as its owner wants it.
const THROTTLES: [(ThrottleReasons, &str); 6] = [
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake"),
];

/// The GPUs that NVML sees, in its order.
pub fn gpus() -> Vec<GpuFacts> {
    let Some(nvml) = nvml() else {
        return Vec::new();
    };
    let driver = nvml.sys_driver_version().unwrap_or_default();
    each(&nvml, |index| gpu(&nvml, index, &driver))
}

/// How each stands now; `ours` are the processes of this agent's tree. No part of it was run on a
/// machine with a GPU.
pub fn gpus_now(ours: &BTreeSet<i32>, moment: Moment) -> Vec<GpuState> {
    let Some(nvml) = nvml() else {
        return Vec::new();
    };
    each(&nvml, |index| now(&nvml, index, ours, moment))
}

fn nvml() -> Option<Nvml> {
    Nvml::init()
        .inspect_err(|error| tracing::debug!("no NVML, so no GPU is known: {error}"))
        .ok()
}

fn each<T>(nvml: &Nvml, read: impl Fn(u32) -> Result<T, NvmlError>) -> Vec<T> {
    let mut all = Vec::new();
    for index in 0..nvml.device_count().unwrap_or_default() {
        match read(index) {
            Ok(one) => all.push(one),
            Err(error) => tracing::warn!("GPU {index} cannot be read: {error}"),
        }
    }
    all
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

fn now(
    nvml: &Nvml,
    index: u32,
    ours: &BTreeSet<i32>,
    moment: Moment,
) -> Result<GpuState, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let reasons = device.current_throttle_reasons();
    let pids = device.running_compute_processes().unwrap_or_default();
    let pids = pids.iter().map(|process| process.pid);
    Ok(GpuState {
        index,
        sm_clock_mhz: device.clock_info(Clock::SM).ok(),
        celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        throttled_by: reasons.map(throttled_by).unwrap_or_default(),
        foreign_processes: foreign(pids, ours, moment, name_of),
    })
}

fn throttled_by(reasons: ThrottleReasons) -> Vec<String> {
    let held = THROTTLES
        .iter()
        .filter(|(reason, _)| reasons.contains(*reason));
    held.map(|(_, name)| (*name).to_owned()).collect()
}

/// The processes that compute on a GPU and are not ours; a desktop's windows do not compute. In a
/// container NVML may give pids of the host, which are not in our `/proc`: then nobody can tell the
/// engine from a stranger once it is up, and such a pid counts only before.
fn foreign(
    pids: impl Iterator<Item = u32>,
    ours: &BTreeSet<i32>,
    moment: Moment,
    name_of: impl Fn(u32) -> Option<String>,
) -> Vec<String> {
    let pids: BTreeSet<u32> = pids.collect();
    let stranger = |pid: &u32| i32::try_from(*pid).is_ok_and(|pid| !ours.contains(&pid));
    let told = |pid: u32| match (name_of(pid), moment) {
        (Some(name), _) => Some(format!("{name} (pid {pid})")),
        (None, Moment::BeforeEngine) => Some(format!("a process out of sight (pid {pid})")),
        (None, Moment::WithEngine) => None,
    };
    pids.into_iter().filter(stranger).filter_map(told).collect()
}

/// What the kernel calls a process; none where it is not in sight.
fn name_of(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_named_and_what_is_hidden_counts_before_only() {
        let ours = BTreeSet::from([10, 11]);
        let names = |pid| (pid == 30).then(|| "train.py".to_owned());
        let told = |moment| foreign([30, 11, 40, 30].into_iter(), &ours, moment, names);
        assert_eq!(
            told(Moment::BeforeEngine),
            ["train.py (pid 30)", "a process out of sight (pid 40)"]
        );
        assert_eq!(told(Moment::WithEngine), ["train.py (pid 30)"]);
    }

    #[test]
    fn idling_is_no_throttle() {
        assert!(throttled_by(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(throttled_by(ThrottleReasons::NONE).is_empty());
        let hot = ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(throttled_by(hot), ["hw_slowdown", "hw_thermal_slowdown"]);
    }
}
