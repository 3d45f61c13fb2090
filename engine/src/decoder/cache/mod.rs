//! Keys and values: a file for each way to keep them.

mod causal;
pub mod growing;
pub mod in_place;
mod runs;
