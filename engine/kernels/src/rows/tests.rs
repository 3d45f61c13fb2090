//! Operations on rows against plain loops in double precision, and against themselves in other company.

use proptest::prelude::*;

use super::*;
use crate::{cases::cases, isa::Isa};

/// One thread, and several.
fn cpus() -> Vec<Cpu> {
    let isas = Isa::available()
        .into_iter()
        .flat_map(|isa| [(isa, 1), (isa, 3)]);
    isas.map(|(isa, threads)| Cpu::with_isa(isa, threads).unwrap())
        .collect()
}

/// Numbers between -`size` and `size` that depend on `seed` alone.
fn numbers(seed: usize, len: usize, size: f32) -> Vec<f32> {
    let number = |i: usize| {
        let mixed = ((seed + i + 1) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as f32 / (1_u64 << 23) as f32 * size - size
    };
    (0..len).map(number).collect()
}

/// Equal to 1e-6, of the value or, where large numbers cancel each other, of `size`.
fn near(values: &[f32], truth: impl IntoIterator<Item = f64>, size: f64) {
    let mut truth = truth.into_iter();
    for (i, value) in values.iter().enumerate() {
        let truth = truth.next().unwrap();
        let error = (f64::from(*value) - truth).abs();
        assert!(
            error <= 1e-6 * truth.abs().max(size),
            "at {i}: {value}, not {truth}"
        );
    }
    assert!(truth.next().is_none());
}

fn norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f64> {
    let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + f64::from(eps)).sqrt();
    x.iter()
        .zip(weight)
        .map(|(x, w)| f64::from(*x) * scale * f64::from(*w))
        .collect()
}

/// Values of a row at most: several vectors and a rest.
const WIDEST: usize = if cfg!(miri) { 40 } else { 130 };

/// Rows that are too few for several threads, none, or many.
fn rows() -> impl Strategy<Value = usize> {
    prop_oneof![0_usize..=3, Just(if cfg!(miri) { 5 } else { 700 })]
}

proptest! {
    #![proptest_config(cases(64, 2))]

    #[test]
    fn norms_rows(m in rows(), n in 1..=WIDEST, seed in 0_usize..1000) {
        let (x, weight) = (numbers(seed, m * n, 3.0), numbers(seed + 7, n, 2.0));
        for cpu in cpus() {
            let mut out = vec![f32::NAN; m * n];
            rms_norm(&cpu, &x, &weight, 1e-5, &mut out);
            near(&out, x.chunks(n).flat_map(|x| norm(x, &weight, 1e-5)), 0.0);
            for (x, row) in x.chunks(n).zip(out.chunks(n)) {
                let mut alone = vec![0.0; n];
                rms_norm(&cpu, x, &weight, 1e-5, &mut alone);
                prop_assert_eq!(&alone, row);
            }
        }
    }

    #[test]
    fn gates_rows(m in rows(), n in 1..=WIDEST, seed in 0_usize..1000, size in 0.1_f32..120.0) {
        let gate_up = numbers(seed, 2 * m * n, size);
        for cpu in cpus() {
            let mut out = vec![f32::NAN; m * n];
            silu_mul(&cpu, &gate_up, n, &mut out);
            near(&out, gate_up.chunks(2 * n).flat_map(|row| {
                let pairs = row[..n].iter().zip(&row[n..]).map(|(g, u)| (f64::from(*g), f64::from(*u)));
                pairs.map(|(g, u)| g / (1.0 + (-g).exp()) * u)
            }), 1e-20);
        }
    }

    #[test]
    fn turns_query_and_key_heads(
        m in rows(), heads in 1_usize..=4, kv_heads in 1_usize..=2, half in 1..=WIDEST / 3,
        seed in 0_usize..1000, with_norms: bool,
    ) {
        let (hd, width) = (2 * half, (heads + 2 * kv_heads) * 2 * half);
        let angles: Vec<_> = numbers(seed, m * half, 3.0);
        let (cos, sin): (Vec<_>, Vec<_>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
        let turns: Vec<_> = cos.chunks(half).zip(sin.chunks(half)).map(|(cos, sin)| Turn { cos, sin }).collect();
        let (q, k) = (numbers(seed + 3, hd, 2.0), numbers(seed + 5, hd, 2.0));
        let norms = with_norms.then_some(HeadNorms { q: &q, k: &k, eps: 1e-6 });
        let before = numbers(seed + 11, m * width, 3.0);
        let mut truth = Vec::new();
        for (row, turn) in before.chunks(width).zip(&turns) {
            for (head, x) in row.chunks(hd).enumerate() {
                let weight = if head < heads { &q } else { &k };
                let x = match with_norms && head < heads + kv_heads {
                    true => norm(x, weight, 1e-6),
                    false => x.iter().map(|x| f64::from(*x)).collect(),
                };
                let turned = |i: usize| {
                    let (c, s) = (f64::from(turn.cos[i % half]), f64::from(turn.sin[i % half]));
                    if i < half { x[i] * c - x[i + half] * s } else { x[i] * c + x[i - half] * s }
                };
                match head < heads + kv_heads {
                    true => truth.extend((0..hd).map(turned)),
                    false => truth.extend(x.iter().copied()),
                }
            }
        }
        for cpu in cpus() {
            let mut qkv = before.clone();
            rotate(&cpu, &mut qkv, heads, kv_heads, norms, &turns);
            near(&qkv, truth.iter().copied(), 3.0);
        }
    }
}

/// A gate far from zero overflows nothing: it is open or shut.
#[test]
fn gates_are_open_or_shut_at_the_ends() {
    for cpu in cpus() {
        let mut out = [f32::NAN; 4];
        silu_mul(
            &cpu,
            &[1e4, -1e4, 0.0, f32::NAN, 2.0, 2.0, 2.0, 2.0],
            4,
            &mut out,
        );
        assert_eq!(out[..3], [2e4, 0.0, 0.0]);
        assert!(out[3].is_nan());
    }
}
