//! From the bytes of a connection to what is asked. Pure; answering is left to the server.

use serde::Deserialize;
use serde_json::Value;

/// Header lines of a request, at most.
const HEADERS_MAX: usize = 64;
/// Head and body of a request, at most: a client that sends more is not measured with this server.
pub(super) const REQUEST_BYTES_MAX: usize = 8 << 20;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Generate(Ask),
    Models,
    Health,
    Log,
    /// Refused with this status and these words.
    Refused(u16, String),
}

/// A request for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// The chat endpoint's shapes, else the completion endpoint's.
    pub chat: bool,
    pub stream: bool,
    /// Usage at the end of a stream.
    pub usage: bool,
    /// Its ceiling, if it names one.
    pub tokens_max: Option<u32>,
    /// Words of the prompt: a word is a token here.
    pub prompt_tokens: u32,
}

/// A request and the bytes that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub call: Call,
    pub used: usize,
    /// Whether the connection is to be closed after the answer.
    pub close: bool,
}

/// The first request in `bytes`; none if it is not whole yet.
pub(super) fn parse(bytes: &[u8]) -> Option<Request> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut lines);
    let refused = |status, words: &str| {
        Some(Request {
            call: Call::Refused(status, words.to_owned()),
            used: bytes.len(),
            close: true,
        })
    };
    let body_at = match head.parse(bytes) {
        Ok(httparse::Status::Complete(at)) => at,
        Ok(httparse::Status::Partial) if bytes.len() <= REQUEST_BYTES_MAX => return None,
        Ok(httparse::Status::Partial) => return refused(413, "the head is too large"),
        Err(_) => return refused(400, "not HTTP/1.1"),
    };
    let header = |name: &str| {
        let line = head
            .headers
            .iter()
            .find(|line| line.name.eq_ignore_ascii_case(name));
        line.and_then(|line| std::str::from_utf8(line.value).ok())
    };
    if header("transfer-encoding").is_some() {
        return refused(411, "send a content-length");
    }
    let Ok(body_len) = header("content-length").unwrap_or("0").trim().parse() else {
        return refused(400, "content-length is not a number");
    };
    let used = body_at.saturating_add(body_len);
    if used > REQUEST_BYTES_MAX {
        return refused(413, "the request is too large");
    }
    let body = bytes.get(body_at..used)?;
    let close = header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let call = match (head.method.unwrap_or(""), head.path.unwrap_or("")) {
        ("POST", "/v1/chat/completions") => generate(true, body),
        ("POST", "/v1/completions") => generate(false, body),
        ("GET", "/v1/models") => Call::Models,
        ("GET", "/health") => Call::Health,
        ("GET", "/log") => Call::Log,
        (method, path) => Call::Refused(404, format!("no {method} {path} here")),
    };
    Some(Request { call, used, close })
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<Options>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    messages: Value,
    #[serde(default)]
    prompt: Value,
}

#[derive(Deserialize)]
struct Options {
    #[serde(default)]
    include_usage: Option<bool>,
}

fn generate(chat: bool, body: &[u8]) -> Call {
    let body: Body = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(error) => return Call::Refused(400, format!("the body: {error}")),
    };
    let stream = body.stream.unwrap_or(false);
    let usage = body
        .stream_options
        .and_then(|options| options.include_usage);
    let prompt = if chat { &body.messages } else { &body.prompt };
    Call::Generate(Ask {
        chat,
        stream,
        usage: usage.unwrap_or(false),
        tokens_max: body.max_tokens.or(body.max_completion_tokens),
        prompt_tokens: words(prompt),
    })
}

/// Words of all texts in a prompt, however deep; an id counts as one. Names and roles of messages
/// are no part of it.
fn words(prompt: &Value) -> u32 {
    let count = match prompt {
        Value::String(text) => text.split_whitespace().count(),
        Value::Number(_) => 1,
        Value::Array(parts) => return parts.iter().map(words).sum(),
        Value::Object(part) => {
            let inside = part.get("content").or_else(|| part.get("text"));
            return inside.map(words).unwrap_or(0);
        }
        Value::Null | Value::Bool(_) => 0,
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn post(path: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}").into()
    }

    #[test]
    fn a_request_says_what_it_wants() {
        let bytes = post(
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":"one two three"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"ignore_eos":true}"#,
        );
        let asked = parse(&bytes).unwrap();
        assert_eq!((asked.used, asked.close), (bytes.len(), false));
        let ask = Ask {
            chat: true,
            stream: true,
            usage: true,
            tokens_max: Some(7),
            prompt_tokens: 3,
        };
        assert_eq!(asked.call, Call::Generate(ask));
        let ids = parse(&post("/v1/completions", r#"{"prompt":[5,6]}"#)).unwrap();
        let Call::Generate(ask) = ids.call else {
            unreachable!("{ids:?}")
        };
        assert_eq!((ask.chat, ask.stream, ask.prompt_tokens), (false, false, 2));
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        let status = |bytes: &[u8]| match parse(bytes).unwrap().call {
            Call::Refused(status, _) => status,
            other => unreachable!("{other:?}"),
        };
        assert_eq!(status(b"GET /nothing HTTP/1.1\r\n\r\n"), 404);
        assert_eq!(status(b"\x00\x01\x02\r\n\r\n"), 400);
        assert_eq!(status(&post("/v1/completions", "{")), 400);
        let chunked = b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(status(chunked), 411);
        let huge = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        assert_eq!(status(huge), 413);
    }

    proptest! {
        /// However it is cut, a request is found when its last byte is there and not before.
        #[test]
        fn only_whole_requests_are_requests(cut in 0usize..200, next in "[a-z ]{0,20}") {
            let mut bytes = post("/v1/completions", r#"{"prompt":"a b","stream":true}"#);
            let whole = bytes.len();
            bytes.extend_from_slice(next.as_bytes());
            let cut = cut.min(whole - 1);
            prop_assert!(parse(&bytes[..cut]).is_none());
            prop_assert_eq!(parse(&bytes).unwrap().used, whole);
        }

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }
    }
}
