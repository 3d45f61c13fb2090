//! Whether the server does what requests say: ceiling, end of sequence, temperature, seed.

use contracts::doctor::{Finding, Grade};
use serde_json::{Value, json};

use super::ask;
use super::door::FEW_TOKENS;
use super::exchange::{Asker, Reply};
use super::whole::{self, Whole};
use super::{finding, with_tokens};
use crate::load::Route;

/// Tokens that an answer may have where it should end by itself.
const ROOM_TOKENS: u32 = 64;
/// Tokens of answers that are compared with each other.
const COMPARED_TOKENS: u32 = 16;
/// Seeds: one asked twice, and another.
const SEEDS: [u64; 3] = [7, 7, 8];

/// Asks for what can be told only by comparing answers.
pub async fn look(asker: &Asker, route: Route, model: &str) -> Vec<Finding> {
    let ask = async |body: Value| asker.post(route.path(), &body).await;
    let short = ask::body(route, model, ask::SHORT, ROOM_TOKENS);
    let mut on = short.clone();
    ask::with(&mut on, "ignore_eos", json!(true));
    let (plain, ignoring) = (ask(short).await, ask(on).await);
    let long = ask::body(route, model, ask::LONG, COMPARED_TOKENS);
    let greedy_twice = [ask(long.clone()).await, ask(long.clone()).await];
    let drawn = async |seed: u64| {
        let mut body = long.clone();
        ask::with(&mut body, "temperature", json!(1));
        ask::with(&mut body, "seed", json!(seed));
        ask(body).await
    };
    let [first, again, other] = SEEDS;
    let draws = [drawn(first).await, drawn(again).await, drawn(other).await];
    vec![
        ignore_eos(&plain, &ignoring),
        greedy(&greedy_twice),
        seed(&draws),
    ]
}

/// From the first whole answer, which asked for [`FEW_TOKENS`].
pub fn max_tokens(whole: &Whole) -> Finding {
    let count = whole
        .counts
        .completion_tokens
        .or(whole.counts.metrics_tokens);
    let finish = whole.finish.as_deref().unwrap_or("none");
    let (grade, seen) = match (count, finish) {
        (Some(count), _) if count > FEW_TOKENS => (
            Grade::Limits,
            format!("asked for {FEW_TOKENS}, got {count}: lengths cannot be set"),
        ),
        (Some(count), "length") if count == FEW_TOKENS => {
            (Grade::Fine, format!("asked for {FEW_TOKENS}, got as many"))
        }
        (None, "length") => (
            Grade::Fine,
            format!("asked for {FEW_TOKENS}; finish_reason length, no usage to check by"),
        ),
        (count, finish) => (
            Grade::Unknown,
            format!(
                "asked for {FEW_TOKENS}, the answer ended{}, finish_reason {finish}",
                with_tokens(count)
            ),
        ),
    };
    finding("max_tokens", grade, seen)
}

fn ignore_eos(plain: &Reply, ignoring: &Reply) -> Finding {
    let told = |grade, seen: String| finding("ignore_eos", grade, seen);
    let plain = match whole::read(plain) {
        Ok(plain) => plain,
        Err(why) => return told(Grade::Unknown, why),
    };
    let refused = matches!(ignoring, Ok(answer) if (400..500).contains(&answer.head.status));
    let ignoring = match whole::read(ignoring) {
        Ok(ignoring) => ignoring,
        Err(why) if refused => return told(Grade::Limits, format!("refused: {why}")),
        Err(why) => return told(Grade::Unknown, why),
    };
    let full = |whole: &Whole| whole.finish.as_deref() == Some("length");
    let tokens = |whole: &Whole| with_tokens(whole.counts.completion_tokens);
    match (full(&plain), full(&ignoring)) {
        (true, _) => told(
            Grade::Unknown,
            format!("without it the answer has {ROOM_TOKENS} tokens too"),
        ),
        (false, true) => told(
            Grade::Fine,
            format!(
                "goes on to the ceiling where the answer ends{} by itself",
                tokens(&plain)
            ),
        ),
        (false, false) => told(
            Grade::Limits,
            format!(
                "no effect: the answer ends{} with it{} without",
                tokens(&ignoring),
                tokens(&plain)
            ),
        ),
    }
}

fn texts<const N: usize>(replies: &[Reply; N]) -> Result<[String; N], String> {
    let mut texts = std::array::from_fn(|_| String::new());
    for (text, reply) in texts.iter_mut().zip(replies) {
        *text = whole::read(reply)?.text;
    }
    Ok(texts)
}

fn greedy(replies: &[Reply; 2]) -> Finding {
    let (grade, seen) = match texts(replies) {
        Err(why) => (Grade::Unknown, why),
        Ok([first, second]) if first == second => (Grade::Fine, "the same answer twice".to_owned()),
        Ok(_) => (
            Grade::Limits,
            "two answers at temperature 0 differ: outputs cannot be compared".to_owned(),
        ),
    };
    finding("greedy", grade, seen)
}

fn seed(replies: &[Reply; 3]) -> Finding {
    let refused = replies
        .iter()
        .any(|reply| matches!(reply, Ok(answer) if (400..500).contains(&answer.head.status)));
    let (grade, seen) = match texts(replies) {
        Err(why) if refused => (Grade::Limits, format!("refused: {why}")),
        Err(why) => (Grade::Unknown, why),
        Ok([first, again, _]) if first != again => (
            Grade::Limits,
            "one seed gave two answers: draws cannot be repeated".to_owned(),
        ),
        Ok([first, _, other]) if first == other => (
            Grade::Unknown,
            "two seeds gave the same answer; the model may have had no choice".to_owned(),
        ),
        Ok(_) => (
            Grade::Fine,
            "one seed repeats its answer, another differs".to_owned(),
        ),
    };
    finding("seed", grade, seen)
}

#[cfg(test)]
mod tests {
    use super::super::exchange::Trouble;
    use super::super::whole::Counts;
    use super::*;
    use crate::doctor::testing::reply;

    fn said(text: &str, finish: &str) -> Reply {
        let body = json!({"choices": [{"text": text, "finish_reason": finish}]});
        reply(200, &body.to_string())
    }

    #[test]
    fn a_ceiling_is_kept_or_not() {
        for (tokens, finish, grade) in [
            (Some(3), "length", Grade::Fine),
            (None, "length", Grade::Fine),
            (Some(8), "stop", Grade::Limits),
            (Some(2), "stop", Grade::Unknown),
            (None, "stop", Grade::Unknown),
        ] {
            let whole = Whole {
                finish: Some(finish.to_owned()),
                counts: Counts {
                    completion_tokens: tokens,
                    ..Counts::default()
                },
                ..Whole::default()
            };
            assert_eq!(max_tokens(&whole).grade, grade, "{tokens:?} {finish}");
        }
    }

    #[test]
    fn ignoring_the_end_is_told_only_where_there_is_one() {
        let (stop, length) = (said("OK", "stop"), said("OK OK", "length"));
        for (plain, ignoring, grade) in [
            (&stop, &length, Grade::Fine),
            (&stop, &stop, Grade::Limits),
            (&stop, &reply(400, ""), Grade::Limits),
            (&stop, &Err(Trouble::Closed), Grade::Unknown),
            (&length, &length, Grade::Unknown),
        ] {
            let finding = ignore_eos(plain, ignoring);
            assert_eq!(finding.grade, grade, "{}", finding.seen);
        }
    }

    #[test]
    fn draws_repeat_by_seed() {
        let [a, b] = ["a", "b"].map(|text| said(text, "length"));
        let grade = |replies: [&Reply; 3]| seed(&replies.map(Clone::clone)).grade;
        assert_eq!(grade([&a, &a, &b]), Grade::Fine);
        assert_eq!(grade([&a, &a, &a]), Grade::Unknown);
        assert_eq!(grade([&a, &b, &b]), Grade::Limits);
        assert_eq!(grade([&reply(400, ""), &a, &b]), Grade::Limits);
        assert_eq!(greedy(&[a.clone(), a.clone()]).grade, Grade::Fine);
        assert_eq!(greedy(&[a, b]).grade, Grade::Limits);
    }
}
