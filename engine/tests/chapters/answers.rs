//! Ids, text and logits against those of transformers, by `generate` and step by step.

use std::collections::BTreeMap;

use contracts::generate::FinishReason;
use engine::{chapters::StepEvent, model::open::Runner, text::Input};

use crate::{
    of_request, rows, run,
    support::{
        TOLERANCE, build, greedy, is_candles, largest_difference, load, one_line, try_build,
        vector, vectors,
    },
};

#[test]
fn every_row_gives_the_ids_of_transformers() {
    for (dir, expected) in vectors() {
        for chapter in rows().filter(|chapter| chapter.same_tokens) {
            if chapter.runner == Some(Runner::Candle) && !is_candles(&dir) {
                let error = try_build(chapter.id, &dir, &[]).err().unwrap();
                let error = one_line(&error);
                assert!(error.ends_with("chapter 3 and later can"), "{error}");
                continue;
            }
            let mut engine = build(chapter.id, &dir);
            for case in &expected.cases {
                let what = format!("{} {} {:?}", chapter.id, dir.display(), case.prompt);
                let input = Input::Text(case.prompt.clone());
                let result = engine
                    .generate(&input, &greedy(expected.max_new_tokens))
                    .unwrap();
                assert_eq!(result.input_ids, case.input_ids, "{what}");
                assert_eq!(result.output_ids, case.greedy_ids, "{what}");
                assert_eq!(result.finish_reason, case.finish_reason, "{what}");
                assert_eq!(result.text, case.greedy_text, "{what}");
                assert_eq!(
                    result.metrics.input_tokens as usize,
                    case.input_ids.len(),
                    "{what}"
                );
                assert_eq!(
                    result.metrics.output_tokens as usize,
                    case.greedy_ids.len(),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn logits_are_those_of_transformers() {
    for (dir, expected) in vectors().into_iter().filter(|(dir, _)| is_candles(dir)) {
        let mut loaded = load(&dir);
        for case in &expected.cases {
            let what = format!("{} {:?}", dir.display(), case.prompt);
            loaded.forward.reset();
            let mut logits = loaded.forward.forward(&case.input_ids, 0).unwrap();
            let difference = largest_difference(&logits, &case.logits_after_prompt);
            assert!(
                difference <= TOLERANCE,
                "{what}: {difference} after the prompt"
            );
            for (step, id) in case.greedy_ids.iter().enumerate() {
                logits = loaded
                    .forward
                    .forward(&[*id], case.input_ids.len() + step)
                    .unwrap();
            }
            let difference = largest_difference(&logits, &case.logits_at_end);
            assert!(difference <= TOLERANCE, "{what}: {difference} at the end");
        }
    }
}

#[test]
fn submit_and_step_give_what_generate_gives() {
    let (dir, expected) = vector("tiny-qwen3");
    for chapter in rows() {
        let mut engine = build(chapter.id, &dir);
        assert!(engine.is_idle() && engine.step().is_empty());
        for (id, case) in (1..).zip(&expected.cases) {
            engine
                .submit(id, &Input::Ids(case.input_ids.clone()), &greedy(48))
                .unwrap();
        }
        assert!(!engine.is_idle());
        // The first request is under way while the others wait: taking events apart by id needs all.
        let mut by_request: BTreeMap<u64, Vec<StepEvent>> = BTreeMap::new();
        for event in run(engine.as_mut()) {
            let (StepEvent::Token { id, .. } | StepEvent::Finished { id, .. }) = &event;
            by_request.entry(*id).or_default().push(event);
        }
        for (id, case) in (1..).zip(&expected.cases) {
            let (texts, mut results) = of_request(by_request.remove(&id).unwrap(), id);
            assert_eq!(results.len(), 1, "one end");
            let result = results.remove(0).unwrap();
            assert_eq!(
                result.output_ids, case.greedy_ids,
                "{} {:?}",
                chapter.id, case.prompt
            );
            assert_eq!(result.text, case.greedy_text);
            if chapter.streams {
                assert_eq!(
                    texts.len(),
                    case.greedy_ids.len(),
                    "an event for each token"
                );
                assert_eq!(texts.concat(), result.text);
            } else {
                assert!(texts.is_empty(), "{texts:?}");
            }
        }
    }
}

#[test]
fn a_second_request_is_not_touched_by_the_first() {
    let (dir, expected) = vector("tiny-qwen2");
    for chapter in rows() {
        let mut engine = build(chapter.id, &dir);
        let input = |case: usize| Input::Ids(expected.cases[case].input_ids.clone());
        let first = engine.generate(&input(0), &greedy(20)).unwrap();
        engine.generate(&input(7), &greedy(5)).unwrap();
        let again = engine.generate(&input(0), &greedy(20)).unwrap();
        assert_eq!(first.output_ids, again.output_ids, "{}", chapter.id);
        assert_eq!(first.output_ids, expected.cases[0].greedy_ids[..20]);
    }
}

#[test]
fn a_batch_gives_each_request_its_own_answer() {
    let (dir, expected) = vector("tiny-llama");
    let requests: Vec<_> = expected
        .cases
        .iter()
        .map(|case| (Input::Ids(case.input_ids.clone()), greedy(48)))
        .collect();
    for chapter in rows() {
        let results = build(chapter.id, &dir).generate_batch(&requests);
        assert_eq!(results.len(), requests.len(), "{}", chapter.id);
        for (result, case) in results.into_iter().zip(&expected.cases) {
            assert_eq!(
                result.unwrap().output_ids,
                case.greedy_ids,
                "{}",
                chapter.id
            );
        }
    }
}

#[test]
fn a_dummy_makes_what_is_asked_the_same_each_time() {
    for chapter in rows() {
        let mut engines = [
            build(chapter.id, "dummy:tiny-llm"),
            build(chapter.id, "dummy:tiny-llm"),
        ];
        for prompt in [
            "Explain in a few sentences why the sky is blue.",
            "x",
            "日本語 🦀\n\t 1234567890",
        ] {
            let mut answer = |engine: usize| {
                engines[engine]
                    .generate(&Input::Text(prompt.to_owned()), &greedy(40))
                    .unwrap()
            };
            let (first, second) = (answer(0), answer(1));
            assert_eq!(
                first.output_ids, second.output_ids,
                "{} {prompt:?}",
                chapter.id
            );
            assert_eq!(
                (first.output_ids.len(), first.finish_reason),
                (40, FinishReason::Length)
            );
            assert!(
                first
                    .text
                    .chars()
                    .all(|char| !char.is_control() && char != '\u{FFFD}'),
                "{:?}",
                first.text
            );
        }
    }
}
