//! Wire words of the enums that people read, and loads in few words. Pure.

use contracts::run::{Device, Dtype, Load, Mode, RunState, Stage};

/// `offline`, `online`.
pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Offline => "offline",
        Mode::Online => "online",
    }
}

/// As on the wire.
pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Preflight => "preflight",
        Stage::Spawn => "spawn",
        Stage::Load => "load",
        Stage::Warmup => "warmup",
        Stage::Measure => "measure",
        Stage::Stop => "stop",
    }
}

/// As on the wire.
pub fn state(state: RunState) -> &'static str {
    match state {
        RunState::Queued => "queued",
        RunState::Starting => "starting",
        RunState::Warming => "warming",
        RunState::Measuring => "measuring",
        RunState::Stopping => "stopping",
        RunState::Done => "done",
        RunState::Failed => "failed",
        RunState::Cancelled => "cancelled",
    }
}

/// As on the command line.
pub fn dtype(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "f32",
        Dtype::F16 => "f16",
        Dtype::Bf16 => "bf16",
    }
}

/// As on the command line.
pub fn device(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda { index } => format!("cuda:{index}"),
        Device::Metal { index } => format!("metal:{index}"),
    }
}

/// A load as short as it can be said: `8 at a time`, `2.5/s`.
pub fn load(load: &Load) -> String {
    match load {
        Load::Closed { concurrency } => format!("{concurrency} at a time"),
        Load::Open { rate_per_s, .. } => format!("{rate_per_s}/s"),
        Load::Burst { .. } => "all at once".to_owned(),
        Load::Trace { .. } => "as traced".to_owned(),
    }
}
