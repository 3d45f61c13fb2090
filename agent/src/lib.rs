//! agent

pub mod process;
