//! A stream's bytes to what can be said of it: lines, events, usage, its end. Pure; what that
//! means for a measurement is left to `shape`.

use serde_json::Value;

use super::whole::{Counts, excerpt};
use crate::load::sse::SseParser;

/// What a stream was like.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    /// Its lines.
    pub lines: Lines,
    /// Events that are no `[DONE]`.
    pub events: u32,
    /// The first event that is no JSON object, or too long.
    pub bad_event: Option<String>,
    /// `[DONE]` came.
    pub done: bool,
    /// Bytes after the last blank line: an event cut off.
    pub cut_off: bool,
    /// What came before the first content, if anything did.
    pub role: Option<Role>,
    /// Events with text, reasoning or a tool call.
    pub content_events: u32,
    /// Events with reasoning, and the field that had it.
    pub reasoning: Option<&'static str>,
    /// The text.
    pub text: String,
    /// As the server says it.
    pub finish: Option<String>,
    /// An error object inside the stream.
    pub error: Option<String>,
    /// Where usage was.
    pub usage: Usage,
    /// The last `metrics` of our kind had a count.
    pub metrics_tokens: Option<u32>,
}

/// What ends lines and what is in them besides data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// Ended by LF alone.
    pub lf: u32,
    /// By CR and LF.
    pub crlf: u32,
    /// By CR alone.
    pub cr: u32,
    /// `data:` lines.
    pub data: u32,
    /// Those without the blank after the colon.
    pub data_tight: u32,
    /// Lines that begin with a colon.
    pub comments: u32,
    /// `event:` lines.
    pub event: u32,
    /// `id:` and `retry:` lines.
    pub id: u32,
    /// The byte order mark at the start.
    pub mark: bool,
}

/// What an event before the first content said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Content of no characters.
    Empty,
    /// Content null.
    Null,
    /// No content field.
    Bare,
}

/// Where token counts stood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Completion tokens of the last one.
    pub completion_tokens: Option<u32>,
    /// Prompt tokens of the last one.
    pub prompt_tokens: Option<u32>,
    /// In events with content.
    pub with_content: u32,
    /// In the event with the finish reason.
    pub with_finish: bool,
    /// In an event of its own, without choices.
    pub alone: bool,
    /// After `[DONE]`.
    pub after_done: bool,
    /// `"usage": null`, and nowhere a count.
    pub null: bool,
}

/// Reads all of a stream's body.
pub fn read(body: &[u8]) -> Stream {
    let mut stream = Stream {
        lines: lines(body),
        cut_off: cut_off(body),
        ..Stream::default()
    };
    let mut parser = SseParser::default();
    let pushed = parser.push(body, |event| stream.event(event.data));
    if let Err(error) = pushed {
        stream.bad_event.get_or_insert(error.to_string());
    }
    stream.usage.null &= stream.usage.completion_tokens.is_none();
    stream
}

impl Stream {
    /// Content events that told how many tokens there were so far.
    pub fn usage_per_event(&self) -> bool {
        self.content_events > 0 && self.usage.with_content >= self.content_events
    }

    fn event(&mut self, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return;
        }
        self.events += 1;
        let document = match serde_json::from_slice::<Value>(data) {
            Ok(document) if document.is_object() => document,
            _ => {
                let words = excerpt(&String::from_utf8_lossy(data));
                self.bad_event.get_or_insert(words);
                return;
            }
        };
        if let Some(error) = super::whole::error_words(&document) {
            self.error.get_or_insert(error);
        }
        let choice = document.pointer("/choices/0");
        let said = choice.map(said).unwrap_or_default();
        if said.is_content() {
            self.content_events += 1;
            self.text.push_str(said.text);
            self.reasoning = self.reasoning.or(said.reasoning);
        } else if self.content_events == 0 && self.role.is_none() && self.finish.is_none() {
            self.role = choice.and_then(role);
        }
        let finish = choice.and_then(|choice| choice.get("finish_reason")?.as_str());
        if let Some(finish) = finish {
            self.finish = Some(excerpt(finish));
        }
        self.count(
            &document,
            choice.is_some(),
            said.is_content(),
            finish.is_some(),
        );
    }

    fn count(&mut self, document: &Value, has_choice: bool, content: bool, finish: bool) {
        let counts = Counts::of(document);
        self.metrics_tokens = counts.metrics_tokens.or(self.metrics_tokens);
        self.usage.null |= counts.usage_is_null;
        let Some(tokens) = counts.completion_tokens else {
            return;
        };
        let usage = &mut self.usage;
        usage.completion_tokens = Some(tokens);
        usage.prompt_tokens = counts.prompt_tokens.or(usage.prompt_tokens);
        usage.with_content += u32::from(content);
        usage.with_finish |= finish;
        usage.alone |= !has_choice;
        usage.after_done |= self.done;
    }
}

/// What one choice of an event says.
#[derive(Default)]
struct Said<'a> {
    text: &'a str,
    reasoning: Option<&'static str>,
    tool_call: bool,
}

impl Said<'_> {
    fn is_content(&self) -> bool {
        !self.text.is_empty() || self.reasoning.is_some() || self.tool_call
    }
}

fn said(choice: &Value) -> Said<'_> {
    let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) else {
        let text = choice.get("text").and_then(Value::as_str);
        return Said {
            text: text.unwrap_or_default(),
            ..Said::default()
        };
    };
    let full = |name: &&'static str| {
        let text = delta.get(*name).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    let calls = delta.get("tool_calls").and_then(Value::as_array);
    Said {
        text: delta
            .get("content")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        reasoning: ["reasoning_content", "reasoning"].into_iter().find(full),
        tool_call: calls.is_some_and(|calls| !calls.is_empty()),
    }
}

fn role(choice: &Value) -> Option<Role> {
    let content = match choice.get("delta") {
        Some(delta) => delta.get("content"),
        None => Some(choice.get("text")?),
    };
    Some(match content {
        None => Role::Bare,
        Some(Value::Null) => Role::Null,
        Some(_) => Role::Empty,
    })
}

fn lines(body: &[u8]) -> Lines {
    let mut seen = Lines::default();
    let mut rest = body;
    if let Some(after) = rest.strip_prefix(b"\xEF\xBB\xBF") {
        seen.mark = true;
        rest = after;
    }
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let (line, tail) = rest.split_at(end);
        let length = match tail {
            [b'\r', b'\n', ..] => {
                seen.crlf += 1;
                2
            }
            [b'\r', ..] => {
                seen.cr += 1;
                1
            }
            _ => {
                seen.lf += 1;
                1
            }
        };
        seen.line(line);
        rest = tail.get(length..).unwrap_or_default();
    }
    seen
}

impl Lines {
    fn line(&mut self, line: &[u8]) {
        if let Some(value) = line.strip_prefix(b"data:") {
            self.data += 1;
            self.data_tight += u32::from(!value.starts_with(b" "));
        }
        self.comments += u32::from(line.starts_with(b":"));
        self.event += u32::from(line.starts_with(b"event:"));
        self.id += u32::from(line.starts_with(b"id:") || line.starts_with(b"retry:"));
    }
}

/// Whether data follows the last blank line.
fn cut_off(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    let text = text.replace('\r', "\n");
    let tail = text.rsplit("\n\n").next().unwrap_or_default();
    tail.lines().any(|line| line.starts_with("data"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn chunk(delta: &str, rest: &str) -> String {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}{rest}}}]}}\n\n")
    }

    #[test]
    fn a_usual_stream() {
        let text = [
            chunk("{\"role\":\"assistant\",\"content\":\"\"}", ""),
            chunk("{\"content\":\"a\"}", ""),
            chunk("{\"content\":\"b\"}", ""),
            chunk("{}", ",\"finish_reason\":\"stop\""),
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n"
                .to_owned(),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat();
        let stream = read(text.as_bytes());
        assert_eq!((stream.events, stream.content_events), (5, 2));
        assert_eq!(stream.role, Some(Role::Empty));
        assert_eq!(stream.text, "ab");
        assert_eq!(stream.finish.as_deref(), Some("stop"));
        assert_eq!(stream.usage.completion_tokens, Some(3));
        assert!(stream.usage.alone && !stream.usage.after_done && !stream.usage_per_event());
        assert!(stream.done && !stream.cut_off);
        assert_eq!((stream.lines.lf, stream.lines.crlf), (12, 0));
    }

    #[test]
    fn an_odd_stream() {
        let text = "\u{feff}: ping\r\n\r\nevent: x\r\nid: 1\r\n\
            data:{\"choices\":[{\"delta\":{\"content\":null}}],\"usage\":null}\r\n\r\n\
            data:{\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}],\
            \"usage\":{\"completion_tokens\":2}}\r\r\
            data:[DONE]\n\n\
            data:{\"choices\":[],\"usage\":{\"completion_tokens\":4}}\n\n\
            data:{\"cut";
        let stream = read(text.as_bytes());
        assert_eq!(stream.role, Some(Role::Null));
        assert_eq!(stream.reasoning, Some("reasoning"));
        assert_eq!(stream.usage.completion_tokens, Some(4));
        assert!(stream.usage.after_done && !stream.usage.null && stream.usage_per_event());
        assert!(stream.cut_off && stream.lines.mark);
        let lines = stream.lines;
        assert_eq!((lines.comments, lines.event, lines.id), (1, 1, 1));
        assert_eq!((lines.crlf, lines.cr, lines.lf), (6, 2, 4));
        assert_eq!((lines.data, lines.data_tight), (4, 4));
    }

    #[test]
    fn what_is_no_event_is_told() {
        let stream = read(b"data: {\"error\":{\"message\":\"out of\\nmemory\"}}\n\ndata: <p>\n\n");
        assert_eq!(stream.error.unwrap(), "out of memory");
        assert_eq!(stream.bad_event.unwrap(), "<p>");
        assert_eq!((stream.events, stream.content_events), (2, 0));
    }
}
