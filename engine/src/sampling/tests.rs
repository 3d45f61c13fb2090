//! The sampler as a whole: greedy and drawn tokens, filters, bias and penalties.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

/// The prompt of all these samplers.
const PROMPT: [u32; 2] = [0, 2];

fn sampler(edit: impl FnOnce(&mut SamplingParams)) -> Sampler {
    let mut params = SamplingParams::default();
    edit(&mut params);
    check(&params).unwrap();
    Sampler::new(&params, &PROMPT)
}

fn draws(sampler: &mut Sampler, logits: &[f32], count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| sampler.sample(logits).unwrap().id)
        .collect()
}

#[test]
fn greedy_takes_the_lowest_id_of_equal_logits() {
    assert_eq!(sampler(|_| {}).sample(&[1.0, 3.0, 3.0, 2.0]).unwrap().id, 1);
    assert_eq!(
        sampler(|_| {})
            .sample(&[f32::NEG_INFINITY, -5.0])
            .unwrap()
            .id,
        1
    );
}

#[test]
fn firm_steps_end_at_the_first_near_tie() {
    let mut sampler = sampler(|_| {});
    let firm = [0.0, 1.0];
    let near_tie = [1.0, 1.01];
    for logits in [firm, firm, near_tie, firm] {
        sampler.sample(&logits).unwrap();
    }
    assert_eq!(
        sampler.extras(),
        BTreeMap::from([("firm_steps".to_owned(), 2.0)])
    );
    // One candidate alone is as firm as can be.
    let mut alone = Sampler::new(&SamplingParams::default(), &[]);
    alone.sample(&[1.0, f32::NEG_INFINITY]).unwrap();
    assert_eq!(
        alone.extras(),
        BTreeMap::from([("firm_steps".to_owned(), 1.0)])
    );
}

#[test]
fn broken_logits_are_an_error_and_no_token() {
    for logits in [
        &[1.0, f32::NAN][..],
        &[f32::INFINITY, 1.0],
        &[f32::NEG_INFINITY; 2],
        &[],
    ] {
        assert!(sampler(|_| {}).sample(logits).is_err(), "{logits:?}");
        assert!(
            sampler(|params| params.temperature = 1.0)
                .sample(logits)
                .is_err(),
            "{logits:?}"
        );
    }
}

#[test]
fn frequencies_follow_the_softmax() {
    let logits = [0.0, 2.0_f32.ln(), f32::NEG_INFINITY, 5.0_f32.ln()];
    let mut sampler = sampler(|params| params.temperature = 1.0);
    let drawn = draws(&mut sampler, &logits, 8000);
    let share = |id| drawn.iter().filter(|drawn| **drawn == id).count() as f64 / 8000.0;
    assert!(
        (share(0) - 0.125).abs() < 0.02
            && (share(1) - 0.25).abs() < 0.02
            && (share(3) - 0.625).abs() < 0.02
    );
    assert_eq!(share(2), 0.0);
    assert!(sampler.extras().is_empty());
}

#[test]
fn temperature_divides_the_logits() {
    let mut sampler = sampler(|params| params.temperature = 0.5);
    // ln 3 / 0.5 = ln 9: nine to one.
    let drawn = draws(&mut sampler, &[0.0, 3.0_f32.ln()], 8000);
    let share = drawn.iter().filter(|drawn| **drawn == 1).count() as f64 / 8000.0;
    assert!((share - 0.9).abs() < 0.02, "{share}");
}

#[test]
fn top_k_and_top_p_keep_the_best() {
    let logits = [0.1_f32.ln(), 0.4_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
    let kept = |edit: fn(&mut SamplingParams)| {
        let mut sampler = sampler(|params| {
            params.temperature = 1.0;
            edit(params);
        });
        let mut ids = draws(&mut sampler, &logits, 500);
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    assert_eq!(kept(|params| params.top_k = 2), [1, 2]);
    assert_eq!(kept(|params| params.top_p = 0.6), [1, 2]);
    assert_eq!(kept(|params| params.top_p = 0.01), [1]);
    // top-p counts within what top-k left: 0.4 of 0.7 reaches 0.5.
    assert_eq!(kept(|params| (params.top_k, params.top_p) = (2, 0.5)), [1]);
    assert_eq!(kept(|params| params.top_k = 99), [0, 1, 2, 3]);
    assert_eq!(kept(|params| params.top_k = 1), [1]);
    // min-p is a share of the best token's probability, after temperature.
    assert_eq!(kept(|params| params.min_p = 0.6), [1, 2]);
    assert_eq!(
        kept(|params| (params.min_p, params.temperature) = (0.6, 0.5)),
        [1]
    );
    assert_eq!(kept(|params| params.min_p = 1.0), [1]);
    assert_eq!(
        kept(|params| (params.min_p, params.top_k) = (0.4, 3)),
        [1, 2, 3]
    );
    assert_eq!(
        kept(|params| (params.min_p, params.top_p) = (0.6, 0.6)),
        [1, 2]
    );
}

#[test]
fn the_seed_decides_the_draws() {
    let logits: Vec<f32> = (0..50).map(|id| (id as f32 * 0.7).sin()).collect();
    let of_seed = |seed| {
        let mut sampler = sampler(|params| (params.temperature, params.seed) = (1.0, seed));
        draws(&mut sampler, &logits, 12)
    };
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
    // From one build to the next, too.
    assert_eq!(of_seed(7), [6, 8, 37, 37, 29, 19, 2, 43, 19, 49, 10, 19]);
}

/// What [`Candidates`] does, by a full sort: the ids that may be drawn and their weights; best first
/// where rank decided, else in the vocabulary's order.
fn naive(logits: &[f32], params: &SamplingParams) -> Vec<(u32, f64)> {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| (f64::from(logit - best) / f64::from(params.temperature)).exp();
    let mut kept: Vec<(u32, f64)> = (0..)
        .zip(logits)
        .map(|(id, logit)| (id, weight(*logit)))
        .collect();
    kept.sort_by(
        |(id, weight), (other_id, other)| match other.total_cmp(weight) {
            Ordering::Equal => id.cmp(other_id),
            order => order,
        },
    );
    kept.retain(|(_, weight)| *weight >= f64::from(params.min_p));
    let k = usize::try_from(params.top_k).unwrap_or(usize::MAX);
    let by_rank = k < kept.len() || params.top_p < 1.0;
    kept.truncate(k);
    if params.top_p < 1.0 {
        let goal = f64::from(params.top_p) * kept.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut reached = 0.0;
        let count = kept.iter().position(|(_, weight)| {
            reached += weight;
            reached >= goal
        });
        kept.truncate(count.map_or(kept.len(), |last| last + 1));
    }
    if !by_rank {
        kept.sort_by_key(|(id, _)| *id);
    }
    kept
}

proptest! {
    #[test]
    fn filters_keep_what_a_full_sort_keeps(
        logits in prop::collection::vec(prop_oneof![4 => -8_f32..8.0, 1 => (-3_i8..3).prop_map(f32::from)], 1..900),
        temperature in 0.1_f32..3.0,
        top_k in prop_oneof![Just(-1), 1..1000],
        top_p in prop_oneof![Just(1.0_f32), 0.01_f32..1.0],
        min_p in prop_oneof![Just(0.0_f32), 0.0_f32..1.0],
        seed: u64,
    ) {
        let params = SamplingParams { temperature, top_k, top_p, min_p, seed, ..SamplingParams::default() };
        prop_assume!(!params.is_greedy());
        let kept = naive(&logits, &params);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut sampler = Sampler::new(&params, &[]);
        for _ in 0..5 {
            let drawn = sampler.sample(&logits).unwrap().id;
            let point = unit(random.next_u64());
            let mut left = point * kept.iter().map(|(_, weight)| weight).sum::<f64>();
            let expected = kept.iter().find(|(_, weight)| {
                left -= weight;
                left < 0.0
            });
            prop_assert_eq!(expected.map(|(id, _)| *id), Some(drawn));
        }
    }
}

#[test]
fn bias_forces_and_forbids() {
    let logits = [1.0, 3.0, f32::NEG_INFINITY, 2.0];
    let first = |id: u32, bias: f32| {
        let mut sampler = sampler(|params| params.logit_bias = [(id, bias)].into());
        sampler.sample(&logits).unwrap().id
    };
    assert_eq!(first(0, 100.0), 0);
    assert_eq!(first(1, -100.0), 3);
    assert_eq!(first(3, 0.9), 1);
    assert_eq!(first(3, 1.1), 3);
    assert_eq!(first(2, 100.0), 1, "what cannot be stays so");
    assert_eq!(first(99, 100.0), 1, "no such token");
}

#[test]
fn penalties_follow_their_formulas() {
    // The prompt is 0 and 2.
    let first_of =
        |logits: &[f32], edit: fn(&mut SamplingParams)| draws(&mut sampler(edit), logits, 4);
    // 3 / 2 = 1.5 for 0 of the prompt; 1 is made, then 1.9 / 2 too; then the order repeats.
    assert_eq!(
        first_of(&[3.0, 1.9, 0.0], |params| params.repetition_penalty = 2.0),
        [1, 0, 0, 0]
    );
    // Negative logits are multiplied: −1 · 3 = −3 falls behind −2, which then is −6.
    assert_eq!(
        first_of(&[-1.0, -2.0, -9.0], |params| params.repetition_penalty =
            3.0),
        [1, 0, 0, 0]
    );
    // The other two look at the answer alone; presence counts once, frequency each time.
    assert_eq!(
        first_of(&[3.0, 2.4, 2.3], |params| params.presence_penalty = 1.0),
        [0, 1, 2, 0]
    );
    assert_eq!(
        first_of(&[3.0, 2.4, 0.0], |params| params.frequency_penalty = 0.5),
        [0, 0, 1, 0]
    );
    assert_eq!(
        first_of(&[3.0, 2.4, 0.0], |params| {
            (params.frequency_penalty, params.presence_penalty) = (-0.5, 0.0);
        }),
        [0, 0, 0, 0]
    );
}

#[test]
fn extreme_penalties_give_a_token_and_no_error() {
    for penalty in [f32::MIN_POSITIVE, f32::MAX] {
        for logits in [[5.0, 1.0, -4.0], [-5.0, -1.0, -4.0]] {
            for temperature in [0.0, 1.0] {
                let mut sampler = sampler(|params| {
                    params.repetition_penalty = penalty;
                    params.temperature = temperature;
                });
                assert!(draws(&mut sampler, &logits, 5).iter().all(|id| *id < 3));
            }
        }
    }
}

#[test]
fn firm_steps_are_those_of_the_adjusted_logits() {
    let mut sampler = sampler(|params| params.logit_bias = [(0, 0.995)].into());
    sampler.sample(&[5.0, 3.0]).unwrap();
    sampler.sample(&[0.0, 1.0]).unwrap();
    assert_eq!(sampler.extras()["firm_steps"], 1.0);
}

#[test]
fn logprobs_are_of_the_models_own_logits() {
    let logits = [3.0_f32.ln(), 1.0_f32.ln()];
    let mut plain = sampler(|params| params.logprobs = Some(2));
    let mut changed = sampler(|params| {
        params.logprobs = Some(2);
        params.temperature = 0.3;
        params.logit_bias = [(1, 100.0)].into();
    });
    let (plain, changed) = (
        plain.sample(&logits).unwrap(),
        changed.sample(&logits).unwrap(),
    );
    let (plain, other) = (plain.logprobs.unwrap(), changed.logprobs.unwrap());
    assert_eq!((plain.id, other.id), (0, 1));
    assert_eq!(plain.top, other.top);
    assert!((plain.logprob - 0.75_f32.ln()).abs() < 1e-6);
    assert!((other.logprob - 0.25_f32.ln()).abs() < 1e-6);
    assert_eq!(plain.logprob, plain.top[0].1);
    assert!(sampler(|_| {}).sample(&logits).unwrap().logprobs.is_none());
}
