//! Requests in company: whoever else runs, joins or leaves, each gets the tokens it gets alone.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use contracts::generate::{GenerateResult, SamplingParams};
use engine::{
    chapters::{Engine, StepEvent},
    model::open::Runner,
    text::Input,
};
use proptest::prelude::*;

use crate::{
    TOGETHER, options, rows as chapters,
    support::{Case, build, build_with, greedy, is_candles, one_line, try_build, vector, vectors},
};

/// A request of a random session.
#[derive(Debug, Clone)]
struct Visit {
    /// Which of the model's prompts.
    case: prop::sample::Index,
    ceiling: u32,
    /// Draws with this seed; greedy without one.
    seed: Option<u64>,
    /// Comes before this step.
    arrives: usize,
    /// Goes away so many steps later, if it has not ended by then.
    patience: Option<usize>,
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    let one = (
        any::<prop::sample::Index>(),
        1_u32..=48,
        prop::option::weighted(0.3, 0_u64..3),
        0_usize..60,
        prop::option::weighted(0.3, 0_usize..40),
    );
    let visit = one.prop_map(|(case, ceiling, seed, arrives, patience)| Visit {
        case,
        ceiling,
        seed,
        arrives,
        patience,
    });
    prop::collection::vec(visit, 1..16)
}

impl Visit {
    fn params(&self) -> SamplingParams {
        match self.seed {
            None => greedy(self.ceiling),
            Some(seed) => SamplingParams {
                temperature: 0.9,
                top_k: 40,
                top_p: 0.95,
                seed,
                ignore_eos: true,
                ..greedy(self.ceiling)
            },
        }
    }

    /// What it gets alone: transformers' ids, or its own draws from a fresh engine.
    fn expected(&self, alone: &mut dyn Engine, case: &Case) -> Vec<u32> {
        match self.seed {
            None => {
                let ceiling = self.ceiling as usize;
                case.greedy_ids.iter().copied().take(ceiling).collect()
            }
            Some(_) => {
                let input = Input::Ids(case.input_ids.clone());
                alone.generate(&input, &self.params()).unwrap().output_ids
            }
        }
    }
}

/// Runs a session; the results of those that ended, by index.
fn run(
    engine: &mut dyn Engine,
    visits: &[Visit],
    cases: &[Case],
) -> BTreeMap<usize, GenerateResult> {
    const STEPS_MAX: usize = 5_000;
    let mut results = BTreeMap::new();
    for step in 0..STEPS_MAX {
        for (id, visit) in (0..).zip(visits) {
            if visit.arrives == step {
                let input = Input::Ids(visit.case.get(cases).input_ids.clone());
                engine.submit(id, &input, &visit.params()).unwrap();
            }
            if visit
                .patience
                .is_some_and(|steps| visit.arrives + steps == step)
            {
                engine.cancel(id);
            }
        }
        let was_idle = engine.is_idle();
        let events = engine.step();
        assert_eq!(was_idle, events.is_empty(), "a step without a token");
        for event in events {
            if let StepEvent::Finished { id, result } = event {
                let before = results.insert(usize::try_from(id).unwrap(), result.unwrap());
                assert!(before.is_none(), "ended twice");
            }
        }
        if engine.is_idle() && visits.iter().all(|visit| visit.arrives <= step) {
            return results;
        }
    }
    unreachable!("{STEPS_MAX} steps and not idle")
}

/// Bounds so tight that requests wait for seats, for tokens and for memory; none where they run one
/// after another.
fn bounds(chapter: &str, rows: usize, room: usize, kv_tokens: usize) -> Vec<(&'static str, usize)> {
    let bound = |name: &&'static str| match *name {
        "kv_tokens" => (*name, kv_tokens),
        "max_step_tokens" => (*name, rows + room),
        _ => (*name, rows),
    };
    options(chapter).iter().map(bound).collect()
}

fn check(dir: &Path, cases: &[Case], visits: &[Visit], rows: usize, room: usize, kv_tokens: usize) {
    let promised = chapters().filter(|chapter| chapter.same_tokens);
    let able = promised.filter(|row| row.runner != Some(Runner::Candle) || is_candles(dir));
    for chapter in able.map(|chapter| chapter.id) {
        let mut engine = build_with(chapter, dir, &bounds(chapter, rows, room, kv_tokens));
        let mut alone = build(chapter, dir);
        let results = run(engine.as_mut(), visits, cases);
        for (index, visit) in visits.iter().enumerate() {
            let what = format!("{chapter} {} {index} {visit:?}", dir.display());
            match results.get(&index) {
                Some(result) => {
                    let expected = visit.expected(alone.as_mut(), visit.case.get(cases));
                    assert_eq!(result.output_ids, expected, "{what}");
                }
                None => assert!(visit.patience.is_some(), "{what}: lost"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn joining_and_leaving_in_any_order_changes_no_token(
        model in any::<prop::sample::Index>(),
        visits in visits(),
        rows in 1_usize..6,
        room in 1_usize..60,
        // The longest prompt and ceiling of the vectors fit alone.
        kv_tokens in 128_usize..400,
    ) {
        let models = vectors();
        let (dir, expected) = model.get(&models);
        check(dir, &expected.cases, &visits, rows, room, kv_tokens);
    }
}

/// A model's folder and its cases, for the tests that need one model only.
fn tiny_llama() -> (PathBuf, Vec<Case>) {
    let (dir, expected) = vector("tiny-llama");
    (dir, expected.cases)
}

#[test]
fn a_batch_says_how_many_rows_its_passes_had() {
    let (dir, cases) = tiny_llama();
    let request = |max_tokens| {
        let params = SamplingParams {
            ignore_eos: true,
            ..greedy(max_tokens)
        };
        (Input::Ids(cases[1].input_ids.clone()), params)
    };
    for (chapter, _) in TOGETHER {
        let results = build(chapter, &dir).generate_batch(&[request(2), request(4)]);
        let mean = |at: usize| {
            let result: &Result<GenerateResult, _> = &results[at];
            result.as_ref().unwrap().metrics.extras["batch_mean"]
        };
        // Two passes of two rows, then two of one.
        assert_eq!((mean(0), mean(1)), (2.0, 1.5), "{chapter}");
    }
}

#[test]
fn each_row_of_a_batch_has_its_own_stop() {
    let (dir, expected) = vector("tiny-qwen3");
    let case = &expected.cases[0];
    let input = Input::Ids(case.input_ids.clone());
    // One ends by its stop string, one by its ceiling, one by a stop string of its own, one by none.
    let asked = [
        (Some("orl"), 48, " w", 2),
        (None, 3, " worldzy", 3),
        (Some("azy"), 48, " worldzy l", 4),
        (None, 48, case.greedy_text.as_str(), case.greedy_ids.len()),
    ];
    let requests = asked.map(|(stop, ceiling, ..)| {
        let params = SamplingParams {
            stop: stop.into_iter().map(str::to_owned).collect(),
            ..greedy(ceiling)
        };
        (input.clone(), params)
    });
    for (chapter, _) in TOGETHER {
        let results = build(chapter, &dir).generate_batch(&requests);
        for (result, (_, _, text, tokens)) in results.into_iter().zip(asked) {
            let result = result.unwrap();
            assert_eq!(result.text, text, "{chapter}");
            assert_eq!(result.output_ids, case.greedy_ids[..tokens], "{chapter}");
        }
    }
}

#[test]
fn a_batch_is_closed_to_late_comers_and_a_continuous_one_is_not() {
    let (dir, cases) = tiny_llama();
    let input = Input::Ids(cases[1].input_ids.clone());
    let params = SamplingParams {
        ignore_eos: true,
        ..greedy(6)
    };
    for (chapter, first_with_both) in [("ch05", None), ("ch09", Some(2))] {
        let mut engine = build(chapter, &dir);
        engine.submit(1, &input, &params).unwrap();
        engine.step();
        engine.submit(2, &input, &params).unwrap();
        let both = |events: &[StepEvent]| {
            let has = |wanted| {
                let is = |event: &StepEvent| matches!(event, StepEvent::Token { id, .. } if *id == wanted);
                events.iter().any(is)
            };
            has(1) && has(2)
        };
        let steps: Vec<_> = (2..=12).map(|step| (step, both(&engine.step()))).collect();
        let first = steps.iter().find(|(_, both)| *both).map(|(step, _)| *step);
        assert_eq!(first, first_with_both, "{chapter}");
        assert!(engine.is_idle());
    }
}

#[test]
fn what_the_memory_can_never_hold_is_refused_and_what_fills_it_is_not() {
    let (dir, _) = tiny_llama();
    for (chapter, _) in TOGETHER {
        let mut engine = build_with(chapter, &dir, &[("kv_tokens", 64)]);
        assert_eq!(engine.facts().context_tokens, 64, "rest of context fits");
        let full = SamplingParams {
            ignore_eos: true,
            ..greedy(14)
        };
        let input = |tokens| Input::Ids(vec![5; tokens]);
        assert_eq!(
            engine.submit(1, &input(51), &full).unwrap_err().to_string(),
            "max_tokens: prompt and ceiling are 65 tokens and there is memory for 64; ask for fewer, or raise the option kv_tokens"
        );
        assert!(engine.is_idle());
        assert_eq!(
            engine.generate(&input(50), &full).unwrap().output_ids.len(),
            14
        );
        // The memory is free again, and a batch takes turns.
        let twice = [(input(50), full.clone()), (input(50), full.clone())];
        for result in engine.generate_batch(&twice) {
            assert_eq!(result.unwrap().output_ids.len(), 14, "{chapter}");
        }
    }
}

#[test]
fn options_that_cannot_be_are_refused_by_name() {
    let (dir, _) = tiny_llama();
    let line = |chapter, option, value| {
        let error = try_build(chapter, &dir, &[(option, value)]).err().unwrap();
        one_line(&error)
    };
    for (chapter, _) in TOGETHER {
        assert_eq!(
            line(chapter, "kv_tokens", 0),
            "option: kv_tokens is \"0\" and must be a number of at least 1"
        );
        let too_many = line(chapter, "kv_tokens", usize::MAX);
        assert_eq!(
            too_many,
            format!(
                "option: kv_tokens is {max}: memory for keys and values of {max} positions: too many",
                max = usize::MAX
            )
        );
    }
    // A full company leaves no room for a prompt.
    assert_eq!(
        line("ch09", "max_step_tokens", 32),
        "option: max_step_tokens is \"32\" and must be a number of at least 33"
    );
}

#[test]
fn a_refused_request_of_a_batch_leaves_the_others_alone() {
    let (dir, cases) = tiny_llama();
    let good = (Input::Ids(cases[1].input_ids.clone()), greedy(8));
    let bad = (Input::Text(String::new()), greedy(8));
    for (chapter, _) in TOGETHER {
        let results =
            build(chapter, &dir).generate_batch(&[good.clone(), bad.clone(), good.clone()]);
        let ids: Vec<_> = results
            .into_iter()
            .map(|result| result.map(|result| result.output_ids).ok())
            .collect();
        let right = Some(cases[1].greedy_ids[..8].to_vec());
        assert_eq!(ids, [right.clone(), None, right], "{chapter}");
    }
}
