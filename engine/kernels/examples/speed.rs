//! How fast products are on this machine: GB/s of weights for one row, GFLOP/s for several.
//!
//! `cargo run --example speed -p kernels -- [THREADS] [ROWS,ROWS…] [DTYPE ISA SHAPE…]`. The best of
//! half a second each, on at least 500 MB of weights in the shapes of SmolLM2-135M, so that none stays
//! in a cache. Of what is named at the end (`F32`, `avx2`, `960x576` …) all must fit a line's name.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{
    hint::{black_box, spin_loop},
    time::{Duration, Instant},
};

use kernels::{
    Cpu,
    arena::{Arena, Slab},
    element::Dtype,
    isa::Isa,
    matmul::matmul,
    matrix::Matrix,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Outputs and inputs: qkv, gate and up, down, head.
const SHAPES: [(usize, usize); 4] = [(960, 576), (3072, 576), (576, 1536), (49152, 576)];
/// Weights of a shape, at least.
const BYTES: usize = 500 << 20;
/// Weights that are read between two looks at the clock, for one row.
const WINDOW_BYTES: usize = 32 << 20;
/// How long one figure is measured.
const TIME: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let threads = args.next().map_or(Ok(2), |it| it.parse())?;
    let rows = args.next().unwrap_or("1,8,12,32,512".to_owned());
    let rows = rows
        .split(',')
        .map(str::parse)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let names: Vec<_> = args.collect();
    read(threads)?;
    hand_out(threads)?;
    fill()?;
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
        for (n, k) in SHAPES {
            let matrices = matrices(dtype, n, k)?;
            for isa in Isa::available() {
                let name = format!("{dtype:?} {n}x{k} {isa}");
                if !names.iter().all(|part| name.contains(part)) {
                    continue;
                }
                let cpu = Cpu::with_isa(isa, threads)?;
                print!("{name}:");
                for m in &rows {
                    measure(&cpu, *m, dtype, &matrices);
                }
                println!();
            }
        }
    }
    Ok(())
}

/// As many matrices of one shape as [`BYTES`] holds.
fn matrices(dtype: Dtype, n: usize, k: usize) -> Result<Vec<Matrix>> {
    let each = Matrix::bytes(dtype, n, k);
    let count = BYTES.div_ceil(each);
    let mut arena = Arena::new(count * each)?;
    let row: Vec<f32> = (0..k).map(|i| (i as f32 * 0.7).sin()).collect();
    let mut matrices = Vec::new();
    for _ in 0..count {
        let mut matrix = Matrix::zeros(&mut arena, dtype, n, k).ok_or("the arena is full")?;
        for r in 0..n {
            matrix.fill(r, &row);
        }
        matrices.push(matrix);
    }
    Ok(matrices)
}

/// Prints the best rate of `m` rows through some matrices; the next ones each time, as a cache would
/// keep them.
fn measure(cpu: &Cpu, m: usize, dtype: Dtype, matrices: &[Matrix]) {
    let Some(first) = matrices.first() else {
        return;
    };
    let (n, k) = (first.rows(), first.columns());
    let x: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.3).cos()).collect();
    let mut out = vec![0.0; m * n];
    let bytes = Matrix::bytes(dtype, n, k);
    let mut best = 0.0_f64;
    let begin = Instant::now();
    for some in matrices.chunks((WINDOW_BYTES / bytes / m).max(1)).cycle() {
        let start = Instant::now();
        for matrix in some {
            matmul(cpu, black_box(&x), m, matrix, &mut out, false);
        }
        best = best.max(some.len() as f64 / start.elapsed().as_secs_f64());
        if begin.elapsed() > TIME {
            break;
        }
    }
    let bytes = bytes as f64 * best / 1e9;
    let flops = (2 * m * n * k) as f64 * best / 1e9;
    print!("  m={m} {bytes:.1} GB/s {flops:.0} GFLOP/s");
}

/// What it costs to share out a job and to wait for its end: jobs of a task a thread, of some
/// microseconds each, one after the other.
fn hand_out(threads: usize) -> Result<()> {
    let cpu = Cpu::new(threads)?;
    let (jobs, task) = (20, Duration::from_micros(5));
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let start = Instant::now();
        for _ in 0..jobs {
            cpu.pool.run(threads, &|_| {
                let start = Instant::now();
                while start.elapsed() < task {
                    spin_loop();
                }
            });
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(jobs));
    }
    let extra = best - task.as_secs_f64();
    println!(
        "sharing out a job, {threads} threads: {:.2} µs",
        extra * 1e6
    );
    Ok(())
}

/// How fast weights are put into panels.
fn fill() -> Result<()> {
    let (n, k) = (3072, 576);
    let rows: Vec<f32> = (0..n * k).map(|i| (i as f32).sin()).collect();
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
        let mut arena = Arena::new(Matrix::bytes(dtype, n, k))?;
        let mut matrix = Matrix::zeros(&mut arena, dtype, n, k).ok_or("the arena is full")?;
        let mut best = f64::INFINITY;
        for _ in 0..9 {
            let start = Instant::now();
            matrix.fill(0, black_box(&rows));
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "filled from f32, {dtype:?}: {:.0} million weights/s",
            (n * k) as f64 / best / 1e6
        );
    }
    Ok(())
}

/// What the memory gives: all threads add up what they read.
fn read(threads: usize) -> Result<()> {
    let cpu = Cpu::new(threads)?;
    let mut data: Slab<f32> = Arena::new(BYTES)?
        .take(BYTES / 4)
        .ok_or("the arena is full")?;
    data.fill(1.0);
    let chunk = 1 << 16;
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = Instant::now();
        cpu.pool.run(data.len() / chunk, &|task| {
            let mut sums = [0.0_f32; 64];
            for values in data[task * chunk..(task + 1) * chunk].chunks_exact(64) {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += value;
                }
            }
            black_box(sums);
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "plain reading, {threads} threads: {:.1} GB/s",
        BYTES as f64 / best / 1e9
    );
    Ok(())
}
