//! A data set in ShareGPT's shape: of each conversation the first question and its answer, of which
//! the run takes a sample that the seed draws.
//!
//! The file may be larger than memory: entries are read one by one and only those drawn are kept.

use std::collections::BinaryHeap;
use std::io::BufRead;
use std::path::Path;

use contracts::defaults;
use contracts::run::{PromptPair, PromptSource};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::conversations::sharegpt_role;
use super::documents::documents;
use super::{Dataset, Fault, FileError, Place, read};

/// A data set's file, in bytes, at most: several times the largest copy of ShareGPT. It is read
/// once and never held.
const DATASET_BYTES_MAX: u64 = 4 << 30;
/// Question and answer together, in bytes, at most: about 2048 tokens of English, which every model
/// of today has room for. Longer pairs are skipped.
const PAIR_BYTES_MAX: usize = 8 << 10;
/// Pairs of one sample, in bytes, at most: half of what a body may carry, for its JSON is longer.
const SAMPLE_BYTES_MAX: usize = defaults::BODY_BYTES_MAX / 2;

/// Draws `count` pairs (fewer, if the file has fewer) in an order that `seed` decides: a JSON array
/// or a document a line of `{"conversations": [{"from": "human", "value": …}, {"from": "gpt", …}]}`
/// (or `messages` of `role`, `content`). Entries without a question and an answer to it, and those
/// longer than 8 KiB, are skipped and counted.
///
/// # Errors
/// The place, and what is expected there.
pub fn sharegpt(file: &Path, seed: u64, count: usize) -> Result<Dataset, FileError> {
    read(file, DATASET_BYTES_MAX, |reader| parse(reader, seed, count))
}

fn parse(reader: impl BufRead, seed: u64, count: usize) -> Result<Dataset, Fault> {
    let count = count.clamp(1, defaults::PROMPTS_MAX);
    // The pairs with the smallest ranks so far, the largest of them on top.
    let mut drawn: BinaryHeap<Ranked> = BinaryHeap::new();
    let (mut usable, mut skipped) = (0_usize, 0_usize);
    documents(reader, |place, document| {
        let Some(pair) = first_pair(&document) else {
            skipped += 1;
            return Ok(());
        };
        usable += 1;
        drawn.push(Ranked {
            rank: rank(seed, place),
            pair,
        });
        if drawn.len() > count {
            drawn.pop();
        }
        Ok(())
    })?;
    let mut bytes = 0;
    let pairs: Vec<PromptPair> = drawn
        .into_sorted_vec()
        .into_iter()
        .map(|ranked| ranked.pair)
        .take_while(|pair| {
            bytes += size(pair);
            bytes <= SAMPLE_BYTES_MAX
        })
        .collect();
    if pairs.is_empty() {
        let message = format!(
            "no question with an answer in it ({skipped} entries skipped); expected \
             {{\"conversations\": [{{\"from\": \"human\", \"value\": …}}, {{\"from\": \"gpt\", …}}]}}"
        );
        return Err(Fault::Whole(message));
    }
    Ok(Dataset {
        left_out: usable - pairs.len(),
        source: PromptSource::Pairs { pairs },
        skipped,
    })
}

/// The first turn of the user and the answer right after it.
fn first_pair(document: &Value) -> Option<PromptPair> {
    let turns = document.get("conversations").or(document.get("messages"))?;
    let turns: Vec<(Option<&str>, &str)> = turns.as_array()?.iter().map(turn).collect();
    let asked = turns.iter().position(|(role, _)| *role == Some("user"))?;
    let (_, prompt) = turns.get(asked)?;
    let (role, answer) = turns.get(asked + 1)?;
    let pair = PromptPair {
        prompt: (*prompt).to_owned(),
        answer: (*answer).to_owned(),
    };
    let whole = !prompt.trim().is_empty() && !answer.trim().is_empty();
    (*role == Some("assistant") && whole && size(&pair) <= PAIR_BYTES_MAX).then_some(pair)
}

/// Who speaks, where that is known, and what.
fn turn(message: &Value) -> (Option<&str>, &str) {
    let text = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|key| message.get(key));
        found.and_then(Value::as_str)
    };
    let role = text(["from", "role"]).and_then(sharegpt_role);
    (role, text(["value", "content"]).unwrap_or_default())
}

fn size(pair: &PromptPair) -> usize {
    pair.prompt.len() + pair.answer.len()
}

/// Where the seed puts an entry in the order of all: equally likely anywhere, and the same for the
/// same file whatever the count.
fn rank(seed: u64, place: Place) -> [u8; 32] {
    let (Place::Line(number) | Place::Entry(number)) = place;
    let mut hasher = Sha256::new();
    hasher.update(b"sharegpt");
    hasher.update(seed.to_le_bytes());
    hasher.update((number as u64).to_le_bytes());
    hasher.finalize().into()
}

struct Ranked {
    rank: [u8; 32],
    pair: PromptPair,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::super::told;
    use super::*;

    fn file(entries: usize) -> String {
        (0..entries)
            .map(|i| {
                format!(
                    "{{\"id\": \"{i}\", \"conversations\": [{{\"from\": \"human\", \"value\": \"q{i}\"}}, \
                     {{\"from\": \"gpt\", \"value\": \"a{i}\"}}]}}\n"
                )
            })
            .collect()
    }

    fn drawn(text: &str, seed: u64, count: usize) -> Vec<String> {
        let read = parse(text.as_bytes(), seed, count).unwrap();
        let PromptSource::Pairs { pairs } = read.source else {
            unreachable!("pairs were read")
        };
        for pair in &pairs {
            assert_eq!(pair.prompt.replace('q', "a"), pair.answer);
        }
        pairs.into_iter().map(|pair| pair.prompt).collect()
    }

    #[test]
    fn the_seed_draws_and_a_smaller_sample_is_the_start_of_a_larger() {
        let text = file(50);
        let ten = drawn(&text, 1, 10);
        assert_eq!(ten.len(), 10);
        assert_eq!(drawn(&text, 1, 20)[..10], ten[..]);
        assert_ne!(drawn(&text, 2, 10), ten);
        let mut all = drawn(&text, 1, 1000);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 50);
        assert_eq!(parse(text.as_bytes(), 1, 10).unwrap().left_out, 40);
    }

    #[test]
    fn an_array_gives_the_same_as_lines() {
        let text = file(20);
        let array = format!("[{}]", text.trim().replace('\n', ","));
        assert_eq!(drawn(&array, 7, 5), drawn(&text, 7, 5));
    }

    #[test]
    fn entries_without_an_answer_are_skipped_and_counted() {
        let long = "x".repeat(PAIR_BYTES_MAX);
        let entries = serde_json::json!([
            {"conversations": []},
            {"id": 3},
            {"conversations": [{"from": "human", "value": "q"}]},
            {"conversations": [{"from": "human", "value": "q"}, {"from": "human", "value": "q"}]},
            {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": ""}]},
            {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": long}]},
            {"conversations": [
                {"from": "gpt", "value": "hello"},
                {"from": "user", "value": "q1"},
                {"from": "chatgpt", "value": "a1"},
            ]},
            {"messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "q2"},
                {"role": "assistant", "content": "a2"},
            ]},
        ]);
        let text = entries.to_string();
        assert_eq!(parse(text.as_bytes(), 0, 9).unwrap().skipped, 6);
        let mut kept = drawn(&text, 0, 9);
        kept.sort();
        assert_eq!(kept, ["q1", "q2"]);
        let none = told(parse(&b"[{}, 3]"[..], 0, 9));
        assert!(
            none.starts_with("no question with an answer in it (2 entries skipped)"),
            "{none}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in ".*") {
            let _ = parse(bytes.as_slice(), 0, 3);
            let _ = parse(format!("{{\"conversations\": [{text}]}}").as_bytes(), 0, 3);
        }
    }
}
