//! Times attention at the sizes of SmolLM2-135M: a prompt of 512 tokens, and a token after them.
//!
//! usage: `cargo run -p kernels --example attention_speed [THREADS]` (default 2). Prints the sum
//! over 30 layers, of each the best of some repetitions: short times, that neighbours leave alone.

#![expect(clippy::print_stdout, reason = "what it measures goes to stdout")]

use std::{hint::black_box, time::Instant};

use kernels::{
    Cpu,
    attention::{Span, attend},
    kv::{KvBlocks, KvShape},
    rows::{Turn, rms_norm, rotate, silu_mul},
};

const SHAPE: KvShape = KvShape {
    layers: 30,
    kv_heads: 3,
    head_dim: 64,
};
const HEADS: usize = 9;
const HIDDEN: usize = 576;
const INNER: usize = 1536;
const CONTEXT: usize = 512;

fn main() -> std::io::Result<()> {
    let threads = std::env::args()
        .nth(1)
        .and_then(|threads| threads.parse().ok());
    let cpu = Cpu::new(threads.unwrap_or(2))?;
    println!("{}, {} threads", cpu.isa, cpu.pool.threads());
    let mut kv = KvBlocks::new(SHAPE, CONTEXT / 32 + 1)?;
    let blocks: Vec<u32> = (0..17).collect();
    let width = (HEADS + 2 * SHAPE.kv_heads) * SHAPE.head_dim;
    let qkv: Vec<f32> = (0..CONTEXT * width).map(|i| (i as f32).sin()).collect();
    let mut out = vec![0.0; CONTEXT * HEADS * SHAPE.head_dim];

    let mut layer_ms = |start: usize, len: usize, layer: usize| {
        let spans = [Span {
            blocks: &blocks,
            start,
            len,
        }];
        let (qkv, out) = (&qkv[..len * width], &mut out[..len * HIDDEN]);
        let begin = Instant::now();
        attend(&cpu, &mut kv, layer, &spans, qkv, HEADS, out);
        black_box(out);
        begin.elapsed().as_secs_f64() * 1e3
    };
    for (what, start, len, times) in [
        ("prompt of 512", 0, CONTEXT, 20),
        ("token at 512", CONTEXT, 1, 200),
        ("token at 32", 32, 1, 200),
    ] {
        // Layer after layer, as in a model: a layer's keys are not in the cache from its last turn.
        let mut best = [f64::INFINITY; SHAPE.layers];
        for _ in 0..times {
            for (layer, best) in best.iter_mut().enumerate() {
                *best = best.min(layer_ms(start, len, layer));
            }
        }
        print(&format!("attention, {what}"), best.iter().sum());
    }

    for tokens in [1, CONTEXT] {
        let turn = Turn {
            cos: &[0.6; 32],
            sin: &[0.8; 32],
        };
        let turns = vec![turn; tokens];
        let mut rows = qkv[..tokens * width].to_vec();
        let ms = best_ms(20, || {
            rotate(&cpu, &mut rows, HEADS, SHAPE.kv_heads, None, &turns)
        });
        print(&format!("rotate, {tokens} rows"), ms);
        let x = vec![1.5; tokens * HIDDEN];
        let mut out = vec![0.0; x.len()];
        let ms = best_ms(20, || rms_norm(&cpu, &x, &x[..HIDDEN], 1e-5, &mut out));
        print(&format!("rms_norm, {tokens} rows"), ms);
        let x = vec![-1.5; tokens * 2 * INNER];
        let mut out = vec![0.0; tokens * INNER];
        let ms = best_ms(20, || silu_mul(&cpu, &x, INNER, &mut out));
        print(&format!("silu_mul, {tokens} rows"), ms);
    }
    Ok(())
}

fn print(what: &str, ms: f64) {
    println!("{what}: {ms:.4} ms");
}

fn best_ms(times: usize, mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..times).map(time).fold(f64::INFINITY, f64::min)
}
