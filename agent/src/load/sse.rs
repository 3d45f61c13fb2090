//! Server-sent events from bytes, as the WHATWG algorithm says: by line ends, never by network
//! segment. What the data means is not its matter, nor is whether it is UTF-8.
//!
//! Read: LF, CRLF and CR; a byte order mark at the start; comments; `data:` with or without the
//! blank; several data lines. `id` and `retry` serve reconnection, which a measured stream never
//! does, so they are read and dropped. An event that the stream's end cut off is dropped.

use std::io::BufRead;

/// Bytes of one event, at most. Real servers send lines of megabytes (tool calls, log
/// probabilities); beyond this a stream without line ends would fill the memory.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// One dispatched event, borrowed from the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field; empty if there was none.
    pub kind: &'a [u8],
    /// The data lines, joined by LF.
    pub data: &'a [u8],
}

/// The event being read has more than [`EVENT_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {EVENT_BYTES_MAX} bytes")]
pub struct EventTooLarge;

/// A push parser: bytes in, events out as their blank line comes.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The line begun in an earlier push.
    line: Vec<u8>,
    kind: Vec<u8>,
    data: Vec<u8>,
    /// The last byte was a CR that ended a line: a LF now belongs to it.
    after_cr: bool,
    /// The first line has been read, so a byte order mark is text.
    started: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl SseParser {
    /// Reads `bytes` and hands each event that they complete to `on_event`. What comes out does
    /// not depend on how the stream is cut into pushes. An event of one data line that lies whole
    /// in `bytes`, which is how servers send nearly all of them, is handed on without a copy.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            if self.is_between_events()
                && let Some((data, rest)) = whole_event(bytes)
            {
                self.check_size(data.len())?;
                self.started = true;
                let kind = &[];
                on_event(Event { kind, data });
                bytes = rest;
                continue;
            }
            let Some(end) = line_end(bytes) else {
                self.check_size(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            let (head, tail) = bytes.split_at(end);
            self.check_size(head.len())?;
            self.after_cr = tail.first() == Some(&b'\r');
            bytes = tail.get(1..).unwrap_or_default();
            if self.line.is_empty() {
                self.end_line(head, &mut on_event);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.end_line(&line, &mut on_event);
                line.clear();
                self.line = line;
            }
        }
        Ok(())
    }

    fn is_between_events(&self) -> bool {
        self.line.is_empty() && self.data.is_empty() && self.kind.is_empty()
    }

    fn check_size(&self, more: usize) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + more > EVENT_BYTES_MAX {
            return Err(EventTooLarge);
        }
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], on_event: &mut impl FnMut(Event<'_>)) {
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if !self.started => rest,
            _ => line,
        };
        self.started = true;
        if line.is_empty() {
            return self.dispatch(on_event);
        }
        let (name, value) = match line.iter().position(|&b| b == b':') {
            Some(colon) => {
                let (name, rest) = line.split_at(colon);
                let value = rest.get(1..).unwrap_or_default();
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, [].as_slice()),
        };
        match name {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.kind.clear();
                self.kind.extend_from_slice(value);
            }
            // A comment (no name), `id`, `retry`, and fields that do not exist.
            _ => {}
        }
    }

    fn dispatch(&mut self, on_event: &mut impl FnMut(Event<'_>)) {
        if let Some(data) = self.data.strip_suffix(b"\n") {
            on_event(Event {
                kind: &self.kind,
                data,
            });
        }
        self.data.clear();
        self.kind.clear();
    }
}

/// The data of an event that is one data line and its blank line, at the front of `bytes`, and
/// what follows it. The plain cases only; all others take the long way.
fn whole_event(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let value = bytes.strip_prefix(b"data:")?;
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let (data, tail) = value.split_at_checked(line_end(value)?)?;
    let rest = tail
        .strip_prefix(b"\n\n")
        .or_else(|| tail.strip_prefix(b"\r\n\r\n"))?;
    Some((data, rest))
}

/// Where the first LF or CR is. By the library's search for a byte, which looks at many of them at
/// once: a stream is read for hardly anything else.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    // A slice can always be read.
    let skipped = rest.skip_until(b'\n').unwrap_or(bytes.len());
    let line = bytes.get(..skipped).unwrap_or_default();
    if line.contains(&b'\r') {
        return line.iter().position(|&b| b == b'\r');
    }
    line.strip_suffix(b"\n").map(<[u8]>::len)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
