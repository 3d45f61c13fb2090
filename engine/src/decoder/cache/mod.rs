//! Keys and values: a file for each way to keep them.

pub mod in_place;
