//! Plans runs, dispatches them to agents, stores every raw number and compares.

pub mod compare;
pub mod export;
pub mod record;
pub mod selector;
pub mod show;
pub mod stats;

#[cfg(test)]
mod fixtures;
