//! What the agent knows about its machine: stable facts with a fingerprint, facts that change, and
//! who uses the CPU. Whether a machine is quiet enough to measure on is the run's decision.

mod cpu;
mod facts;
mod gpu;
mod sensors;
mod tree;

pub(crate) use cpu::cpu_time;
pub use cpu::{CpuMeter, CpuUse};
pub use facts::{Moment, facts, state, whole_state};
