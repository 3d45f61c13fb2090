//! Log probabilities of one step: the log-softmax of the model's logits.

use contracts::generate::{LOGPROB_MIN, TokenLogprobs};

/// Those of the token that was taken, and of the `top` best; logits as the model gave them, of
/// which one at least is finite.
pub(super) fn of(logits: &[f32], id: u32, top: usize) -> TokenLogprobs {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - largest).exp())
        .sum();
    let log_sum = sum.ln();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "f32 is the contract's precision"
    )]
    let logprob = |logit: f32| ((f64::from(logit - largest) - log_sum) as f32).max(LOGPROB_MIN);
    let taken = logits.get(id as usize).copied();
    TokenLogprobs {
        id,
        logprob: logprob(taken.unwrap_or(f32::NEG_INFINITY)),
        top: best(logits, top)
            .into_iter()
            .map(|(id, logit)| (id, logprob(logit)))
            .collect(),
    }
}

/// The `count` largest logits, falling; equal ones by id. One pass: few logits are among the best
/// so far, and `count` is small.
fn best(logits: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
    for (id, &logit) in (0..).zip(logits) {
        if best.len() == count && best.last().is_none_or(|(_, least)| logit <= *least) {
            continue;
        }
        let place = best.partition_point(|(_, other)| *other >= logit);
        best.insert(place, (id, logit));
        best.truncate(count);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_softmaxs_logarithms_best_first() {
        let logits = [
            1.0_f32.ln(),
            5.0_f32.ln(),
            f32::NEG_INFINITY,
            3.0_f32.ln(),
            1.0_f32.ln(),
        ];
        let of = |id, top| super::of(&logits, id, top);
        let near = |logprob: f32, probability: f32| (logprob - probability.ln()).abs() < 1e-6;
        let three = of(0, 3);
        assert_eq!(
            three.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            [1, 3, 0]
        );
        assert!(near(three.logprob, 0.1) && near(three.top[0].1, 0.5) && near(three.top[1].1, 0.3));
        assert_eq!(of(1, 0).top, []);
        let all = of(2, 9);
        assert_eq!(all.top.len(), 5);
        assert_eq!((all.logprob, all.top[4]), (LOGPROB_MIN, (2, LOGPROB_MIN)));
    }

    #[test]
    fn large_logits_overflow_nothing() {
        let large = of(&[3e38, 3e38, -3e38], 0, 1);
        assert!((large.logprob - 0.5_f32.ln()).abs() < 1e-6, "{large:?}");
    }
}
