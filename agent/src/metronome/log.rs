//! What the metronome did with one request, and the NDJSON in which it says so.

use serde::{Deserialize, Serialize};

/// One answer, in ns on the server's monotonic clock, whose origin is the server's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Serial number, from 1; the first content is this number.
    pub id: u64,
    /// The kernel's receipt of the request's last segment.
    pub received_ns: u64,
    /// The server's read of it.
    pub read_ns: u64,
    /// When its schedule began: its receipt, or when it got a place.
    pub begun_ns: u64,
    /// Return of the write of the first content.
    pub first_ns: u64,
    /// From the return of each content's write to that of the next. (4.29 s at most.)
    pub gaps_ns: Vec<u32>,
    /// Return of the answer's last write.
    pub end_ns: u64,
}

/// A line that is no entry.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the metronome's log: {error}")]
pub struct LogError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub error: serde_json::Error,
}

impl Served {
    /// Time to first token as the server did it, ms.
    pub fn ttft_ms(&self) -> f64 {
        self.first_ns.saturating_sub(self.received_ns) as f64 / 1e6
    }

    /// Receipt to last write, ms.
    pub fn wall_ms(&self) -> f64 {
        self.end_ns.saturating_sub(self.received_ns) as f64 / 1e6
    }
}

/// Appends one line.
pub(super) fn write_line(out: &mut Vec<u8>, served: &Served) {
    // Numbers only: this cannot fail, and a line that is not there is missed by whoever matches.
    if serde_json::to_writer(&mut *out, served).is_ok() {
        out.push(b'\n');
    }
}

/// Reads the NDJSON back, in the order in which answers ended.
///
/// # Errors
/// A line that is no entry.
pub fn read_log(bytes: &[u8]) -> Result<Vec<Served>, LogError> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(at, line)| {
            serde_json::from_slice(line).map_err(|error| LogError {
                line: at + 1,
                error,
            })
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let served = |id| Served {
            id,
            received_ns: 1_000_000,
            read_ns: 1_100_000,
            begun_ns: 1_000_000,
            first_ns: 51_500_000,
            gaps_ns: vec![10_000_000, 9_000_000],
            end_ns: 70_600_000,
        };
        let mut bytes = Vec::new();
        write_line(&mut bytes, &served(1));
        write_line(&mut bytes, &served(2));
        assert_eq!(read_log(&bytes).unwrap(), [served(1), served(2)]);
        assert_eq!(served(1).ttft_ms(), 50.5);
        assert_eq!(served(1).wall_ms(), 69.6);
        bytes.extend_from_slice(b"{\"id\":3");
        assert_eq!(read_log(&bytes).unwrap_err().line, 3);
    }
}
