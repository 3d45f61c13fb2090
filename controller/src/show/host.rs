//! The machine before and after a run, in words.

use contracts::host::{GpuState, HostState};
use contracts::run::Validity;

use crate::show::words;

/// A row for each look at the machine and for each of its GPUs; none where nobody looked.
pub fn rows(validity: &Validity) -> Vec<(String, String)> {
    let looks = [
        ("before", &validity.host_before),
        ("after", &validity.host_after),
    ];
    let mut rows = Vec::new();
    for (when, state) in looks {
        let Some(state) = state else { continue };
        rows.push((format!("machine {when}"), host(state)));
        for state in &state.gpus {
            rows.push((format!("GPU {} {when}", state.index), gpu(state)));
        }
    }
    rows
}

/// `load 0.42, 11.8 GiB available, CPU at 2400 MHz, 61 °C`.
fn host(state: &HostState) -> String {
    let mut parts = vec![
        format!("load {:.2}", state.load_1m),
        format!("{} available", words::bytes(state.memory_available_bytes)),
    ];
    parts.extend(state.cpu_mhz.map(|mhz| format!("CPU at {mhz:.0} MHz")));
    parts.extend(state.cpu_celsius.map(|celsius| format!("{celsius:.0} °C")));
    parts.join(", ")
}

/// `1980 MHz, 64 °C, held down by sw_power_cap, others on it: train.py (pid 30)`.
fn gpu(state: &GpuState) -> String {
    let mut parts = Vec::new();
    parts.extend(state.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")));
    parts.extend(state.celsius.map(|celsius| format!("{celsius} °C")));
    if !state.throttled_by.is_empty() {
        parts.push(format!("held down by {}", state.throttled_by.join(" and ")));
    }
    if !state.foreign_processes.is_empty() {
        let others = state.foreign_processes.join(", ");
        parts.push(format!("others on it: {others}"));
    }
    if parts.is_empty() {
        return "nothing is known of it".to_owned();
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_and_each_gpu_has_a_row() {
        let mut validity = Validity::default();
        assert!(rows(&validity).is_empty());
        validity.host_before = Some(HostState {
            load_1m: 0.421,
            memory_available_bytes: 12 << 30,
            ..HostState::default()
        });
        validity.host_after = Some(HostState {
            load_1m: 1.5,
            memory_available_bytes: 11 << 30,
            cpu_mhz: Some(2399.6),
            cpu_celsius: Some(61.2),
            gpus: vec![
                GpuState {
                    sm_clock_mhz: Some(1980),
                    celsius: Some(64),
                    throttled_by: vec!["hw_slowdown".to_owned(), "hw_power_brake".to_owned()],
                    foreign_processes: vec!["train.py (pid 30)".to_owned()],
                    ..GpuState::default()
                },
                GpuState {
                    index: 1,
                    ..GpuState::default()
                },
            ],
            ..HostState::default()
        });
        let text: Vec<String> = rows(&validity)
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        insta::assert_snapshot!(text.join("\n"), @r"
        machine before: load 0.42, 12.0 GiB available
        machine after: load 1.50, 11.0 GiB available, CPU at 2400 MHz, 61 °C
        GPU 0 after: 1980 MHz, 64 °C, held down by hw_slowdown and hw_power_brake, others on it: train.py (pid 30)
        GPU 1 after: nothing is known of it
        ");
    }
}
