//! Server-sent events from bytes, as the WHATWG algorithm says: by line ends, never by network
//! segment. What the data means is not its matter, nor is whether it is UTF-8.
//!
//! Read: LF, CRLF and CR; a byte order mark at the start; comments; `data:` with or without the
//! blank; several data lines. `id` and `retry` serve reconnection, which a measured stream never
//! does, so they are read and dropped. An event that the stream's end cut off is dropped.

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
    /// not depend on how the stream is cut into pushes.
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
            let Some(end) = bytes.iter().position(|&b| b == b'\n' || b == b'\r') else {
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events_of(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser
                .push(piece, |event| {
                    events.push((
                        String::from_utf8_lossy(event.kind).into_owned(),
                        String::from_utf8_lossy(event.data).into_owned(),
                    ));
                })
                .unwrap();
        }
        events
    }

    fn data_of(stream: &str) -> Vec<String> {
        let events = events_of(&[stream.as_bytes()]);
        events.into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn each_line_end_ends_a_line() {
        for stream in [
            "data: a\n\ndata: b\n\n",
            "data: a\r\n\r\ndata: b\r\n\r\n",
            "data: a\r\rdata: b\r\r",
            "data: a\r\n\ndata: b\n\r",
        ] {
            assert_eq!(data_of(stream), ["a", "b"], "{stream:?}");
        }
    }

    #[test]
    fn one_blank_after_the_colon_is_dropped_and_no_more() {
        assert_eq!(
            data_of("data:a\n\ndata: b\n\ndata:  c\n\n"),
            ["a", "b", " c"]
        );
    }

    #[test]
    fn several_data_lines_are_joined() {
        assert_eq!(
            data_of("data: a\ndata:\ndata: b\n\ndata\n\n"),
            ["a\n\nb", ""]
        );
    }

    #[test]
    fn comments_and_unknown_fields_are_no_events() {
        assert_eq!(
            data_of(": ping\n\nid: 7\nretry: 10\n\n:\nfoo: x\ndata: a\n: ping\n\n"),
            ["a"]
        );
    }

    #[test]
    fn the_kind_belongs_to_one_event() {
        assert_eq!(
            events_of(&[b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"]),
            [
                ("error".into(), "a".into()),
                (String::new(), "b".into()),
                (String::new(), "c".into())
            ]
        );
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_only() {
        assert_eq!(
            data_of("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n"),
            ["a", "c"]
        );
    }

    #[test]
    fn an_unterminated_event_is_dropped() {
        assert_eq!(data_of("data: a\n\ndata: b\n"), ["a"]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1 << 20];
        let mut result = Ok(());
        for _ in 0..17 {
            result = result.and_then(|()| parser.push(&piece, |_| ()));
        }
        assert_eq!(result, Err(EventTooLarge));
    }

    proptest! {
        /// However the bytes are cut, the same events come out.
        #[test]
        fn cuts_change_nothing(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "data", "event", "id", ":", " ", "\n", "\r", "\r\n", "\n\n", "data: é\n\n",
                    "\u{feff}", "x", "日本", ": c\n",
                ]),
                0..40,
            ),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let stream = parts.concat().into_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|c| *c.min(&stream.len())).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            let whole = events_of(&[&stream]);
            prop_assert_eq!(&events_of(&pieces), &whole);
            prop_assert_eq!(&events_of(&bytes), &whole);
        }
    }
}
