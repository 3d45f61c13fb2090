//! Prompts that were given: texts, pairs, conversations.

use std::collections::HashSet;

use contracts::openai::ChatMessage;
use contracts::run::{CacheState, PromptPair, PromptSource, RunSpec};

use super::super::testing::{open, spec};
use super::super::{Content, Prompt, Prompts};
use super::{all, words};
use crate::load::Route;

#[test]
fn texts_are_as_they_are_unless_cold() {
    let mut spec = spec();
    let texts = vec!["one".to_owned(), "two".to_owned()];
    spec.workload.prompts = PromptSource::Texts { texts };
    spec.workload.cache = CacheState::AsIs;
    let prompts = Prompts::open(&spec, Route::Chat, None).unwrap();
    let said: Vec<String> = all(&prompts, false, 3)
        .iter()
        .map(|p| words(p).to_owned())
        .collect();
    assert_eq!(said, ["one", "two", "one"]);
    assert_eq!(all(&prompts, true, 3), all(&prompts, false, 3));
    spec.workload.cache = CacheState::Cold;
    let prompts = Prompts::open(&spec, Route::Chat, None).unwrap();
    let cold = all(&prompts, false, 3);
    assert!(
        cold.iter()
            .zip(["one", "two", "one"])
            .all(|(p, text)| words(p).ends_with(&format!("\n{text}")))
    );
    assert_ne!(cold.first(), cold.last());
    assert_ne!(cold.first(), all(&prompts, true, 1).first());
}

pub(super) fn pair(prompt: &str, answer: &str) -> PromptPair {
    PromptPair {
        prompt: prompt.to_owned(),
        answer: answer.to_owned(),
    }
}

#[test]
fn an_answers_tokens_are_its_pairs_ceiling() {
    let mut spec = spec();
    spec.workload.cache = CacheState::AsIs;
    let pairs = vec![pair("q", " ba be bi"), pair("r", "")];
    spec.workload.prompts = PromptSource::Pairs { pairs };
    let prompts = open(&spec, Route::Chat).unwrap();
    let all = all(&prompts, false, 3);
    let ceilings: Vec<u32> = all.iter().map(|prompt| prompt.max_tokens).collect();
    assert_eq!(ceilings, [3, 1, 3]);
    assert_eq!(all.iter().map(words).collect::<Vec<_>>(), ["q", "r", "q"]);
}

fn message(role: &str, content: &str) -> ChatMessage {
    ChatMessage {
        role: role.to_owned(),
        content: content.into(),
    }
}

fn said(prompt: &Prompt) -> String {
    match &prompt.content {
        Content::Chat(messages) => messages
            .iter()
            .map(|m| format!("{}:{}", m.role, m.content.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" "),
        Content::Text(_) => unreachable!("a conversation was made"),
    }
}

fn talk() -> RunSpec {
    let mut spec = spec();
    spec.workload.cache = CacheState::AsIs;
    let recorded = vec![
        message("system", "s"),
        message("user", "a"),
        message("assistant", "A"),
        message("user", "b"),
        message("assistant", "B"),
    ];
    let live = vec![
        message("user", "x"),
        message("user", "y"),
        message("user", "z"),
    ];
    let conversations = vec![recorded, live];
    spec.workload.prompts = PromptSource::Conversations { conversations };
    spec
}

#[test]
fn each_turn_carries_what_was_said_before_it() {
    let prompts = Prompts::open(&talk(), Route::Chat, None).unwrap();
    let turn = |index, answers: &[&str]| {
        let answers: Vec<String> = answers.iter().map(|&a| a.to_owned()).collect();
        said(&prompts.prompt(false, index, &answers).unwrap())
    };
    assert_eq!(turn(0, &[]), "system:s user:a");
    assert_eq!(turn(1, &["live"]), "system:s user:a assistant:A user:b");
    assert_eq!(turn(2, &[]), "user:x");
    assert_eq!(
        turn(4, &["X", "Y"]),
        "user:x assistant:X user:y assistant:Y user:z"
    );
    assert_eq!(turn(5, &[]), turn(0, &[]));
    let together: Vec<u32> = (0..7).map(|index| prompts.together(index)).collect();
    assert_eq!(together, [2, 1, 3, 2, 1, 2, 1]);
    let needs: Vec<bool> = (0..6).map(|index| prompts.needs_answers(index)).collect();
    assert_eq!(needs, [false, false, false, true, true, false]);
    let missing = prompts.prompt(false, 4, &["X".to_owned()]).unwrap_err();
    assert!(
        missing.message.contains("needs the answer to turn 2"),
        "{missing}"
    );
    let plain = Prompts::open(&talk(), Route::Completions, None)
        .err()
        .unwrap();
    assert_eq!(plain.field, "workload.endpoint");
}

#[test]
fn a_cold_conversation_keeps_its_nonce_until_the_next_pass() {
    let mut spec = talk();
    spec.workload.cache = CacheState::Cold;
    let prompts = Prompts::open(&spec, Route::Chat, None).unwrap();
    let nonce = |warmup, index: u32| {
        let answers = vec!["X".to_owned(), "Y".to_owned()];
        let text = said(&prompts.prompt(warmup, index, &answers).unwrap());
        let (nonce, _) = text.split_once('\n').unwrap();
        nonce.split_once(':').unwrap().1.to_owned()
    };
    assert_eq!(nonce(false, 0), nonce(false, 1));
    assert_eq!(nonce(false, 2), nonce(false, 4));
    let distinct = HashSet::from([
        nonce(false, 0),
        nonce(false, 2),
        nonce(false, 5),
        nonce(false, 7),
        nonce(true, 0),
        nonce(true, 2),
    ]);
    assert_eq!(distinct.len(), 6);
}
