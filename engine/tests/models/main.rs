//! Models from every source: what loads right, and what is refused by name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gguf;
mod gguf_file;
mod gguf_rope;
mod hub;
mod loading;
mod refusals;
mod refused_configs;
mod rope;
#[path = "../support/mod.rs"]
mod support;
