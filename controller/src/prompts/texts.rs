//! Prompts word for word: a line each, or JSON with a `prompt` or `messages` each.

use std::io::BufRead;
use std::path::Path;

use contracts::run::PromptSource;

use super::conversations::messages;
use super::documents::{documents, lines};
use super::{FILE_BYTES_MAX, Fault, FileError, check_count, check_text, read};

/// Reads prompts: of a `.jsonl` or `.json` file the `prompt` of each document, or its `messages`,
/// which makes each a conversation; of any other file each line that is not blank.
///
/// # Errors
/// The place, and what is expected there.
pub fn texts(file: &Path) -> Result<PromptSource, FileError> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    let json = matches!(extension, Some("jsonl" | "json"));
    read(file, FILE_BYTES_MAX, |reader| match json {
        true => from_json(reader),
        false => from_lines(reader),
    })
}

fn from_lines(reader: impl BufRead) -> Result<PromptSource, Fault> {
    let mut texts = Vec::new();
    lines(reader, |place, line| {
        check_text(place, line)?;
        texts.push(line.to_owned());
        Ok(())
    })?;
    check_count(texts.len(), "prompt")?;
    Ok(PromptSource::Texts { texts })
}

fn from_json(reader: impl BufRead) -> Result<PromptSource, Fault> {
    let mut texts = Vec::new();
    let mut conversations = Vec::new();
    documents(reader, |place, document| {
        if let Some(list) = document.get("messages") {
            let turns = messages(list).map_err(|message| place.fault(message))?;
            if !turns.iter().any(|turn| turn.role == "user") {
                return Err(place.fault("no message of the role \"user\""));
            }
            conversations.push(turns);
        } else if let Some(prompt) = document.get("prompt").and_then(|prompt| prompt.as_str()) {
            check_text(place, prompt)?;
            texts.push(prompt.to_owned());
        } else {
            return Err(place.fault("expected text under \"prompt\", or a list under \"messages\""));
        }
        match texts.is_empty() || conversations.is_empty() {
            true => Ok(()),
            false => Err(place.fault("\"prompt\" and \"messages\" are mixed; use one of them")),
        }
    })?;
    check_count(texts.len().max(conversations.len()), "prompt")?;
    Ok(match conversations.is_empty() {
        true => PromptSource::Texts { texts },
        false => PromptSource::Conversations { conversations },
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::super::told;
    use super::*;

    #[test]
    fn lines_are_prompts_and_blank_ones_are_not() {
        let source = from_lines("one \n\n  \ntwo".as_bytes()).unwrap();
        let texts = vec!["one ".to_owned(), "two".to_owned()];
        assert_eq!(source, PromptSource::Texts { texts });
        assert_eq!(told(from_lines(&b"\n"[..])), "no prompt in it");
    }

    #[test]
    fn json_has_prompts_or_messages() {
        let source = from_json(&br#"{"prompt": "a", "id": 7}"#[..]).unwrap();
        let texts = vec!["a".to_owned()];
        assert_eq!(source, PromptSource::Texts { texts });
        let line = br#"{"messages": [{"role": "user", "content": "a"}]}"#;
        let source = from_json(&line[..]).unwrap();
        assert!(
            matches!(source, PromptSource::Conversations { conversations } if conversations.len() == 1)
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        let cases = [
            (
                "{\"prompt\": \"a\"}\n{\"prompt\": 3}",
                "line 2: expected text under \"prompt\", or a list under \"messages\"",
            ),
            (
                "{\"prompt\": \"\"}",
                "line 1: 0 bytes; a prompt has 1 to 4194304",
            ),
            (
                "{\"prompt\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
                "line 2: \"prompt\" and \"messages\" are mixed; use one of them",
            ),
            (
                "{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}]}",
                "line 1: no message of the role \"user\"",
            ),
            (
                "{\"messages\": [{\"role\": \"bot\", \"content\": \"a\"}]}",
                "line 1: message 1: the role \"bot\" is not known; use system, user or assistant",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(told(from_json(text.as_bytes())), expected);
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = texts(Path::new("/no/such.txt")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such.txt: "), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in ".*") {
            let _ = from_lines(bytes.as_slice());
            let _ = from_json(bytes.as_slice());
            let _ = from_json(format!("{{\"messages\": [{text}]}}").as_bytes());
        }
    }
}
