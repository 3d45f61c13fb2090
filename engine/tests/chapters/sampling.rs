//! Sampling in every row: bias, penalties, min-p, seeds, stop strings, log probabilities.

use contracts::{
    defaults::NEAR_TIE_LOGITS,
    generate::{FinishReason, GenerateResult, SamplingParams, TokenLogprobs},
};
use engine::{
    chapters::{Chapter, StepEvent},
    text::Input,
};

use crate::{
    rows, run,
    support::{TOLERANCE, build, greedy, load, vector},
};

fn same_tokens() -> impl Iterator<Item = &'static Chapter> {
    rows().filter(|chapter| chapter.same_tokens)
}

fn best_two(logits: &[f32]) -> ((u32, f32), (u32, f32)) {
    let mut order: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    (order[0], order[1])
}

/// Natural logarithms of the softmax.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(best_two(logits).0.1);
    let sum: f64 = logits.iter().map(|l| (f64::from(*l) - largest).exp()).sum();
    let logprob = |logit: &f32| f64::from(*logit) - largest - sum.ln();
    logits.iter().map(logprob).collect()
}

#[test]
fn a_bias_forces_a_token_and_forbids_another() {
    let (dir, expected) = vector("tiny-llama");
    let case = &expected.cases[1];
    let input = Input::Ids(case.input_ids.clone());
    for chapter in same_tokens() {
        let mut engine = build(chapter.id, &dir);
        let mut ids = |id, bias| {
            let params = SamplingParams {
                logit_bias: [(id, bias)].into(),
                ..greedy(5)
            };
            engine.generate(&input, &params).unwrap().output_ids
        };
        assert_eq!(ids(77, 100.0), [77; 5], "{}", chapter.id);
        let forbidden = case.greedy_ids[0];
        assert!(!ids(forbidden, -100.0).contains(&forbidden));
        assert_eq!(ids(forbidden, 0.5)[0], forbidden);
    }
}

/// Greedy ids by the formulas of the contract over the reference's logits, up to the first near tie.
fn penalised(name: &str, input_ids: &[u32], params: &SamplingParams) -> Vec<u32> {
    let mut forward = load(vector(name).0).forward;
    let mut output_ids: Vec<u32> = Vec::new();
    let mut logits = forward.forward(input_ids, 0).unwrap();
    while output_ids.len() < params.max_tokens as usize {
        for (id, logit) in (0_u32..).zip(&mut logits) {
            let count = output_ids.iter().filter(|made| **made == id).count();
            if count > 0 || input_ids.contains(&id) {
                *logit *= match *logit > 0.0 {
                    true => 1.0 / params.repetition_penalty,
                    false => params.repetition_penalty,
                };
            }
            *logit -= params.frequency_penalty * count as f32;
            *logit -= params.presence_penalty * count.min(1) as f32;
        }
        let ((id, best), (_, second)) = best_two(&logits);
        if best - second < NEAR_TIE_LOGITS {
            break;
        }
        output_ids.push(id);
        let position = input_ids.len() + output_ids.len() - 1;
        logits = forward.forward(&[id], position).unwrap();
    }
    output_ids
}

#[test]
fn penalties_change_a_greedy_answer_as_their_formulas_say() {
    // Its answer says one token over and over.
    let (dir, expected) = vector("tiny-llama");
    let case = &expected.cases[7];
    let edits: [fn(&mut SamplingParams); 4] = [
        |p| p.repetition_penalty = 1.3,
        |p| p.presence_penalty = 1.5,
        |p| p.frequency_penalty = 0.2,
        |p| {
            (p.repetition_penalty, p.presence_penalty) = (1.1, 0.4);
            p.frequency_penalty = 0.3;
        },
    ];
    for edit in edits {
        let mut params = SamplingParams {
            ignore_eos: true,
            ..greedy(32)
        };
        edit(&mut params);
        let ids = penalised("tiny-llama", &case.input_ids, &params);
        assert!(
            ids.len() > 3 && !case.greedy_ids.starts_with(&ids),
            "{ids:?}"
        );
        for chapter in same_tokens() {
            let result = build(chapter.id, &dir)
                .generate(&Input::Ids(case.input_ids.clone()), &params)
                .unwrap();
            assert_eq!(result.output_ids[..ids.len()], ids, "{}", chapter.id);
            let firm = result.metrics.extras["firm_steps"] as usize;
            assert!(firm.abs_diff(ids.len()) <= 1, "{firm} {}", ids.len());
        }
    }
}

#[test]
fn min_p_leaves_what_is_near_the_best() {
    let (dir, expected) = vector("tiny-llama");
    let case = &expected.cases[1];
    for chapter in same_tokens() {
        let mut engine = build(chapter.id, &dir);
        let mut with = |min_p, seed| {
            let params = SamplingParams {
                temperature: 2.0,
                min_p,
                seed,
                logprobs: Some(1),
                ignore_eos: true,
                ..greedy(16)
            };
            let input = Input::Ids(case.input_ids.clone());
            engine.generate(&input, &params).unwrap()
        };
        let logprobs = with(0.4, 3).logprobs.unwrap();
        let gaps: Vec<f32> = logprobs.iter().map(|l| l.top[0].1 - l.logprob).collect();
        // At temperature 2 a share of 0.4 is a gap of 2 · ln(1 / 0.4) between logits.
        let widest = 2.0 * -(0.4_f32.ln());
        assert!(gaps.iter().all(|gap| *gap <= widest + 1e-4), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap > 0.0), "no draw but the best");
        let free = with(0.0, 3).logprobs.unwrap();
        assert!(free.iter().any(|l| l.top[0].1 - l.logprob > widest));
        assert_eq!(with(1.0, 3).output_ids, case.greedy_ids[..16]);
    }
}

#[test]
fn each_request_of_a_batch_draws_with_its_own_seed() {
    let (dir, expected) = vector("tiny-qwen2");
    let input = Input::Ids(expected.cases[1].input_ids.clone());
    let request = |seed| {
        let params = SamplingParams {
            temperature: 1.2,
            seed,
            ignore_eos: true,
            ..greedy(12)
        };
        (input.clone(), params)
    };
    for chapter in same_tokens() {
        let mut engine = build(chapter.id, &dir);
        let batch = engine.generate_batch(&[request(1), request(2), request(1)]);
        let ids: Vec<_> = batch.into_iter().map(|r| r.unwrap().output_ids).collect();
        assert_eq!(ids[0], ids[2], "{}", chapter.id);
        assert_ne!(ids[0], ids[1], "{}", chapter.id);
        let (input, params) = request(2);
        assert_eq!(engine.generate(&input, &params).unwrap().output_ids, ids[1]);
    }
}

/// The result of one request by steps; the texts of its tokens must join to the result's.
fn stepped(
    chapter: &Chapter,
    dir: &std::path::Path,
    input_ids: &[u32],
    params: &SamplingParams,
) -> (GenerateResult, Vec<TokenLogprobs>) {
    let mut engine = build(chapter.id, dir);
    let input = Input::Ids(input_ids.to_vec());
    engine.submit(1, &input, params).unwrap();
    let (mut joined, mut each) = (String::new(), Vec::new());
    let mut ended = None;
    for event in run(engine.as_mut()) {
        match event {
            StepEvent::Token { text, logprobs, .. } => {
                joined.push_str(&text);
                each.extend(logprobs);
            }
            StepEvent::Finished { result, .. } => ended = Some(result.unwrap()),
        }
    }
    let result = ended.unwrap();
    if chapter.streams {
        assert_eq!(joined, result.text, "{}", chapter.id);
    }
    (result, each)
}

#[test]
fn stop_strings_end_in_the_middle_of_a_tokens_text() {
    // An id without text, " world", "zy", " lazy", " 45", …
    let (dir, expected) = vector("tiny-qwen3");
    let case = &expected.cases[0];
    let cases: [(&[&str], &str, usize); 6] = [
        (&["orl"], " w", 2),
        (&["dzy l"], " worl", 4),
        (&["never", "zy l", "azy"], " world", 4),
        (&["azy", "lazy 4"], " worldzy l", 4),
        (&["dzy lx", " "], "", 2),
        (&["ldzy lazz", "y 45"], " worldzy laz", 5),
    ];
    for chapter in same_tokens() {
        for (stop, text, tokens) in cases {
            let params = SamplingParams {
                stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
                ..greedy(48)
            };
            let (result, _) = stepped(chapter, &dir, &case.input_ids, &params);
            assert_eq!(result.text, text, "{} {stop:?}", chapter.id);
            assert_eq!(result.output_ids, case.greedy_ids[..tokens]);
            assert_eq!(result.finish_reason, FinishReason::Stop);
            assert_eq!(result.metrics.output_tokens as usize, tokens);
        }
        // What was held back comes when the answer ends otherwise.
        let params = SamplingParams {
            stop: vec!["zy lazy 46".to_owned()],
            ..greedy(4)
        };
        let (result, _) = stepped(chapter, &dir, &case.input_ids, &params);
        assert_eq!(
            (result.text.as_str(), result.finish_reason),
            (" worldzy lazy", FinishReason::Length)
        );
    }
}

#[test]
fn logprobs_are_the_softmax_of_the_models_logits() {
    for name in ["tiny-llama", "tiny-qwen3"] {
        let (dir, expected) = vector(name);
        for chapter in same_tokens() {
            for case in &expected.cases {
                let params = SamplingParams {
                    logprobs: Some(5),
                    ..greedy(expected.max_new_tokens)
                };
                let (result, each) = stepped(chapter, &dir, &case.input_ids, &params);
                assert_eq!(result.output_ids, case.greedy_ids, "{}", chapter.id);
                let logprobs = result.logprobs.unwrap();
                if chapter.streams {
                    assert_eq!(each, logprobs);
                }
                let ids: Vec<u32> = logprobs.iter().map(|l| l.id).collect();
                assert_eq!(ids, result.output_ids);
                for step in &logprobs {
                    assert_eq!(
                        (step.id, step.logprob),
                        step.top[0],
                        "greedy takes the best"
                    );
                    assert!(step.top.is_sorted_by(|left, right| left.1 >= right.1));
                    let sum: f64 = step.top.iter().map(|top| f64::from(top.1).exp()).sum();
                    assert!(step.top.len() == 5 && sum > 0.0 && sum < 1.000_001, "{sum}");
                }
                let known = log_softmax(&case.logits_after_prompt);
                for (id, logprob) in &logprobs[0].top {
                    let difference = f64::from(*logprob) - known[*id as usize];
                    assert!(
                        difference.abs() < 2.0 * f64::from(TOLERANCE),
                        "{difference}"
                    );
                }
            }
        }
    }
}

#[test]
fn logprobs_do_not_see_what_sampling_does() {
    let (dir, expected) = vector("tiny-llama");
    let case = &expected.cases[1];
    let known = log_softmax(&case.logits_after_prompt);
    for chapter in same_tokens() {
        let params = SamplingParams {
            temperature: 0.5,
            top_k: 3,
            presence_penalty: 1.0,
            logit_bias: [(77, 100.0)].into(),
            logprobs: Some(0),
            ..greedy(1)
        };
        let (result, _) = stepped(chapter, &dir, &case.input_ids, &params);
        let logprobs = result.logprobs.unwrap();
        assert_eq!((logprobs[0].id, logprobs[0].top.len()), (77, 0));
        let difference = f64::from(logprobs[0].logprob) - known[77];
        assert!(
            difference.abs() < 2.0 * f64::from(TOLERANCE),
            "{difference}"
        );
    }
}
