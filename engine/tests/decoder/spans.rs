//! Spans and slots: many sequences in one step, steps back, reserved runs, what is refused.

use contracts::run::Dtype;
use engine::decoder::{
    KvCache, Slot, Wanted,
    cache::{growing::Growing, in_place::InPlace},
};

use crate::{
    POSITIONS, caches, candle, decoder, kernels, last, span,
    support::{Expected, largest_difference, vector},
};

/// Prompt and answer of a case.
fn ids_of(expected: &Expected, case: usize) -> Vec<u32> {
    let case = &expected.cases[case];
    [case.input_ids.as_slice(), &case.greedy_ids].concat()
}

/// Sequences of different lengths at different places, prefilled and decoded side by side.
#[test]
fn several_spans_at_once_are_each_as_alone() {
    for name in ["tiny-llama", "tiny-qwen2", "tiny-qwen3"] {
        let (dir, expected) = vector(name);
        for (backend, tolerance) in [(kernels(2), 0.0), (candle(), 1e-4)] {
            let mut decoder = decoder(&dir, Dtype::F32, backend);
            let texts: Vec<Vec<u32>> = (0..expected.cases.len())
                .map(|case| ids_of(&expected, case))
                .collect();
            let mut alone = Vec::new();
            for ids in &texts {
                let [_, (_, mut cache, slot)] = caches(&decoder);
                let span = span(slot, ids, 0, Wanted::All);
                alone.push(decoder.forward(cache.as_mut(), &[span]).unwrap());
            }
            let mut cache = InPlace::new(&decoder, POSITIONS * texts.len()).unwrap();
            let slots: Vec<Slot> = texts
                .iter()
                .map(|ids| cache.reserve(ids.len()).unwrap())
                .collect();
            // Each begins one step later than the one before, with 1, 2, 3 … tokens a step.
            let mut done = vec![0; texts.len()];
            let mut step = 0;
            while done.iter().zip(&texts).any(|(done, ids)| *done < ids.len()) {
                step += 1;
                let mut spans = Vec::new();
                for (row, ids) in texts.iter().enumerate().take(step) {
                    let end = (done[row] + row + 1).min(ids.len());
                    if done[row] < end {
                        spans.push((
                            row,
                            span(slots[row], &ids[done[row]..end], done[row], Wanted::All),
                        ));
                        done[row] = end;
                    }
                }
                let asked: Vec<_> = spans.iter().map(|(_, span)| *span).collect();
                let logits = decoder.forward(&mut cache, &asked).unwrap();
                let mut rest = logits.as_slice();
                for (row, span) in spans {
                    let len = span.ids.len() * decoder.vocab();
                    let first = span.start * decoder.vocab();
                    let difference =
                        largest_difference(&rest[..len], &alone[row][first..first + len]);
                    assert!(difference <= tolerance, "{name} {row}: {difference}");
                    rest = &rest[len..];
                }
                assert!(rest.is_empty());
            }
        }
    }
}

#[test]
fn last_and_all_can_be_wanted_in_one_step() {
    let (dir, expected) = vector("tiny-llama");
    let mut decoder = decoder(&dir, Dtype::F32, kernels(1));
    let mut cache = InPlace::new(&decoder, POSITIONS).unwrap();
    let (a, b) = (cache.reserve(20).unwrap(), cache.reserve(20).unwrap());
    let (long, short) = (&ids_of(&expected, 0)[..9], &ids_of(&expected, 1)[..4]);
    let spans = [
        span(a, long, 0, Wanted::Last),
        span(b, short, 0, Wanted::All),
    ];
    let both = decoder.forward(&mut cache, &spans).unwrap();
    let vocab = decoder.vocab();
    assert_eq!(both.len(), 5 * vocab);
    let first = last(&mut decoder, &mut cache, a, long, 0);
    let fourth = last(&mut decoder, &mut cache, b, short, 0);
    assert_eq!(both[..vocab], first);
    assert_eq!(both[4 * vocab..], fourth);
}

/// Positions behind a start are written anew, and nothing of what was there is seen.
#[test]
fn a_step_back_forgets_what_follows() {
    let (dir, expected) = vector("tiny-qwen3");
    let (ids, other) = (ids_of(&expected, 0), ids_of(&expected, 2));
    let keep = 5;
    let wanted_ids = [&ids[..keep], &other].concat();
    for backend in [kernels(2), candle()] {
        let mut decoder = decoder(&dir, Dtype::F32, backend);
        for (kind, mut cache, slot) in caches(&decoder) {
            let cache = cache.as_mut();
            let fresh = last(&mut decoder, cache, slot, &wanted_ids, 0);
            last(&mut decoder, cache, slot, &ids, 0);
            let back = last(&mut decoder, cache, slot, &other, keep);
            let difference = largest_difference(&back, &fresh);
            assert!(difference <= 1e-4, "{kind}: {difference}");
        }
    }
}

/// Slots come and go; a sequence in a place that others have used is as one in fresh memory.
#[test]
fn slots_are_used_again() {
    let (dir, expected) = vector("tiny-llama");
    let mut decoder = decoder(&dir, Dtype::F32, kernels(1));
    let texts: Vec<Vec<u32>> = (0..4).map(|case| ids_of(&expected, case)).collect();
    let mut fresh = Vec::new();
    for ids in &texts {
        let [_, (_, mut cache, slot)] = caches(&decoder);
        fresh.push(last(&mut decoder, cache.as_mut(), slot, ids, 0));
    }
    let mut cache = InPlace::new(&decoder, POSITIONS).unwrap();
    assert_eq!(cache.positions(), POSITIONS);
    assert_eq!(cache.reserve(POSITIONS + 1), None);
    for round in 0..12 {
        let filler = cache.reserve(1 + round * 7).unwrap();
        let row = round % texts.len();
        let slot = cache.reserve(texts[row].len()).unwrap();
        let logits = last(&mut decoder, &mut cache, slot, &texts[row], 0);
        assert_eq!(logits, fresh[row], "round {round}");
        cache.release(filler);
        cache.release(slot);
        // A stale name is nobody's.
        cache.release(slot);
    }
    let all = cache.reserve(POSITIONS).unwrap();
    assert_eq!(cache.reserve(1), None);
    cache.release(all);
    assert!(cache.reserve(1).is_some());
}

#[test]
fn what_cannot_be_is_refused() {
    let (dir, _) = vector("tiny-llama");
    for backend in [kernels(1), candle()] {
        let mut decoder = decoder(&dir, Dtype::F32, backend);
        let mut cache = InPlace::new(&decoder, POSITIONS).unwrap();
        let slot = cache.reserve(32).unwrap();
        let stale = cache.reserve(32).unwrap();
        cache.release(stale);
        let (context, unknown) = (decoder.context(), [decoder.vocab() as u32]);
        let long = vec![5; context + 1];
        let last = Wanted::Last;
        let cases = [
            (vec![], "of no tokens"),
            (vec![span(slot, &[], 0, last)], "of no tokens"),
            (vec![span(slot, &long, 0, last)], "beyond the context"),
            (vec![span(slot, &[5], context, last)], "beyond the context"),
            (vec![span(slot, &unknown, 0, last)], "beyond the vocabulary"),
            (
                vec![span(slot, &[5], 0, last), span(slot, &[5], 1, last)],
                "two spans of one sequence",
            ),
            (vec![span(stale, &[5], 0, last)], "is not reserved"),
            (vec![span(slot, &[5; 33], 0, last)], "room for 32"),
            (vec![span(slot, &[5], 1, last)], "which has 0"),
        ];
        for (spans, message) in cases {
            let error = decoder.forward(&mut cache, &spans).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let mut growing: Box<dyn KvCache> = Box::new(Growing::new(&decoder));
        for (span, message) in [
            (span(1, &[5], 0, last), "one sequence, in slot 0"),
            (span(0, &[5], 3, last), "has not begun"),
        ] {
            let error = decoder.forward(growing.as_mut(), &[span]).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
