//! An agent's event stream from bytes: `id:` and `data:` lines, a blank line ends an event. Pure.

use contracts::run::RunEvent;

/// An event is a line of log at most; a longer one is not ours.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Takes bytes as they come, gives events as they are complete.
#[derive(Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
    data: String,
}

impl EventReader {
    /// Events that `bytes` completed.
    ///
    /// # Errors
    /// An event that is too long or not a [`RunEvent`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<RunEvent>, String> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                    return Err(format!("an event is longer than {EVENT_BYTES_MAX} bytes"));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line));
            if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                let data = std::mem::take(&mut self.data);
                events.push(serde_json::from_str(&data).map_err(|error| error.to_string())?);
            }
        }
        Ok(events)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::{EventKind, RunState};
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = ": hello\n\nid: 1\r\ndata: {\"seq\":1,\"at_ms\":0,\"what\":{\"kind\":\"state\",\"state\":\"starting\"}}\r\n\r\nid: 2\ndata:{\"seq\":2,\"at_ms\":9,\"what\":{\"kind\":\"log\",\"line\":\"ä\"}}\n\n";

    fn wanted() -> Vec<RunEvent> {
        let starting = EventKind::State {
            state: RunState::Starting,
        };
        let log = EventKind::Log {
            line: "ä".to_owned(),
        };
        vec![
            RunEvent {
                seq: 1,
                at_ms: 0,
                what: starting,
            },
            RunEvent {
                seq: 2,
                at_ms: 9,
                what: log,
            },
        ]
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut reader = EventReader::default();
        assert!(reader.push(&vec![b'x'; EVENT_BYTES_MAX + 1]).is_err());
        assert!(EventReader::default().push(b"data: {}\n\n").is_err());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(cuts in prop::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            let mut from = 0;
            for cut in cuts {
                events.extend(reader.push(&STREAM.as_bytes()[from..cut]).unwrap());
                from = cut;
            }
            prop_assert_eq!(events, wanted());
        }
    }
}
