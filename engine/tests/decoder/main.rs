//! Our own forward pass: by our kernels and by candle's operations on the CPU, over both caches.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod logits;
mod memory;
mod spans;
#[path = "../support/mod.rs"]
mod support;

use std::{path::Path, sync::Arc};

use candle_core::Device;
use contracts::run::Dtype;
use engine::{
    decoder::{
        Backend, Decoder, KvCache, Slot, Span, Wanted,
        cache::{growing::Growing, in_place::InPlace},
        load_on,
    },
    model::ModelRequest,
};
use kernels::Cpu;

/// Room for any of the vectors' sequences.
const POSITIONS: usize = 256;

fn kernels(threads: usize) -> Backend {
    Backend::Kernels(Arc::new(Cpu::new(threads).unwrap()))
}

/// What a device without kernels of ours runs.
fn candle() -> Backend {
    Backend::Candle(Device::Cpu)
}

fn decoder(dir: &Path, dtype: Dtype, backend: Backend) -> Decoder {
    let request = ModelRequest {
        dtype: Some(dtype),
        ..support::request(dir)
    };
    load_on(&request, backend).unwrap().decoder
}

/// Each kind of cache with one sequence in it.
fn caches(decoder: &Decoder) -> [(&'static str, Box<dyn KvCache>, Slot); 2] {
    let mut in_place = InPlace::new(decoder, POSITIONS).unwrap();
    let slot = in_place.reserve(POSITIONS).unwrap();
    [
        ("growing", Box::new(Growing::new(decoder)), 0),
        ("in place", Box::new(in_place), slot),
    ]
}

fn span(slot: Slot, ids: &[u32], start: usize, wanted: Wanted) -> Span<'_> {
    Span {
        slot,
        ids,
        start,
        wanted,
    }
}

/// Logits after the last of `ids`.
fn last(
    decoder: &mut Decoder,
    cache: &mut dyn KvCache,
    slot: Slot,
    ids: &[u32],
    start: usize,
) -> Vec<f32> {
    let span = span(slot, ids, start, Wanted::Last);
    decoder.forward(cache, &[span]).unwrap()
}
