//! What prompts must be: of exact length, distinct where cold, the same where the workload is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod given;

use std::collections::HashSet;

use contracts::run::{CacheState, Length, PromptSource, RunSpec, SharedPrefix, TraceRequest};
use engine::text::Text;
use proptest::prelude::*;

use super::testing::{MADE, TINY, open, spec, synthetic};
use super::{Content, Prompt, Prompts};
use crate::load::Route;

fn ids(text: &Text, route: Route, prompt: &Prompt) -> Vec<u32> {
    let input = prompt.content.clone().into_input(route);
    text.encode(&input).unwrap()
}

fn words(prompt: &Prompt) -> &str {
    match &prompt.content {
        Content::Text(words) => words,
        Content::Chat(_) => unreachable!("a text was made"),
    }
}

fn all(prompts: &Prompts, warmup: bool, n: u32) -> Vec<Prompt> {
    (0..n)
        .map(|index| prompts.prompt(warmup, index, &[]).unwrap())
        .collect()
}

fn fixed(tokens: u32) -> PromptSource {
    synthetic(Length::Fixed { tokens }, None)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lengths_are_exact_for_any_seed_and_route(tokens in 40_u32..600, seed: u64, chat: bool, cold: bool) {
        let mut spec = spec();
        spec.workload.prompts = fixed(tokens);
        spec.workload.sampling.seed = seed;
        spec.workload.cache = if cold { CacheState::Cold } else { CacheState::AsIs };
        let route = if chat { Route::Chat } else { Route::Completions };
        let mut cases = vec![(MADE.clone(), route)];
        // The vectors' tokenizers have no template.
        if !chat {
            cases.push((TINY.clone(), route));
        }
        for (text, route) in cases {
            let prompts = Prompts::open(&spec, route, Some(text.clone())).unwrap();
            for prompt in all(&prompts, false, 4) {
                prop_assert_eq!(ids(&text, route, &prompt).len(), tokens as usize);
                prop_assert_eq!(prompt.planned_input_tokens, Some(tokens));
            }
        }
    }
}

#[test]
fn the_smallest_length_is_made_and_one_less_is_refused_with_it() {
    for (text, route) in [
        (&*MADE, Route::Chat),
        (&*MADE, Route::Completions),
        (&*TINY, Route::Completions),
    ] {
        let mut spec = spec();
        spec.workload.prompts = fixed(1);
        let refused = Prompts::open(&spec, route, Some(text.clone()))
            .err()
            .unwrap();
        assert_eq!(refused.field, "workload.prompts.input");
        let smallest = refused.message.split("give ").nth(1).unwrap();
        let smallest: u32 = smallest.split(' ').next().unwrap().parse().unwrap();
        spec.workload.prompts = fixed(smallest);
        let prompts = Prompts::open(&spec, route, Some(text.clone())).unwrap();
        for prompt in all(&prompts, false, 20) {
            assert_eq!(ids(text, route, &prompt).len(), smallest as usize);
        }
        spec.workload.prompts = fixed(smallest - 1);
        assert!(Prompts::open(&spec, route, Some(text.clone())).is_err());
        // Draws below it are raised.
        let low_tokens = 1;
        let high_tokens = smallest + 3;
        spec.workload.prompts = synthetic(
            Length::Uniform {
                low_tokens,
                high_tokens,
            },
            None,
        );
        let prompts = Prompts::open(&spec, route, Some(text.clone())).unwrap();
        let lengths: HashSet<u32> = all(&prompts, false, 100)
            .iter()
            .map(|prompt| u32::try_from(ids(text, route, prompt).len()).unwrap())
            .collect();
        assert_eq!(lengths, (smallest..=high_tokens).collect());
    }
}

#[test]
fn exact_lengths_need_a_tokenizer() {
    let refused = Prompts::open(&spec(), Route::Chat, None).err().unwrap();
    assert_eq!(refused.field, "workload.tokenizer");
    assert!(refused.message.contains("--tokenizer"), "{refused}");
    let mut pairs = spec();
    pairs.workload.prompts = PromptSource::Pairs {
        pairs: vec![given::pair("q", "a")],
    };
    let refused = Prompts::open(&pairs, Route::Chat, None).err().unwrap();
    assert_eq!(refused.field, "workload.tokenizer");
    assert!(refused.message.contains("--max-tokens"), "{refused}");
}

#[test]
fn cold_prompts_differ_by_request_phase_salt_and_seed_and_by_nothing_else() {
    let mut seen = HashSet::new();
    let mut made = 0;
    for seed in [0, 1] {
        for salt in ["a", "b"] {
            let mut spec = spec();
            spec.workload.sampling.seed = seed;
            spec.salt = salt.to_owned();
            let prompts = open(&spec, Route::Chat).unwrap();
            let again = open(&spec, Route::Chat).unwrap();
            for warmup in [true, false] {
                let some = all(&prompts, warmup, 50);
                assert_eq!(some, all(&again, warmup, 50));
                // The words behind the template's and the nonce's differ too, so compare the start.
                for prompt in some {
                    let start = ids(&MADE, Route::Chat, &prompt)
                        .into_iter()
                        .take(16)
                        .collect::<Vec<_>>();
                    seen.insert(start);
                    made += 1;
                }
            }
        }
    }
    assert_eq!((seen.len(), made), (400, 400));
}

#[test]
fn between_runs_only_the_nonce_of_a_cold_prompt_changes() {
    let prompt = |salt: &str| {
        let mut spec = spec();
        spec.salt = salt.to_owned();
        open(&spec, Route::Completions)
            .unwrap()
            .prompt(false, 3, &[])
            .unwrap()
    };
    let (one, two) = (prompt("a"), prompt("b"));
    let split = |prompt: &Prompt| {
        let words: Vec<String> = words(prompt)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        words
    };
    let (one, two) = (split(&one), split(&two));
    let same = one
        .iter()
        .rev()
        .zip(two.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    assert!((58..64).contains(&same), "{same} of 64 words are the same");
}

#[test]
fn prompts_as_they_are_are_the_same_in_every_run() {
    let mut spec = spec();
    spec.workload.cache = CacheState::AsIs;
    let one = all(&open(&spec, Route::Chat).unwrap(), false, 5);
    spec.salt = "another".to_owned();
    let prompts = open(&spec, Route::Chat).unwrap();
    assert_eq!(one, all(&prompts, false, 5));
    assert_ne!(one, all(&prompts, true, 5));
    spec.workload.cache = CacheState::Warm;
    let prompts = open(&spec, Route::Chat).unwrap();
    assert_eq!(one, all(&prompts, false, 5));
    assert_eq!(one, all(&prompts, true, 5));
}

#[test]
fn a_shared_prefix_is_shared_to_the_token_and_only_by_its_share() {
    let prefix = SharedPrefix {
        tokens: 48,
        share: 0.5,
    };
    for (cache, route) in [
        (CacheState::Cold, Route::Chat),
        (CacheState::AsIs, Route::Completions),
    ] {
        let starts = |salt: &str| {
            let mut spec = spec();
            spec.workload.prompts = synthetic(Length::Fixed { tokens: 80 }, Some(prefix));
            spec.workload.cache = cache;
            spec.salt = salt.to_owned();
            let prompts = open(&spec, route).unwrap();
            let made: Vec<Vec<u32>> = all(&prompts, false, 40)
                .iter()
                .map(|prompt| ids(&MADE, route, prompt))
                .collect();
            assert!(made.iter().all(|ids| ids.len() == 80));
            let first = made.first().unwrap()[..48].to_vec();
            let sharing: Vec<&Vec<u32>> =
                made.iter().filter(|ids| ids.starts_with(&first)).collect();
            assert!((19..=21).contains(&sharing.len()), "{}", sharing.len());
            let after: HashSet<&[u32]> = sharing.iter().map(|ids| &ids[48..]).collect();
            assert_eq!(after.len(), sharing.len());
            first
        };
        assert_eq!(starts("a") == starts("b"), cache == CacheState::AsIs);
    }
    let mut short = spec();
    short.workload.prompts = synthetic(
        Length::Fixed { tokens: 48 },
        Some(SharedPrefix {
            tokens: 48,
            share: 1.0,
        }),
    );
    let refused = open(&short, Route::Chat).err().unwrap();
    assert!(
        refused.message.contains("of the shared prefix"),
        "{refused}"
    );
    short.workload.prompts = synthetic(
        Length::Fixed { tokens: 48 },
        Some(SharedPrefix {
            tokens: 1,
            share: 1.0,
        }),
    );
    let refused = open(&short, Route::Chat).err().unwrap();
    assert_eq!(refused.field, "workload.prompts.prefix.tokens");
}

#[test]
fn drawn_outputs_are_ceilings() {
    let mut spec = spec();
    spec.workload.prompts = PromptSource::Synthetic {
        input: Length::Fixed { tokens: 64 },
        output: Some(Length::Uniform {
            low_tokens: 3,
            high_tokens: 5,
        }),
        prefix: None,
    };
    let prompts = open(&spec, Route::Chat).unwrap();
    let ceilings: HashSet<u32> = all(&prompts, false, 50)
        .iter()
        .map(|p| p.max_tokens)
        .collect();
    assert_eq!(ceilings, HashSet::from([3, 4, 5]));
}

fn traced(requests: &[(u32, u32, &[u64])]) -> RunSpec {
    let mut spec = spec();
    let requests = requests
        .iter()
        .zip(0..)
        .map(|((input, output, ids), due_ms)| TraceRequest {
            due_ms,
            input_tokens: *input,
            output_tokens: *output,
            block_ids: ids.to_vec(),
        });
    spec.workload.prompts = PromptSource::Trace {
        requests: requests.collect(),
    };
    spec
}

#[test]
fn a_traces_blocks_are_shared_where_and_only_where_it_says() {
    let spec = traced(&[
        (1300, 7, &[1, 2, 3]),
        (1100, 8, &[1, 2, 9]),
        (700, 9, &[5]),
        (700, 9, &[5]),
        (64, 1, &[]),
    ]);
    for route in [Route::Chat, Route::Completions] {
        let prompts = open(&spec, route).unwrap();
        let made = all(&prompts, false, 10);
        let ids: Vec<Vec<u32>> = made
            .iter()
            .map(|prompt| ids(&MADE, route, prompt))
            .collect();
        let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
        assert_eq!(lengths[..5], [1300, 1100, 700, 700, 64]);
        let ceilings: Vec<u32> = made.iter().map(|prompt| prompt.max_tokens).collect();
        assert_eq!(ceilings[..5], [7, 8, 9, 9, 1]);
        let shared = |a: usize, b: usize| {
            ids[a]
                .iter()
                .zip(&ids[b])
                .take_while(|(a, b)| a == b)
                .count()
        };
        assert_eq!(shared(0, 1), 1024);
        assert_eq!(shared(2, 3), 512);
        // Another block, and the same block a pass later, differ from the template on.
        assert!(
            shared(0, 2) < 40 && shared(0, 5) < 40,
            "{} {}",
            shared(0, 2),
            shared(0, 5)
        );
        assert_ne!(made, all(&prompts, true, 10));
    }
    let mut as_is = spec.clone();
    as_is.workload.cache = CacheState::AsIs;
    let made = all(&open(&as_is, Route::Chat).unwrap(), false, 10);
    assert_eq!(made[..5], made[5..]);
}

#[test]
fn a_trace_with_too_short_a_prompt_is_refused_by_line() {
    let refused = open(&traced(&[(64, 1, &[]), (2, 1, &[])]), Route::Chat)
        .err()
        .unwrap();
    assert_eq!(refused.field, "workload.prompts.requests");
    assert!(
        refused
            .message
            .starts_with("request 1 has a prompt of 2 tokens"),
        "{refused}"
    );
}

/// With a real tokenizer and template: the file that `CHAPTERBENCH_SMOLLM2_GGUF` names.
#[test]
#[ignore = "needs a downloaded model"]
fn lengths_are_exact_with_a_real_model() {
    let path = std::env::var("CHAPTERBENCH_SMOLLM2_GGUF").unwrap();
    let text = engine::inspect::inspect(&path).unwrap().text;
    for route in [Route::Chat, Route::Completions] {
        for tokens in [50, 64, 1000] {
            let mut spec = spec();
            spec.workload.prompts = fixed(tokens);
            let opening = std::time::Instant::now();
            let prompts = Prompts::open(&spec, route, Some(text.clone())).unwrap();
            let opened = opening.elapsed();
            let making = std::time::Instant::now();
            let made = all(&prompts, false, 100);
            let each = making.elapsed() / 100;
            eprintln!("{route:?} {tokens}: opened in {opened:?}, {each:?} a prompt");
            for prompt in made {
                assert_eq!(ids(&text, route, &prompt).len(), tokens as usize);
            }
        }
    }
}
