//! What our decoder runs and candle's models can't: every scaling, bias and head size, and Qwen2 in
//! 16 bits.

use std::path::Path;

use contracts::run::Dtype;
use engine::{
    decoder::{self, Span, Wanted, cache::growing::Growing},
    model::ModelRequest,
};

use crate::support::{TOLERANCE, largest_difference, request, vector, vectors};

/// Logits of the last of `ids`, in a sequence of nothing else.
fn last_logits(name: &Path, dtype: Option<Dtype>, ids: &[u32]) -> Vec<f32> {
    let request = ModelRequest {
        dtype,
        ..request(name)
    };
    let mut loaded = decoder::load(&request).unwrap();
    let mut cache = Growing::new(&loaded.decoder);
    let span = Span {
        slot: 0,
        ids,
        start: 0,
        wanted: Wanted::Last,
    };
    loaded.decoder.forward(&mut cache, &[span]).unwrap()
}

#[test]
fn logits_of_every_vector_are_those_of_transformers() {
    for (dir, expected) in vectors() {
        for case in &expected.cases {
            let whole = [case.input_ids.as_slice(), &case.greedy_ids].concat();
            for (ids, logits) in [
                (&case.input_ids, &case.logits_after_prompt),
                (&whole, &case.logits_at_end),
            ] {
                let difference = largest_difference(&last_logits(&dir, None, ids), logits);
                assert!(
                    difference <= TOLERANCE,
                    "{} {:?}: {difference}",
                    dir.display(),
                    case.prompt
                );
            }
        }
    }
}

#[test]
fn sixteen_bits_come_near_in_every_family() {
    for name in ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen2-yarn"] {
        let (dir, expected) = vector(name);
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let case = &expected.cases[0];
            let logits = last_logits(&dir, Some(dtype), &case.input_ids);
            let difference = largest_difference(&logits, &case.logits_after_prompt);
            assert!(
                difference > 0.0 && difference < 1.0,
                "{name} {dtype:?}: {difference}"
            );
        }
    }
}
