//! Products of rows and weights: against a plain loop over odd shapes, on each instruction set that
//! the machine has; and the same bits of a row in any company and on any number of threads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use half::{bf16, f16};
use kernels::{
    Cpu,
    arena::Arena,
    element::{Dtype, Element},
    isa::Isa,
    matmul::matmul,
    matrix::Matrix,
};
use proptest::{collection::vec, option, prelude::*};

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// One product: `[m][k]` times `[n][k]`.
#[derive(Debug, Clone)]
struct Case {
    m: usize,
    k: usize,
    n: usize,
    dtype: Dtype,
    add: bool,
    bias: bool,
    numbers: Vec<f32>,
}

impl Case {
    /// `len` numbers, other ones for each `from`.
    fn numbers(&self, from: usize, len: usize) -> Vec<f32> {
        let numbers = self.numbers.iter().copied().cycle();
        numbers.skip(from).take(len).collect()
    }

    fn x(&self) -> Vec<f32> {
        self.numbers(0, self.m * self.k)
    }

    fn before(&self) -> Vec<f32> {
        self.numbers(5, self.m * self.n)
    }

    fn bias(&self) -> Option<Vec<f32>> {
        self.bias.then(|| self.numbers(9, self.n))
    }

    fn weights(&self) -> Vec<f32> {
        self.numbers(3, self.n * self.k)
    }

    fn matrix(&self) -> Matrix {
        let mut arena = Arena::new(Matrix::bytes(self.dtype, self.n, self.k)).unwrap();
        let mut matrix = Matrix::zeros(&mut arena, self.dtype, self.n, self.k).unwrap();
        matrix.fill(0, &self.weights());
        if let Some(bias) = self.bias() {
            matrix.set_bias(bias);
        }
        matrix
    }

    fn product(&self, cpu: &Cpu, matrix: &Matrix) -> Vec<f32> {
        let mut out = self.before();
        matmul(cpu, &self.x(), self.m, matrix, &mut out, self.add);
        out
    }

    /// A weight as it is kept.
    fn kept(&self, weight: f32) -> f64 {
        f64::from(match self.dtype {
            Dtype::F32 => weight,
            Dtype::F16 => f16::from_f32(weight).to_f32(),
            Dtype::Bf16 => bf16::from_f32(weight).to_f32(),
        })
    }

    /// A plain loop in f64, and what rounding may change of each output.
    fn plain(&self) -> Vec<(f64, f64)> {
        let (x, weights, before, bias) = (self.x(), self.weights(), self.before(), self.bias());
        let mut out = Vec::new();
        for row in 0..self.m {
            for column in 0..self.n {
                let mut parts: Vec<f64> = (0..self.k)
                    .map(|k| {
                        f64::from(x[row * self.k + k]) * self.kept(weights[column * self.k + k])
                    })
                    .collect();
                parts.extend(bias.as_ref().map(|bias| f64::from(bias[column])));
                parts.extend(self.add.then(|| f64::from(before[row * self.n + column])));
                let size: f64 = parts.iter().map(|part| part.abs()).sum();
                let bound = size * f64::from(f32::EPSILON) * (parts.len() + 1) as f64;
                out.push((parts.iter().sum(), bound));
            }
        }
        out
    }
}

fn cases(m: usize, k: usize, n: usize) -> impl Strategy<Value = Case> {
    // An interpreter takes a second for what takes a processor a millisecond.
    let (m, k, n, numbers) = if cfg!(miri) {
        (m.min(14), k.min(5), n.min(70), 53)
    } else {
        (m, k, n, 1009)
    };
    let shape = (0..=m, 0..=k, 1..=n);
    let kind = (0..DTYPES.len(), any::<bool>(), any::<bool>());
    (shape, kind, vec(-2.0_f32..2.0, numbers)).prop_map(
        |((m, k, n), (dtype, add, bias), numbers)| Case {
            m,
            k,
            n,
            dtype: DTYPES[dtype],
            add,
            bias,
            numbers,
        },
    )
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// At most `n` cases; `PROPTEST_CASES` asks for fewer.
fn config(n: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: if cfg!(miri) { 2 } else { usual.cases.min(n) },
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn each_instruction_set_agrees_with_a_plain_loop(case in cases(40, 200, 130)) {
        let (matrix, plain) = (case.matrix(), case.plain());
        let mut vectors: Option<Vec<u32>> = None;
        for isa in Isa::available() {
            let out = case.product(&Cpu::with_isa(isa, 2).unwrap(), &matrix);
            prop_assert_eq!(out.len(), plain.len());
            for (out, (plain, bound)) in out.iter().zip(&plain) {
                prop_assert!((f64::from(*out) - plain).abs() <= *bound, "{}: {} {}", isa, out, plain);
            }
            if isa != Isa::PORTABLE {
                let first = vectors.get_or_insert_with(|| bits(&out));
                prop_assert_eq!(&*first, &bits(&out), "{}", isa);
            }
        }
    }

    /// Every row alone has the bits that it has among others, whatever the number of threads.
    #[test]
    fn a_row_s_result_does_not_depend_on_its_company(
        case in cases(40, 90, 130),
        threads in 1..5_usize,
    ) {
        let matrix = case.matrix();
        let (x, before) = (case.x(), case.before());
        for isa in Isa::available() {
            let out = case.product(&Cpu::with_isa(isa, threads).unwrap(), &matrix);
            let alone = Cpu::with_isa(isa, 1).unwrap();
            for row in 0..case.m {
                let mut one = before[row * case.n..(row + 1) * case.n].to_vec();
                let x = &x[row * case.k..(row + 1) * case.k];
                matmul(&alone, x, 1, &matrix, &mut one, case.add);
                prop_assert_eq!(bits(&one), bits(&out[row * case.n..(row + 1) * case.n]));
            }
        }
    }

    /// Rows come back as they were filled in, in parts that begin and end anywhere.
    #[test]
    fn rows_are_kept(
        case in cases(0, 70, 100),
        from in option::of(0..3_usize),
        cuts in vec(0..100_usize, 0..4),
    ) {
        let weights = case.weights();
        let mut arena = Arena::new(Matrix::bytes(case.dtype, case.n, case.k)).unwrap();
        let mut matrix = Matrix::zeros(&mut arena, case.dtype, case.n, case.k).unwrap();
        let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| *cut < case.n).collect();
        cuts.extend([0, case.n]);
        cuts.sort_unstable();
        for part in cuts.windows(2) {
            let rows = &weights[part[0] * case.k..part[1] * case.k];
            match from.map(|from| DTYPES[from]) {
                None | Some(Dtype::F32) => matrix.fill(part[0], rows),
                // Halves of a wider mantissa than bf16's may change on the way, so only alike ones.
                Some(Dtype::F16) if case.dtype == Dtype::F16 => fill::<f16>(&mut matrix, part[0], rows),
                Some(_) if case.dtype == Dtype::Bf16 => fill::<bf16>(&mut matrix, part[0], rows),
                Some(_) => matrix.fill(part[0], rows),
            }
        }
        let mut out = vec![0.0; case.k];
        for row in 0..case.n {
            matrix.row(row, &mut out);
            for (out, weight) in out.iter().zip(&weights[row * case.k..]) {
                prop_assert_eq!(f64::from(*out), case.kept(*weight));
            }
        }
    }
}

fn fill<E: Element>(matrix: &mut Matrix, first: usize, rows: &[f32]) {
    let rows: Vec<E> = rows.iter().map(|value| E::from_f32(*value)).collect();
    matrix.fill(first, &rows);
}

/// Compares a product of f32 weights, with a bias and added to what is there, with the plain loop.
fn check(m: usize, k: usize, n: usize) {
    let case = Case {
        m,
        k,
        n,
        dtype: Dtype::F32,
        add: true,
        bias: true,
        numbers: (0..1009).map(|i| (i as f32 * 0.37).sin()).collect(),
    };
    let matrix = case.matrix();
    let plain = case.plain();
    for threads in [1, 3] {
        let out = case.product(&Cpu::new(threads).unwrap(), &matrix);
        for (out, (plain, bound)) in out.iter().zip(&plain) {
            assert!((f64::from(*out) - plain).abs() <= *bound, "{out} {plain}");
        }
    }
}

/// More rows than are packed at a time, and several blocks and ranges of panels.
#[test]
fn many_rows() {
    match cfg!(miri) {
        true => check(25, 2, 33),
        false => check(1100, 300, 70),
    }
}

/// No row, one, and those at the edges of tiles and panels; no input at all.
#[test]
fn few_rows() {
    let rows: &[usize] = if cfg!(miri) {
        &[0, 13]
    } else {
        &[0, 1, 12, 13]
    };
    for &m in rows {
        for (k, n) in [(0, 1), (1, 32), (2, 33), (3, 31)] {
            check(m, k, n);
        }
    }
}

/// An arena of the sum of what matrices say they take holds them all.
#[test]
fn matrices_fit_into_the_sum_of_their_bytes() {
    let shapes = [(1, 1), (33, 7), (64, 0), (31, 65), (5, 3)];
    let all = || {
        DTYPES
            .iter()
            .flat_map(|dtype| shapes.map(|(n, k)| (*dtype, n, k)))
    };
    let bytes = all().map(|(dtype, n, k)| Matrix::bytes(dtype, n, k)).sum();
    let mut arena = Arena::new(bytes).unwrap();
    for (dtype, n, k) in all() {
        assert!(Matrix::zeros(&mut arena, dtype, n, k).is_some());
    }
    assert!(Matrix::zeros(&mut arena, Dtype::F32, 1, 1).is_none());
}
