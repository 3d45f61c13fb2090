//! Draws keep the model's distribution: chi-square tests against probabilities that a plain full
//! sort computes.
//!
//! Seeds are fixed, so a test passes always or never; its level says how likely a right sampler
//! would have been to fail it when the seed was chosen.

use contracts::generate::SamplingParams;
use engine::{sampling::Sampler, text::Input};

use crate::support::{build, greedy, vector};

const DRAWS: usize = 100_000;

/// Standard normal quantile of 1 − 10⁻⁴.
const Z: f64 = 3.719;

/// Cells with fewer expected draws are put together: below that the statistic is not chi-square.
const EXPECTED_MIN: f64 = 5.0;

/// What each token's probability should be.
fn probabilities(logits: &[f32], params: &SamplingParams) -> Vec<f64> {
    let mut scaled: Vec<f64> = logits
        .iter()
        .map(|logit| f64::from(*logit) / f64::from(params.temperature))
        .collect();
    for (id, bias) in &params.logit_bias {
        scaled[*id as usize] += f64::from(*bias) / f64::from(params.temperature);
    }
    let mut order: Vec<usize> = (0..scaled.len()).collect();
    order.sort_by(|left, right| scaled[*right].total_cmp(&scaled[*left]));
    let best = scaled[order[0]];
    order.retain(|id| (scaled[*id] - best).exp() >= f64::from(params.min_p));
    if params.top_k > 0 {
        order.truncate(params.top_k as usize);
    }
    let softmax = |order: &[usize]| {
        let sum: f64 = order.iter().map(|id| (scaled[*id] - best).exp()).sum();
        let share = |id: &usize| (*id, (scaled[*id] - best).exp() / sum);
        order.iter().map(share).collect::<Vec<_>>()
    };
    let mut before = 0.0;
    let needed: Vec<usize> = softmax(&order)
        .into_iter()
        .take_while(|(_, probability)| {
            let needed = before < f64::from(params.top_p);
            before += probability;
            needed
        })
        .map(|(id, _)| id)
        .collect();
    let mut probabilities = vec![0.0; logits.len()];
    for (id, probability) in softmax(&needed) {
        probabilities[id] = probability;
    }
    probabilities
}

/// Whether the drawn tokens fit the probabilities, at a level of 10⁻⁴.
fn fits(drawn: &[u32], probabilities: &[f64]) -> bool {
    let mut counts = vec![0.0; probabilities.len()];
    for id in drawn {
        counts[*id as usize] += 1.0;
    }
    let draws = drawn.len() as f64;
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut rest_expected, mut rest_counted) = (0.0, 0.0);
    for (counted, probability) in counts.into_iter().zip(probabilities) {
        let expected = probability * draws;
        if expected == 0.0 && counted > 0.0 {
            return false;
        }
        if expected >= EXPECTED_MIN {
            statistic += (counted - expected) * (counted - expected) / expected;
            cells += 1;
        } else {
            rest_expected += expected;
            rest_counted += counted;
        }
    }
    if rest_expected >= EXPECTED_MIN {
        statistic +=
            (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
        cells += 1;
    }
    assert!(cells > 1, "one cell has nothing to test");
    statistic <= critical(f64::from(cells - 1))
}

/// The chi-square distribution's quantile of 1 − 10⁻⁴, after Wilson and Hilferty 1931.
fn critical(degrees: f64) -> f64 {
    let part = 2.0 / (9.0 * degrees);
    degrees * (1.0 - part + Z * part.sqrt()).powi(3)
}

fn drawn(logits: &[f32], params: &SamplingParams) -> Vec<u32> {
    let mut sampler = Sampler::new(params, &[]);
    (0..DRAWS)
        .map(|_| sampler.sample(logits).unwrap().id)
        .collect()
}

fn params(edit: fn(&mut SamplingParams)) -> SamplingParams {
    let mut params = SamplingParams {
        temperature: 1.0,
        seed: 5,
        ..SamplingParams::default()
    };
    edit(&mut params);
    engine::sampling::check(&params).unwrap();
    params
}

#[track_caller]
fn keeps(edit: fn(&mut SamplingParams)) {
    let params = params(edit);
    for (name, case) in [("tiny-llama", 0), ("tiny-qwen2", 4)] {
        let logits = &vector(name).1.cases[case].logits_after_prompt;
        assert!(
            fits(&drawn(logits, &params), &probabilities(logits, &params)),
            "{name} {params:?}"
        );
    }
}

#[test]
fn temperature_keeps_the_distribution() {
    keeps(|p| p.temperature = 0.6);
    keeps(|p| p.temperature = 1.0);
    keeps(|p| p.temperature = 1.7);
}

#[test]
fn top_k_keeps_the_distribution() {
    keeps(|p| p.top_k = 3);
    keeps(|p| p.top_k = 40);
}

#[test]
fn top_p_keeps_the_distribution() {
    keeps(|p| p.top_p = 0.5);
    keeps(|p| p.top_p = 0.95);
}

#[test]
fn min_p_keeps_the_distribution() {
    keeps(|p| p.min_p = 0.3);
    keeps(|p| p.min_p = 0.02);
}

#[test]
fn all_together_keep_the_distribution() {
    keeps(|p| (p.temperature, p.top_k, p.top_p, p.min_p) = (0.8, 50, 0.9, 0.03));
    keeps(|p| {
        (p.temperature, p.top_k, p.top_p) = (1.3, 200, 0.8);
        p.logit_bias = [(3, 4.0), (250, -2.0)].into();
    });
}

#[test]
fn a_wrong_distribution_does_not_fit() {
    let logits = &vector("tiny-llama").1.cases[0].logits_after_prompt;
    let drawn = drawn(logits, &params(|_| ()));
    let fits = |edit| fits(&drawn, &probabilities(logits, &params(edit)));
    assert!(fits(|_| ()));
    assert!(!fits(|p| p.temperature = 1.05));
    assert!(!fits(|p| p.temperature = 0.95));
    assert!(!fits(|p| p.top_k = 300));
    assert!(!fits(|p| p.top_p = 0.999));
    assert!(!fits(|p| p.min_p = 0.001));
    assert!(!fits(|p| p.logit_bias = [(107, 0.2)].into()));
    // The exact quantiles; the approximation errs on the wide side by about 1 % for few cells.
    assert!((critical(10.0) - 35.56).abs() < 0.5 && (critical(100.0) - 161.32).abs() < 0.2);
}

#[test]
fn first_tokens_of_many_requests_keep_the_distribution() {
    const REQUESTS: u64 = 2000;
    let (dir, expected) = vector("tiny-llama");
    // A prompt of one token.
    let case = &expected.cases[6];
    let mut engine = build("ch02", &dir);
    let params = SamplingParams {
        max_tokens: 1,
        ..params(|p| (p.temperature, p.top_k, p.min_p) = (0.9, 100, 0.02))
    };
    let input = Input::Ids(case.input_ids.clone());
    let mut first = |seed| {
        let params = SamplingParams {
            seed,
            ..params.clone()
        };
        engine.generate(&input, &params).unwrap().output_ids[0]
    };
    let drawn: Vec<u32> = (0..REQUESTS).map(&mut first).collect();
    assert!(fits(
        &drawn,
        &probabilities(&case.logits_after_prompt, &params)
    ));
    let greedy = engine.generate(&input, &greedy(1)).unwrap().output_ids[0];
    assert!(drawn.iter().any(|id| *id != greedy));
}
