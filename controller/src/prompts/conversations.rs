//! Conversations of several turns, in OpenAI's words (`messages` of `role`, `content`) or
//! ShareGPT's (`conversations` of `from`, `value`).

use std::io::BufRead;
use std::path::Path;

use contracts::openai::ChatMessage;
use contracts::run::PromptSource;
use serde_json::Value;

use super::documents::documents;
use super::{Dataset, FILE_BYTES_MAX, Fault, FileError, check_count, read};

/// Reads conversations: a JSON array or a document a line. Those without a turn of the user are
/// skipped and counted.
///
/// # Errors
/// The place, and what is expected there.
pub fn conversations(file: &Path) -> Result<Dataset, FileError> {
    read(file, FILE_BYTES_MAX, parse)
}

fn parse(reader: impl BufRead) -> Result<Dataset, Fault> {
    let mut conversations = Vec::new();
    let mut skipped = 0;
    documents(reader, |place, document| {
        let turns = match (document.get("messages"), document.get("conversations")) {
            (Some(list), _) => messages(list),
            (None, Some(list)) => sharegpt_turns(list),
            (None, None) => {
                Err("expected a list under \"messages\" or \"conversations\"".to_owned())
            }
        };
        let turns = turns.map_err(|message| place.fault(message))?;
        match turns.iter().any(|turn| turn.role == "user") {
            true => conversations.push(turns),
            false => skipped += 1,
        }
        Ok(())
    })?;
    check_count(conversations.len(), "conversation")?;
    Ok(Dataset {
        source: PromptSource::Conversations { conversations },
        skipped,
        left_out: 0,
    })
}

/// `[{"role": …, "content": …}, …]`.
pub(super) fn messages(list: &Value) -> Result<Vec<ChatMessage>, String> {
    turns(list, "role", "content", |role| {
        matches!(role, "system" | "user" | "assistant").then(|| role.to_owned())
    })
}

fn sharegpt_turns(list: &Value) -> Result<Vec<ChatMessage>, String> {
    turns(list, "from", "value", |from| {
        sharegpt_role(from).map(str::to_owned)
    })
}

/// What ShareGPT's copies call the sides, in OpenAI's words.
pub(super) fn sharegpt_role(from: &str) -> Option<&'static str> {
    match from {
        "human" | "user" => Some("user"),
        "gpt" | "assistant" | "chatgpt" | "model" | "bot" | "bard" | "bing" => Some("assistant"),
        "system" => Some("system"),
        _ => None,
    }
}

fn turns(
    list: &Value,
    role_key: &str,
    text_key: &str,
    role_of: impl Fn(&str) -> Option<String>,
) -> Result<Vec<ChatMessage>, String> {
    let list = list.as_array().ok_or("expected a list of messages")?;
    let turn = |(place, message): (usize, &Value)| {
        let at = |what: String| format!("message {}: {what}", place + 1);
        let role = message.get(role_key).and_then(Value::as_str);
        let role = role.ok_or_else(|| at(format!("expected text under {role_key:?}")))?;
        let known = "use system, user or assistant";
        let role =
            role_of(role).ok_or_else(|| at(format!("the role {role:?} is not known; {known}")))?;
        match message.get(text_key) {
            Some(content @ (Value::String(_) | Value::Array(_))) => Ok(ChatMessage {
                role,
                content: content.clone(),
            }),
            _ => Err(at(format!("expected text under {text_key:?}"))),
        }
    };
    list.iter().enumerate().map(turn).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::super::told;
    use super::*;

    #[test]
    fn both_spellings_are_read_alike() {
        let text = r#"[
            {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]},
            {"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}]},
            {"conversations": [{"from": "gpt", "value": "b"}]}
        ]"#;
        let read = parse(text.as_bytes()).unwrap();
        assert_eq!(read.skipped, 1);
        let PromptSource::Conversations { conversations } = read.source else {
            unreachable!("conversations were read")
        };
        assert_eq!(conversations.len(), 2);
        assert_eq!(conversations.first(), conversations.last());
    }

    #[test]
    fn a_bad_entry_is_named() {
        let cases = [
            (
                "{\"a\": 1}",
                "line 1: expected a list under \"messages\" or \"conversations\"",
            ),
            (
                "[{\"messages\": 1}]",
                "entry 1: expected a list of messages",
            ),
            (
                "[{\"messages\": [{\"role\": \"user\"}]}]",
                "entry 1: message 1: expected text under \"content\"",
            ),
            (
                "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"x\", \"value\": \"a\"}]}]",
                "entry 1: message 2: the role \"x\" is not known; use system, user or assistant",
            ),
            ("[]", "no conversation in it"),
        ];
        for (text, expected) in cases {
            assert_eq!(told(parse(text.as_bytes())), expected);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in ".*") {
            let _ = parse(bytes.as_slice());
            let _ = parse(format!("{{\"conversations\": [{text}]}}").as_bytes());
        }
    }
}
