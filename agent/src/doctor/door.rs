//! First look: whether the server answers at all, which models and which endpoints it has.

use contracts::doctor::{Finding, Grade};
use serde_json::Value;

use super::ask;
use super::dial::Line;
use super::exchange::{Asker, Reply, Trouble};
use super::whole::{self, Whole, excerpt};
use super::{finding, with_tokens};
use crate::load::Route;

/// Tokens that the first requests ask for: few, and more than one, so that a ceiling is seen.
pub const FEW_TOKENS: u32 = 3;
/// The name to ask by where neither the user nor the server gives one; many servers take any.
const ANY_MODEL: &str = "default";
/// Models named in a finding.
const MODELS_SHOWN: usize = 3;

/// How the connection was opened.
pub fn reach(line: &Line) -> Finding {
    let seen = match &line.tls {
        Some(version) => format!("connected over {version}, certificate trusted"),
        None => "connected, plain HTTP".to_owned(),
    };
    finding("reach", Grade::Fine, seen)
}

/// `GET /health`: what a server that an agent starts is waited for by.
pub fn health(reply: &Reply) -> Finding {
    let (grade, seen) = match reply {
        Ok(answer) if answer.head.status == 200 => (Grade::Fine, "200".to_owned()),
        Ok(answer) => {
            let hint = match answer.head.status {
                404 => "; an entry in engines.toml needs another health path",
                _ => "",
            };
            (Grade::Odd, format!("{}{hint}", whole::refusal(answer)))
        }
        Err(trouble) => (Grade::Odd, trouble.to_string()),
    };
    finding("health", grade, seen)
}

/// The model's name to ask by, from `GET /v1/models` and what the user said.
pub fn models(reply: &Reply, asked: Option<&str>) -> (String, Finding) {
    let names = match listed(reply) {
        Ok(names) => names,
        Err(why) => {
            let (grade, hint) = match asked {
                Some(_) => (Grade::Odd, String::new()),
                None => (
                    Grade::Limits,
                    format!("; `{ANY_MODEL}` is asked for; give the name with --served-model-name"),
                ),
            };
            let model = asked.unwrap_or(ANY_MODEL).to_owned();
            return (model, finding("models", grade, format!("{why}{hint}")));
        }
    };
    let shown: Vec<String> = names
        .iter()
        .take(MODELS_SHOWN)
        .map(|n| excerpt(n))
        .collect();
    let more = match names.len().saturating_sub(MODELS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = format!("{}{more}", shown.join(", "));
    match (asked, names.as_slice()) {
        (Some(asked), names) if names.iter().any(|name| name == asked) => {
            (asked.to_owned(), finding("models", Grade::Fine, shown))
        }
        (Some(asked), _) => (
            asked.to_owned(),
            finding(
                "models",
                Grade::Odd,
                format!("lists {shown}, not {}", excerpt(asked)),
            ),
        ),
        (None, [only]) => (only.clone(), finding("models", Grade::Fine, shown)),
        (None, [first, ..]) => (
            first.clone(),
            finding(
                "models",
                Grade::Odd,
                format!("lists {shown}; the first is asked, choose with --served-model-name"),
            ),
        ),
        (None, []) => (
            ANY_MODEL.to_owned(),
            finding(
                "models",
                Grade::Limits,
                format!(
                    "lists none; `{ANY_MODEL}` is asked for; give the name with --served-model-name"
                ),
            ),
        ),
    }
}

fn listed(reply: &Reply) -> Result<Vec<String>, String> {
    let answer = reply.as_ref().map_err(ToString::to_string)?;
    if answer.head.status != 200 {
        return Err(whole::refusal(answer));
    }
    let document: Value = serde_json::from_slice(&answer.body)
        .map_err(|_| "the list of models is no JSON".to_owned())?;
    let data = document.get("data").and_then(Value::as_array);
    let data = data.ok_or_else(|| "the list of models has no `data`".to_owned())?;
    let name = |model: &Value| Some(model.get("id")?.as_str()?.to_owned());
    Ok(data.iter().filter_map(name).collect())
}

/// The two endpoints, each asked for a whole answer of few tokens.
pub struct Endpoints {
    /// `/v1/chat/completions`
    pub chat: Reply,
    /// `/v1/completions`
    pub completions: Reply,
}

impl Endpoints {
    /// Asks both.
    pub async fn ask(asker: &Asker, model: &str) -> Self {
        let ask = async |route: Route| {
            let body = ask::body(route, model, ask::LONG, FEW_TOKENS);
            asker.post(route.path(), &body).await
        };
        Self {
            chat: ask(Route::Chat).await,
            completions: ask(Route::Completions).await,
        }
    }

    /// Not asked: two GETs gave no sign of life, the last of them in these words.
    pub fn unasked(trouble: &Trouble) -> Self {
        Self {
            chat: Err(trouble.clone()),
            completions: Err(trouble.clone()),
        }
    }

    /// The one that is looked at further, and its answer: chat where there is a choice.
    pub fn chosen(&self) -> Option<(Route, Whole)> {
        let chat = whole::read(&self.chat)
            .ok()
            .map(|whole| (Route::Chat, whole));
        chat.or_else(|| {
            let whole = whole::read(&self.completions).ok()?;
            Some((Route::Completions, whole))
        })
    }

    /// Neither gave a sign of life in time: all else would only wait too.
    pub fn are_silent(&self) -> bool {
        let silent = |reply: &Reply| matches!(reply, Err(Trouble::Silent(_) | Trouble::NoTime));
        silent(&self.chat) && silent(&self.completions)
    }

    /// A line for each; `streams` says that the one looked at answers at least in a stream.
    pub fn findings(&self, streams: bool) -> [Finding; 2] {
        let one_answers = self.chosen().is_some() || streams;
        let judge = |topic: &'static str, reply: &Reply| match whole::read(reply) {
            Ok(whole) => finding(
                topic,
                Grade::Fine,
                format!("answers{}", with_tokens(whole.counts.completion_tokens)),
            ),
            Err(why) => {
                let grade = if one_answers {
                    Grade::Limits
                } else {
                    Grade::Broken
                };
                let key = matches!(reply, Ok(answer) if matches!(answer.head.status, 401 | 403));
                let hint = if key { "; give --api-key-file" } else { "" };
                finding(topic, grade, format!("{why}{hint}"))
            }
        };
        [
            judge("chat", &self.chat),
            judge("completions", &self.completions),
        ]
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::doctor::testing::reply;

    #[test]
    fn the_model_is_the_one_asked_for_or_the_first_listed() {
        let two = reply(200, r#"{"data":[{"id":"a"},{"id":"b"}]}"#);
        let one = reply(200, r#"{"data":[{"id":"a"}]}"#);
        let none = reply(404, "");
        for (listed, asked, model, grade) in [
            (&one, None, "a", Grade::Fine),
            (&two, None, "a", Grade::Odd),
            (&two, Some("b"), "b", Grade::Fine),
            (&two, Some("c"), "c", Grade::Odd),
            (&none, Some("c"), "c", Grade::Odd),
            (&none, None, "default", Grade::Limits),
        ] {
            let (name, finding) = models(listed, asked);
            assert_eq!(
                (name.as_str(), finding.grade),
                (model, grade),
                "{}",
                finding.seen
            );
        }
    }

    #[test]
    fn one_endpoint_is_enough() {
        let good = reply(200, r#"{"choices":[{"text":"x"}]}"#);
        let both_bad = Endpoints {
            chat: reply(401, ""),
            completions: Err(Trouble::Closed),
        };
        let [chat, completions] = both_bad.findings(false);
        assert_eq!(
            (chat.grade, completions.grade),
            (Grade::Broken, Grade::Broken)
        );
        assert!(chat.seen.contains("--api-key-file"), "{}", chat.seen);
        let one = Endpoints {
            completions: good,
            ..both_bad
        };
        assert_eq!(one.chosen().unwrap().0, Route::Completions);
        let [chat, completions] = one.findings(false);
        assert_eq!(
            (chat.grade, completions.grade),
            (Grade::Limits, Grade::Fine)
        );
    }
}
