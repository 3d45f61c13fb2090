//! Attention against a plain loop in double precision, and against itself in other company.

use proptest::prelude::*;

use super::*;
use crate::{cases::cases, isa::Isa, kv::KvShape};

/// A step of some sequences, with the keys and values of their earlier tokens.
#[derive(Debug, Clone)]
struct Case {
    shape: KvShape,
    group: usize,
    /// Positions before the step, tokens in it.
    spans: Vec<(usize, usize)>,
    seed: u64,
}

/// Numbers in [-2, 2) that depend on the seed alone.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 22) as f32 - 2.0
    };
    (0..len).map(next).collect()
}

impl Case {
    fn heads(&self) -> usize {
        self.group * self.shape.kv_heads
    }

    fn width(&self) -> usize {
        (self.heads() + 2 * self.shape.kv_heads) * self.shape.head_dim
    }

    /// Rows of all positions of a sequence, in `layer`.
    fn rows(&self, span: usize, layer: usize) -> Vec<f32> {
        let (start, len) = self.spans[span];
        let seed = self.seed + 1000 * span as u64 + layer as u64;
        numbers(seed, (start + len) * self.width())
    }

    /// Memory that holds no number, and blocks for each sequence: scattered, with gaps.
    fn memory(&self) -> (KvBlocks, Vec<Vec<u32>>) {
        let needs: Vec<_> = self
            .spans
            .iter()
            .map(|(start, len)| (start + len).div_ceil(BLOCK))
            .collect();
        let blocks = 2 * needs.iter().sum::<usize>() + 3;
        let mut kv = KvBlocks::new(self.shape, blocks).unwrap();
        kv.data.fill(f32::NAN);
        // Multiples of a number that shares no factor with a prime are all different.
        let prime = (blocks..).find(|n| (2..*n).all(|d| n % d != 0)).unwrap();
        let factor = 1 + self.seed as usize % (prime - 1);
        let mut order = (0..prime)
            .map(|i| i * factor % prime)
            .filter(|block| *block < blocks);
        let taken = needs.iter().map(|need| {
            order
                .by_ref()
                .take(*need)
                .map(|block| block as u32)
                .collect()
        });
        (kv, taken.collect())
    }

    /// All sequences in one step, with what earlier ones have stored.
    fn run(&self, cpu: &Cpu) -> Vec<f32> {
        let (mut kv, blocks) = self.memory();
        let all = 0..self.spans.len();
        let mut outs = Vec::new();
        for layer in 0..self.shape.layers {
            let steps = [0, 1].map(|step| {
                let mut qkv = Vec::new();
                let spans = all.clone().map(|s| {
                    let (start, len) = self.spans[s];
                    let (from, to) = if step == 0 {
                        (0, start)
                    } else {
                        (start, start + len)
                    };
                    qkv.extend_from_slice(
                        &self.rows(s, layer)[from * self.width()..to * self.width()],
                    );
                    Span {
                        blocks: &blocks[s],
                        start: from,
                        len: to - from,
                    }
                });
                (spans.collect::<Vec<_>>(), qkv)
            });
            for (step, (spans, qkv)) in steps.iter().enumerate() {
                if step == 0 {
                    store(&mut kv, layer, spans, qkv, self.heads());
                    continue;
                }
                let mut out =
                    vec![f32::NAN; qkv.len() / self.width() * self.heads() * self.shape.head_dim];
                attend(cpu, &mut kv, layer, spans, qkv, self.heads(), &mut out);
                outs.extend(out);
            }
        }
        outs
    }

    /// One sequence alone, the step's tokens one by one.
    fn run_alone(&self, cpu: &Cpu, span: usize) -> Vec<f32> {
        let (mut kv, blocks) = self.memory();
        let (start, len) = self.spans[span];
        let size = self.heads() * self.shape.head_dim;
        let mut outs = Vec::new();
        for layer in 0..self.shape.layers {
            let rows = self.rows(span, layer);
            let (earlier, rows) = rows.split_at(start * self.width());
            let part = |start, len| Span {
                blocks: &blocks[span],
                start,
                len,
            };
            store(&mut kv, layer, &[part(0, start)], earlier, self.heads());
            for (position, row) in (start..).zip(rows.chunks_exact(self.width())) {
                let mut out = vec![0.0; size];
                let spans = [part(position, 1)];
                attend(cpu, &mut kv, layer, &spans, row, self.heads(), &mut out);
                outs.extend(out);
            }
        }
        assert_eq!(outs.len(), self.shape.layers * len * size);
        outs
    }

    /// What it should be, by the textbook.
    fn truth(&self) -> Vec<f64> {
        let (hd, heads) = (self.shape.head_dim, self.heads());
        let mut outs = Vec::new();
        for layer in 0..self.shape.layers {
            for (span, &(start, len)) in self.spans.iter().enumerate() {
                let rows = self.rows(span, layer);
                let at = |position: usize, head: usize| {
                    rows[position * self.width() + head * hd..][..hd]
                        .iter()
                        .map(|x| f64::from(*x))
                };
                for (position, head) in
                    (start..start + len).flat_map(|p| (0..heads).map(move |h| (p, h)))
                {
                    let (k, v) = (
                        heads + head / self.group,
                        heads + self.shape.kv_heads + head / self.group,
                    );
                    let scores: Vec<f64> = (0..=position)
                        .map(|p| {
                            at(position, head)
                                .zip(at(p, k))
                                .map(|(a, b)| a * b)
                                .sum::<f64>()
                                / (hd as f64).sqrt()
                        })
                        .collect();
                    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                    let mut out = vec![0.0; hd];
                    for (p, score) in scores.iter().enumerate() {
                        for (out, v) in out.iter_mut().zip(at(p, v)) {
                            *out += (score - max).exp() / total * v;
                        }
                    }
                    outs.extend(out);
                }
            }
        }
        outs
    }
}

fn cpu(isa: Isa, threads: usize) -> Cpu {
    Cpu::with_isa(isa, threads).unwrap()
}

fn case() -> impl Strategy<Value = Case> {
    // An interpreter takes a second for what takes a processor a millisecond.
    let (longest, most, halves, spans, widest) = if cfg!(miri) {
        (12_usize, 4_usize, 2, 2, 14)
    } else {
        (300, 40, 65, 4, 32)
    };
    let groups = prop_oneof![4 => 1_usize..=9, 1 => 10_usize..=widest];
    let shape = (1_usize..=2, 1_usize..=3, 1_usize..=halves);
    let spans = prop::collection::vec((0..longest, 0..most), 1..=spans);
    (shape, groups, spans, any::<u32>()).prop_map(
        |((layers, kv_heads, half), group, spans, seed)| Case {
            shape: KvShape {
                layers,
                kv_heads: if group > 9 { 1 } else { kv_heads },
                head_dim: 2 * half,
            },
            group,
            spans,
            seed: u64::from(seed),
        },
    )
}

proptest! {
    #![proptest_config(cases(16, 1))]

    /// Memory starts as NaN: a position that the sequence has not written must not be felt.
    #[test]
    fn agrees_with_a_plain_loop(case in case(), threads in 1_usize..=4) {
        let truth = case.truth();
        for isa in Isa::available() {
            let out = case.run(&cpu(isa, threads));
            prop_assert_eq!(out.len(), truth.len());
            for (i, (out, truth)) in out.iter().zip(&truth).enumerate() {
                prop_assert!((f64::from(*out) - truth).abs() < 2e-5, "{isa} at {i}: {out}, not {truth}");
            }
        }
    }

    /// In one step beside others, on any number of threads, or alone and token by token: the same bits.
    #[test]
    fn company_threads_and_steps_change_no_bit(mut case in case(), threads in 2_usize..=4) {
        case.shape.layers = 1;
        for isa in Isa::available() {
            let together = case.run(&cpu(isa, 1));
            prop_assert_eq!(&case.run(&cpu(isa, threads)), &together);
            let one = cpu(isa, threads);
            let alone: Vec<_> = (0..case.spans.len()).flat_map(|span| case.run_alone(&one, span)).collect();
            prop_assert_eq!(alone, together);
        }
    }
}

/// A context that several threads share, of one token, at edges of blocks and chunks.
#[test]
fn long_contexts_are_split_and_merged() {
    let lengths: &[usize] = if cfg!(miri) {
        &[130, 256]
    } else {
        &[31, 32, 127, 128, 129, 1000, 2049]
    };
    for &start in lengths {
        let groups = [(1, 1), (3, 3), (1, 32)];
        for (kv_heads, group) in groups.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
            let shape = KvShape {
                layers: 1,
                kv_heads,
                head_dim: if cfg!(miri) { 2 } else { 64 },
            };
            let case = Case {
                shape,
                group,
                spans: vec![(start, 1)],
                seed: start as u64,
            };
            let truth = case.truth();
            for isa in Isa::available() {
                let out = case.run(&cpu(isa, 1));
                assert_eq!(case.run(&cpu(isa, 3)), out);
                for (out, truth) in out.iter().zip(&truth) {
                    assert!((f64::from(*out) - truth).abs() < 2e-5);
                }
            }
        }
    }
}

/// Scores far apart: the largest are in different chunks, and weights of others are exactly zero.
#[test]
fn scores_of_hundreds_overflow_nothing() {
    let shape = KvShape {
        layers: 1,
        kv_heads: 1,
        head_dim: 2,
    };
    let blocks: Vec<u32> = (0..5).collect();
    for isa in Isa::available() {
        let mut kv = KvBlocks::new(shape, 5).unwrap();
        let qkv: Vec<f32> = (0..140)
            .flat_map(|p| {
                let key = if p == 130 { 500.0 } else { -500.0 };
                [1.0, 0.0, key, 0.0, p as f32, 1.0]
            })
            .collect();
        let part = |start, len| Span {
            blocks: &blocks,
            start,
            len,
        };
        store(&mut kv, 0, &[part(0, 140)], &qkv, 1);
        for (position, value) in [(100, 50.0), (130, 130.0), (139, 130.0)] {
            let mut out = [f32::NAN; 2];
            let qkv = &qkv[6 * position..][..6];
            let spans = [part(position, 1)];
            attend(&cpu(isa, 2), &mut kv, 0, &spans, qkv, 1, &mut out);
            assert_eq!(out, [value, 1.0]);
        }
    }
}
