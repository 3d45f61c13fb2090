//! agent

pub mod host;
pub mod load;
