//! The tile of each instruction set against a plain loop, and against each other.

use half::{bf16, f16};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{cases::cases, element::convert};

/// Sizes and strides of one tile.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: usize,
    depth: usize,
    /// The left factor as `[k][rows]` (a packed block) or as `[rows][k]`.
    packed: bool,
    /// Elements between the panel's rows, and between the sums', that are not touched.
    gaps: (usize, usize),
    add: bool,
}

/// One tile's factors and what the sums hold before.
struct Case<B> {
    a: Vec<f32>,
    b: Vec<B>,
    c: Vec<f32>,
}

impl Shape {
    fn left<'a>(&self, data: &'a [f32]) -> Left<'a> {
        let (row, step) = if self.packed {
            (1, self.rows)
        } else {
            (self.depth, 1)
        };
        Left { data, row, step }
    }

    fn case<B: Element>(&self, numbers: &[f32]) -> Case<B> {
        let mut numbers = numbers.iter().copied().cycle();
        let mut next = |len: usize| numbers.by_ref().take(len).collect::<Vec<_>>();
        let (b_row, c_row) = (LANES + self.gaps.0, LANES + self.gaps.1);
        let b = next((self.depth * b_row).saturating_sub(self.gaps.0));
        Case {
            a: next(self.rows * self.depth),
            b: b.into_iter().map(B::from_f32).collect(),
            c: next((self.rows * c_row).saturating_sub(self.gaps.1)),
        }
    }

    /// The sums by one instruction set. The slices end with the last element in use.
    fn sums<B: Element>(&self, isa: Isa, case: &Case<B>) -> Vec<f32> {
        let mut c = case.c.clone();
        let (b_row, c_row) = (LANES + self.gaps.0, LANES + self.gaps.1);
        let left = self.left(&case.a);
        let right = Right {
            data: &case.b,
            row: b_row,
            next: None,
        };
        tile(
            isa, self.rows, self.depth, left, right, &mut c, c_row, self.add,
        );
        c
    }

    /// The sums in f64, and what rounding may change of each.
    fn plain<B: Element>(&self, case: &Case<B>) -> (Vec<f64>, Vec<f64>) {
        let mut sums: Vec<_> = case.c.iter().map(|c| f64::from(*c)).collect();
        let mut sizes = vec![0.0_f64; sums.len()];
        let left = self.left(&case.a);
        for r in 0..self.rows {
            for j in 0..LANES {
                let spot = r * (LANES + self.gaps.1) + j;
                sums[spot] = if self.add { sums[spot] } else { 0.0 };
                sizes[spot] = sums[spot].abs();
                for k in 0..self.depth {
                    let a = f64::from(left.data[r * left.row + k * left.step]);
                    let b = f64::from(case.b[k * (LANES + self.gaps.0) + j].to_f32());
                    sums[spot] += a * b;
                    sizes[spot] += (a * b).abs();
                }
            }
        }
        (sums, sizes)
    }

    fn check<B: Element>(&self, numbers: &[f32]) -> Result<(), TestCaseError> {
        let case = self.case::<B>(numbers);
        let (plain, sizes) = self.plain(&case);
        let all: Vec<_> = Isa::available()
            .into_iter()
            .map(|isa| (isa, self.sums(isa, &case)))
            .collect();
        for (isa, sums) in &all {
            for ((sum, plain), size) in sums.iter().zip(&plain).zip(&sizes) {
                // Two roundings a step, each of half an ulp of a partial sum.
                let bound = size * f64::from(f32::EPSILON) * (self.depth + 1) as f64;
                prop_assert!(
                    (f64::from(*sum) - plain).abs() <= bound,
                    "{isa}: {sum} {plain}"
                );
            }
        }
        // What differs in sums only if a step is rounded once here and twice there.
        let vectors = all.iter().filter(|(isa, _)| *isa != Isa::PORTABLE);
        let mut bits = vectors.map(|(_, sums)| sums.iter().map(|sum| sum.to_bits()));
        if let Some(first) = bits.next() {
            for other in bits {
                prop_assert!(other.eq(first.clone()));
            }
        }
        Ok(())
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let gaps = (0..40_usize, 0..40_usize);
    (
        0..=ROWS_MAX,
        0..if cfg!(miri) { 8 } else { 70_usize },
        any::<bool>(),
        gaps,
        any::<bool>(),
    )
        .prop_map(|(rows, depth, packed, gaps, add)| Shape {
            rows,
            depth,
            packed,
            gaps,
            add,
        })
}

proptest! {
    #![proptest_config(cases(256, 2))]

    #[test]
    fn each_instruction_set_agrees_with_a_plain_loop(
        shape in shapes(),
        numbers in vec(-2.0_f32..2.0, if cfg!(miri) { 97 } else { 997 }),
    ) {
        shape.check::<f32>(&numbers)?;
        shape.check::<f16>(&numbers)?;
        shape.check::<bf16>(&numbers)?;
    }
}

/// All 65,536 halves, subnormal ones and infinities among them, become the floats that they are.
#[test]
fn every_half_is_read_exactly() {
    fn read<B: Element>(halves: impl Fn(u16) -> B) {
        // One of 64 for an interpreter: each exponent of a half has two of them.
        let step = if cfg!(miri) { 64 * LANES } else { LANES };
        for first in (0..=u16::MAX).step_by(step) {
            let b: Vec<_> = (first..=first + (LANES as u16 - 1)).map(&halves).collect();
            let one = Left {
                data: &[1.0],
                row: 1,
                step: 1,
            };
            for isa in Isa::available() {
                let mut c = [0.0; LANES];
                let right = Right {
                    data: &b,
                    row: LANES,
                    // Shorter than the panel: it is never read.
                    next: Some(&b[..1]),
                };
                tile(isa, 1, 1, one, right, &mut c, LANES, false);
                for (b, c) in b.iter().zip(c) {
                    let b: f32 = convert(*b);
                    assert!(b == c || b.is_nan() && c.is_nan(), "{isa}: {b} {c}");
                }
            }
        }
    }
    read(f16::from_bits);
    read(bf16::from_bits);
}

/// What the pointers behind it rely on.
#[test]
fn an_index_beyond_its_slice_is_refused() {
    let (a, b) = ([0.0; 24], [0.0_f32; 3 * LANES]);
    let tried = |rows, depth, row, step, b_row, c_len, c_row| {
        let left = Left {
            data: &a,
            row,
            step,
        };
        std::panic::catch_unwind(move || {
            let mut c = vec![0.0; c_len];
            tile(
                Isa::detect(),
                rows,
                depth,
                left,
                Right {
                    data: &b,
                    row: b_row,
                    next: None,
                },
                &mut c,
                c_row,
                false,
            );
        })
        .is_ok()
    };
    assert!(tried(8, 3, 3, 1, LANES, 8 * LANES, LANES));
    assert!(tried(0, 9, 9, 9, 999, 0, 999));
    assert!(tried(1, 0, 99, 99, 99, LANES, usize::MAX));
    for (name, fits) in [
        ("rows", tried(13, 1, 1, 1, LANES, 13 * LANES, LANES)),
        ("left", tried(8, 3, 3, 2, LANES, 8 * LANES, LANES)),
        (
            "left's product",
            tried(2, 2, usize::MAX, 1, LANES, 2 * LANES, LANES),
        ),
        (
            "left's sum",
            tried(3, 2, usize::MAX / 2, 3, LANES, 3 * LANES, LANES),
        ),
        ("right", tried(1, 3, 1, 1, LANES + 1, LANES, LANES)),
        (
            "right's product",
            tried(1, 3, 1, 1, usize::MAX / 2 + 1, LANES, LANES),
        ),
        ("sums", tried(2, 1, 1, 1, LANES, 2 * LANES, LANES + 1)),
        (
            "sums' product",
            tried(3, 1, 1, 1, LANES, LANES, usize::MAX / 2 + 1),
        ),
        ("no sums", tried(1, 0, 1, 1, LANES, LANES - 1, LANES)),
    ] {
        assert!(!fits, "{name}");
    }
}
