//! An answer that is one document: what it says, what it counts, and the shape of its errors.
//! Pure; what that means for a measurement is left to the groups of probes.

use serde_json::Value;

use super::exchange::{Answer, Reply};

/// Characters of a server's words that a finding keeps.
const WORDS_CHARS_MAX: usize = 120;

/// A server's words fit for a finding: one line, bounded.
pub fn excerpt(text: &str) -> String {
    // Twice as much is looked at, since white space is folded.
    let head: String = text.chars().take(2 * WORDS_CHARS_MAX).collect();
    let words: Vec<&str> = head.split_whitespace().collect();
    let mut line: String = words.join(" ").replace(char::is_control, " ");
    if let Some((end, _)) = line.char_indices().nth(WORDS_CHARS_MAX) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The server's words if a document is an error object, in any of the shapes that servers use.
pub fn error_words(document: &Value) -> Option<String> {
    let error = match document.get("error").filter(|error| !error.is_null()) {
        Some(error) => error,
        None if document.get("object").and_then(Value::as_str) == Some("error") => document,
        None => return None,
    };
    let message = error.get("message").unwrap_or(error);
    Some(match message.as_str() {
        Some(text) => excerpt(text),
        None => excerpt(&message.to_string()),
    })
}

/// Token counts of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// `usage.completion_tokens`
    pub completion_tokens: Option<u32>,
    /// `usage.prompt_tokens`
    pub prompt_tokens: Option<u32>,
    /// `"usage": null`
    pub usage_is_null: bool,
    /// `metrics.output_tokens`, as our servers send it.
    pub metrics_tokens: Option<u32>,
}

impl Counts {
    /// Reads what is there.
    pub fn of(document: &Value) -> Self {
        let count = |path: &str| {
            let number = document.pointer(path).and_then(Value::as_u64);
            number.and_then(|number| u32::try_from(number).ok())
        };
        Self {
            completion_tokens: count("/usage/completion_tokens"),
            prompt_tokens: count("/usage/prompt_tokens"),
            usage_is_null: document.get("usage").is_some_and(Value::is_null),
            metrics_tokens: count("/metrics/output_tokens"),
        }
    }
}

/// A 2xx answer with a choice in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// The text, with reasoning before it.
    pub text: String,
    /// As the server says it.
    pub finish: Option<String>,
    /// Its counts.
    pub counts: Counts,
}

/// Reads an answer that should be whole.
///
/// # Errors
/// In one line, what came instead.
pub fn read(reply: &Reply) -> Result<Whole, String> {
    let answer = reply.as_ref().map_err(ToString::to_string)?;
    if !(200..300).contains(&answer.head.status) {
        return Err(refusal(answer));
    }
    let document: Value = serde_json::from_slice(&answer.body).map_err(|_| {
        format!(
            "{} with what is no JSON: {}",
            answer.head.status,
            excerpt(&String::from_utf8_lossy(&answer.body))
        )
    })?;
    if let Some(error) = error_words(&document) {
        return Err(format!(
            "an error object under {}: {error}",
            answer.head.status
        ));
    }
    let Some(choice) = document.pointer("/choices/0") else {
        return Err(format!("{} without choices", answer.head.status));
    };
    let field = |path: &str| choice.pointer(path).and_then(Value::as_str);
    let parts = [
        field("/message/reasoning_content").or(field("/message/reasoning")),
        field("/message/content").or(field("/text")),
    ];
    Ok(Whole {
        text: parts.into_iter().flatten().collect(),
        finish: field("/finish_reason").map(excerpt),
        counts: Counts::of(&document),
    })
}

/// Status and words of an answer that is not 2xx.
pub fn refusal(answer: &Answer) -> String {
    let words = match shape(answer) {
        Shape::Object(words) | Shape::Json(words) | Shape::Text(words) => words,
        Shape::Html => "an HTML page".to_owned(),
        Shape::Empty => "no words".to_owned(),
    };
    format!("{}: {words}", answer.head.status)
}

/// How the body of an error is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// An `error` object.
    Object(String),
    /// JSON of another shape.
    Json(String),
    /// A page for people.
    Html,
    /// Text.
    Text(String),
    /// Nothing.
    Empty,
}

/// Looks at the body of an answer that is not 2xx.
pub fn shape(answer: &Answer) -> Shape {
    let text = String::from_utf8_lossy(&answer.body);
    let text = text.trim();
    if text.is_empty() {
        return Shape::Empty;
    }
    if text.starts_with('<') || answer.head.header("content-type").contains("html") {
        return Shape::Html;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(document) => match error_words(&document) {
            Some(words) => Shape::Object(words),
            None => Shape::Json(excerpt(text)),
        },
        Err(_) => Shape::Text(excerpt(text)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::exchange::Trouble;
    use super::*;
    use crate::doctor::testing::answer;

    #[test]
    fn a_whole_answer_of_either_endpoint() {
        let chat = r#"{"choices":[{"message":{"content":"b","reasoning":"a"},
            "finish_reason":"length"}],"usage":{"completion_tokens":3}}"#;
        let whole = read(&Ok(answer(200, chat))).unwrap();
        assert_eq!(
            (whole.text.as_str(), whole.finish.unwrap().as_str()),
            ("ab", "length")
        );
        assert_eq!(whole.counts.completion_tokens, Some(3));
        let completion = r#"{"choices":[{"text":"c"}],"usage":null}"#;
        let whole = read(&Ok(answer(200, completion))).unwrap();
        assert_eq!(whole.text, "c");
        assert!(whole.counts.usage_is_null);
    }

    #[test]
    fn what_is_no_answer_is_said_in_a_line() {
        for (reply, words) in [
            (Err(Trouble::Closed), "closed without"),
            (Ok(answer(200, "<html>")), "no JSON: <html>"),
            (Ok(answer(200, r#"{"error":"x y"}"#)), "under 200: x y"),
            (Ok(answer(200, "{}")), "without choices"),
            (
                Ok(answer(401, r#"{"error":{"message":"key?"}}"#)),
                "401: key?",
            ),
            (Ok(answer(502, "<html>bad")), "502: an HTML page"),
            (
                Ok(answer(422, r#"{"detail":[1]}"#)),
                r#"422: {"detail":[1]}"#,
            ),
            (Ok(answer(500, "")), "500: no words"),
        ] {
            let said = read(&reply).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn words_are_one_bounded_line() {
        assert_eq!(excerpt(" a\n\n b\u{1b}[0m "), "a b [0m");
        assert_eq!(excerpt(&"é".repeat(1000)).chars().count(), 121);
    }
}
