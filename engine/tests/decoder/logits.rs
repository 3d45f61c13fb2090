//! Logits against those of transformers: families, backends, caches, types, threads, instructions.

use std::sync::Arc;

use contracts::run::Dtype;
use engine::decoder::{Backend, Wanted};
use kernels::{Cpu, isa::Isa};

use crate::{
    caches, candle, decoder, kernels, last, span,
    support::{TOLERANCE, largest_difference, vector, vectors},
};

#[test]
fn logits_are_those_of_transformers() {
    for (dir, expected) in vectors() {
        for (by, backend) in [("kernels", kernels(2)), ("candle", candle())] {
            let mut decoder = decoder(&dir, Dtype::F32, backend);
            for (kind, mut cache, slot) in caches(&decoder) {
                for case in &expected.cases {
                    let what = format!("{} {by} {kind} {:?}", dir.display(), case.prompt);
                    let cache = cache.as_mut();
                    let mut logits = last(&mut decoder, cache, slot, &case.input_ids, 0);
                    let difference = largest_difference(&logits, &case.logits_after_prompt);
                    assert!(
                        difference <= TOLERANCE,
                        "{what}: {difference} after the prompt"
                    );
                    for (position, id) in (case.input_ids.len()..).zip(&case.greedy_ids) {
                        logits = last(&mut decoder, cache, slot, &[*id], position);
                    }
                    let difference = largest_difference(&logits, &case.logits_at_end);
                    assert!(difference <= TOLERANCE, "{what}: {difference} at the end");
                }
            }
        }
    }
}

/// A position's logits do not depend on how many tokens were run with it: to the bit by our kernels.
#[test]
fn all_positions_at_once_are_those_of_one_by_one() {
    for (dir, expected) in vectors() {
        let case = &expected.cases[0];
        let ids = [case.input_ids.as_slice(), &case.greedy_ids].concat();
        for (by, backend) in [("kernels", kernels(2)), ("candle", candle())] {
            let mut decoder = decoder(&dir, Dtype::F32, backend);
            for (kind, mut cache, slot) in caches(&decoder) {
                let what = format!("{} {by} {kind}", dir.display());
                let cache = cache.as_mut();
                let all = decoder
                    .forward(cache, &[span(slot, &ids, 0, Wanted::All)])
                    .unwrap();
                assert_eq!(all.len(), ids.len() * decoder.vocab(), "{what}");
                let rows: Vec<&[f32]> = all.chunks(decoder.vocab()).collect();
                for (position, id) in ids.iter().enumerate() {
                    let one = last(&mut decoder, cache, slot, &[*id], position);
                    if by == "kernels" && kind == "in place" {
                        assert_eq!(one, rows[position], "{what} {position}");
                    } else {
                        let difference = largest_difference(&one, rows[position]);
                        assert!(difference <= 1e-4, "{what} {position}: {difference}");
                    }
                }
            }
        }
    }
}

/// Weights in 16 bits: f16 keeps 11 bits of each, bf16 8, so that logits move by that much of theirs.
#[test]
fn sixteen_bit_weights_move_logits_by_their_rounding() {
    for (dir, expected) in vectors() {
        for (dtype, share) in [(Dtype::F16, 0.004), (Dtype::Bf16, 0.03)] {
            for (by, backend) in [("kernels", kernels(2)), ("candle", candle())] {
                let mut decoder = decoder(&dir, dtype, backend);
                let [_, (_, mut cache, slot)] = caches(&decoder);
                for case in &expected.cases {
                    let logits = last(&mut decoder, cache.as_mut(), slot, &case.input_ids, 0);
                    let wanted = &case.logits_after_prompt;
                    let size = wanted.iter().fold(0.0_f32, |max, it| max.max(it.abs()));
                    let moved = largest_difference(&logits, wanted) / size;
                    let what = format!("{} {dtype:?} {by} {:?}", dir.display(), case.prompt);
                    // Activations of candle's are rounded too.
                    let most = if by == "candle" { 3.0 * share } else { share };
                    assert!(moved > 0.0 && moved <= most, "{what}: {moved}");
                }
            }
        }
    }
}

#[test]
fn threads_change_no_bit_and_instructions_little() {
    for (dir, expected) in [
        vector("tiny-llama"),
        vector("tiny-qwen2"),
        vector("tiny-qwen3"),
    ] {
        let ids = &expected.cases[0].input_ids;
        let run = |cpu: Cpu| {
            let mut decoder = decoder(&dir, Dtype::F32, Backend::Kernels(Arc::new(cpu)));
            let [_, (_, mut cache, slot)] = caches(&decoder);
            let mut logits = last(&mut decoder, cache.as_mut(), slot, ids, 0);
            logits.extend(last(&mut decoder, cache.as_mut(), slot, &[7], ids.len()));
            logits
        };
        let one = run(Cpu::new(1).unwrap());
        for threads in 2..=5 {
            assert_eq!(run(Cpu::new(threads).unwrap()), one, "{threads} threads");
        }
        for isa in Isa::available() {
            let difference = largest_difference(&run(Cpu::with_isa(isa, 2).unwrap()), &one);
            assert!(difference <= TOLERANCE, "{isa}: {difference}");
        }
    }
}
