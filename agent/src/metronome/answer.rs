//! The bytes of an answer, made before its schedule runs: an event is then one write. Pure.

use super::request::Ask;

/// Every content after the first.
const WORD: &str = " tick";
/// The name that it serves.
pub const MODEL: &str = "metronome";

/// What goes out for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The head of a stream, sent at once; empty where the answer is whole.
    pub head: Vec<u8>,
    /// The first content: the request's id.
    pub first: Vec<u8>,
    /// Each content between.
    pub middle: Vec<u8>,
    /// The last content, with the reason to end.
    pub last: Vec<u8>,
    /// Right after the last: usage if asked for, `[DONE]`, the end of the body.
    pub tail: Vec<u8>,
    /// Contents.
    pub tokens: u32,
}

impl Answer {
    /// The answer with serial number `id` and `tokens` contents, at least 1. One that is not
    /// streamed leaves as a whole in `last`, and so has one content on the wire.
    pub fn new(ask: &Ask, id: u64, tokens: u32) -> Self {
        let usage = format!(
            r#"{{"prompt_tokens":{},"completion_tokens":{tokens},"total_tokens":{}}}"#,
            ask.prompt_tokens,
            u64::from(ask.prompt_tokens) + u64::from(tokens),
        );
        if !ask.stream {
            let text = format!("{id}{}", WORD.repeat(tokens.saturating_sub(1) as usize));
            let body = whole(ask.chat, id, &text, &usage);
            return Self {
                head: Vec::new(),
                first: Vec::new(),
                middle: Vec::new(),
                last: response(200, "application/json", body.as_bytes(), false),
                tail: Vec::new(),
                tokens: 1,
            };
        }
        let only = tokens == 1;
        let first = id.to_string();
        let mut tail = Vec::new();
        if ask.usage {
            chunk(&mut tail, &ending(ask.chat, id, &usage));
        }
        chunk(&mut tail, "data: [DONE]\n\n");
        tail.extend_from_slice(b"0\r\n\r\n");
        let chunked = |text: String| {
            let mut bytes = Vec::new();
            chunk(&mut bytes, &text);
            bytes
        };
        Self {
            head: b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\ncache-control: no-cache\r\n\r\n".to_vec(),
            first: chunked(event(ask.chat, id, &first, false)),
            middle: chunked(event(ask.chat, id, WORD, false)),
            last: chunked(event(ask.chat, id, if only { &first } else { WORD }, true)),
            tail,
            tokens,
        }
    }
}

/// A whole answer of a known length.
pub(super) fn response(status: u16, kind: &str, body: &[u8], close: bool) -> Vec<u8> {
    let connection = if close { "connection: close\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{connection}\r\n",
        reason(status),
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// An error in OpenAI's shape.
pub(super) fn refusal(status: u16, words: &str) -> Vec<u8> {
    let error = serde_json::json!({"error": {
        "message": words, "type": "invalid_request_error", "param": null, "code": null,
    }});
    let body = error.to_string();
    response(status, "application/json", body.as_bytes(), true)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        404 => "Not Found",
        411 => "Length Required",
        413 => "Content Too Large",
        _ => "Bad Request",
    }
}

/// What every document begins with. The words in it need no escapes.
fn opening(chat: bool, id: u64, chunk: bool) -> String {
    let (prefix, object) = match (chat, chunk) {
        (true, true) => ("chatcmpl", "chat.completion.chunk"),
        (true, false) => ("chatcmpl", "chat.completion"),
        (false, _) => ("cmpl", "text_completion"),
    };
    format!(r#"{{"id":"{prefix}-{id}","object":"{object}","created":1,"model":"{MODEL}","#)
}

fn event(chat: bool, id: u64, content: &str, last: bool) -> String {
    let opening = opening(chat, id, true);
    let reason = if last { r#""length""# } else { "null" };
    let content = if chat {
        format!(r#""delta":{{"content":"{content}"}}"#)
    } else {
        format!(r#""text":"{content}""#)
    };
    format!(
        "data: {opening}\"choices\":[{{\"index\":0,{content},\"logprobs\":null,\"finish_reason\":{reason}}}]}}\n\n"
    )
}

fn ending(chat: bool, id: u64, usage: &str) -> String {
    let opening = opening(chat, id, true);
    format!("data: {opening}\"choices\":[],\"usage\":{usage}}}\n\n")
}

fn whole(chat: bool, id: u64, text: &str, usage: &str) -> String {
    let opening = opening(chat, id, false);
    let content = if chat {
        format!(r#""message":{{"role":"assistant","content":"{text}"}}"#)
    } else {
        format!(r#""text":"{text}""#)
    };
    format!(
        r#"{opening}"choices":[{{"index":0,{content},"logprobs":null,"finish_reason":"length"}}],"usage":{usage}}}"#
    )
}

fn chunk(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::Value;

    use super::*;

    fn ask(chat: bool, stream: bool) -> Ask {
        Ask {
            chat,
            stream,
            usage: true,
            tokens_max: None,
            prompt_tokens: 4,
        }
    }

    /// The documents of a chunked stream, `[DONE]` left out.
    fn documents(bytes: &[u8]) -> Vec<Value> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
        lines
            .filter(|line| *line != "[DONE]")
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_stream_starts_with_its_id_and_ends_with_a_reason() {
        let answer = Answer::new(&ask(true, true), 42, 3);
        let first = documents(&answer.first);
        assert_eq!(first[0]["choices"][0]["delta"]["content"], "42");
        assert_eq!(first[0]["choices"][0]["finish_reason"], Value::Null);
        let last = documents(&answer.last);
        assert_eq!(last[0]["choices"][0]["finish_reason"], "length");
        let tail = documents(&answer.tail);
        assert_eq!(tail[0]["usage"]["completion_tokens"], 3);
        assert!(answer.tail.ends_with(b"data: [DONE]\n\n\r\n0\r\n\r\n"));
        let length = answer.middle.iter().position(|b| *b == b'\r').unwrap();
        let length = std::str::from_utf8(&answer.middle[..length]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        assert!(answer.middle.len() > length && answer.middle.len() < length + 10);
    }

    #[test]
    fn one_token_is_first_and_last() {
        let answer = Answer::new(&ask(false, true), 7, 1);
        let last = documents(&answer.last);
        assert_eq!(last[0]["choices"][0]["text"], "7");
        assert_eq!(last[0]["choices"][0]["finish_reason"], "length");
    }

    #[test]
    fn a_whole_answer_is_one_document() {
        let answer = Answer::new(&ask(true, false), 9, 3);
        let text = String::from_utf8(answer.last).unwrap();
        let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], "9 tick tick");
        assert_eq!(body["usage"]["total_tokens"], 7);
    }
}
