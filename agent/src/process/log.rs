//! What a child prints: a ring of its last lines, a capped file, and news for whoever listens.
//!
//! One task reads the pipe from the first byte on, so that a chatty child never blocks. Everything
//! has a bound: lines, their length, the file. What a limit drops is counted and said. Giving a line
//! a meaning is left to the reader.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{broadcast, watch};

/// Lines kept in memory: a failure carries 50, a person who looks wants a little more.
const RING_LINES: usize = 512;
/// Bytes of one line: longer ones are cut, with a mark.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Size of the file: some servers print a line for each request.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Lines that a slow listener may lag behind before it loses the oldest.
const NEWS_LINES: usize = 256;
/// Marks a line that was cut.
const CUT: &str = " … (line cut)";

/// Output of one child. Cheap to clone; all clones see the same.
#[derive(Debug, Clone)]
pub struct LogRing {
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Shared {
    ring: Mutex<VecDeque<String>>,
    news: broadcast::Sender<String>,
}

impl LogRing {
    /// The last `n` lines, oldest first.
    pub fn tail(&self, n: usize) -> Vec<String> {
        let ring = self.shared.ring();
        ring.iter()
            .skip(ring.len().saturating_sub(n))
            .cloned()
            .collect()
    }

    /// The lines so far, as many as the ring holds, and those from now on: each line is in one of
    /// the two. A listener that is too slow gets `Lagged(n)` in place of `n` lines.
    pub fn follow(&self) -> (Vec<String>, broadcast::Receiver<String>) {
        let ring = self.shared.ring();
        (ring.iter().cloned().collect(), self.shared.news.subscribe())
    }

    /// Waits until the last byte has come, at most `limit`: a descendant that escaped may hold the
    /// pipe open for ever. Whether it came.
    pub async fn settle(&self, limit: Duration) -> bool {
        let mut ended = self.ended.clone();
        let all = tokio::time::timeout(limit, ended.wait_for(|&ended| ended)).await;
        // An error inside: the reader is gone, so nothing more can come.
        all.is_ok()
    }

    /// Starts reading; the handle ends it early.
    pub(super) fn start(
        pipe: pipe::Receiver,
        file: &Path,
    ) -> io::Result<(LogRing, tokio::task::AbortHandle)> {
        let file = CappedFile::create(file)?;
        let shared = Arc::new(Shared {
            ring: Mutex::new(VecDeque::with_capacity(RING_LINES)),
            news: broadcast::Sender::new(NEWS_LINES),
        });
        let (say_ended, ended) = watch::channel(false);
        let reader = tokio::spawn(read(pipe, file, Arc::clone(&shared), say_ended));
        Ok((LogRing { shared, ended }, reader.abort_handle()))
    }
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, VecDeque<String>> {
        // A panic between two lines leaves the ring whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: String) {
        // Both under the ring's lock, so that nobody follows in between.
        let mut ring = self.ring();
        // Nobody listens: that is no error.
        let _ = self.news.send(line.clone());
        if ring.len() == RING_LINES {
            ring.pop_front();
        }
        ring.push_back(line);
    }
}

async fn read(
    mut pipe: pipe::Receiver,
    mut file: CappedFile,
    shared: Arc<Shared>,
    ended: watch::Sender<bool>,
) {
    let mut splitter = Splitter::default();
    let mut chunk = vec![0; 16 << 10];
    while let Ok(n) = pipe.read(&mut chunk).await {
        let bytes = chunk.get(..n).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        file.write(bytes);
        splitter.push(bytes, |line| shared.add(line));
    }
    splitter.finish(|line| shared.add(line));
    file.finish();
    ended.send_replace(true);
}

/// Bytes as they came, up to a limit. A full disk ends the file, not the run.
#[derive(Debug)]
struct CappedFile {
    file: Option<File>,
    left_bytes: u64,
    dropped_bytes: u64,
}

impl CappedFile {
    fn create(path: &Path) -> io::Result<CappedFile> {
        Ok(CappedFile {
            file: Some(File::create(path)?),
            left_bytes: FILE_BYTES_MAX,
            dropped_bytes: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.left_bytes)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let (kept, dropped) = bytes.split_at(fits);
        self.left_bytes -= kept.len() as u64;
        self.dropped_bytes += dropped.len() as u64;
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(kept)
        {
            tracing::warn!("the child's log file ends here: {error}");
            self.file = None;
        }
    }

    fn finish(&mut self) {
        if let (Some(file), 1..) = (&mut self.file, self.dropped_bytes) {
            let _ = write!(
                file,
                "\n… {} more bytes were not kept\n",
                self.dropped_bytes
            );
        }
    }
}

/// Cuts bytes into lines. A carriage return ends a line too, or a progress bar would be one line
/// without an end.
#[derive(Debug, Default)]
struct Splitter {
    line: Vec<u8>,
    cut: bool,
    after_return: bool,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(String)) {
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    emit(self.take());
                }
                _ => {
                    self.after_return = false;
                    if self.line.len() < LINE_BYTES_MAX {
                        self.line.push(byte);
                    } else {
                        self.cut = true;
                    }
                }
            }
        }
    }

    fn finish(&mut self, mut emit: impl FnMut(String)) {
        if !self.line.is_empty() {
            emit(self.take());
        }
    }

    fn take(&mut self) -> String {
        let mut line = printable(&String::from_utf8_lossy(&self.line));
        if std::mem::take(&mut self.cut) {
            line.push_str(CUT);
        }
        self.line.clear();
        line
    }
}

/// Without colours and control characters: these lines end up on somebody's terminal.
fn printable(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // CSI: ESC [ parameters, up to a letter. Another escape loses its next character.
            if chars.next() == Some('[') {
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else if c == '\t' || !c.is_control() {
            clean.push(c);
        }
    }
    clean
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, |line| lines.push(line));
        }
        splitter.finish(|line| lines.push(line));
        lines
    }

    #[test]
    fn lines_end_at_newline_and_return() {
        assert_eq!(lines(&[b"a\nb\r", b"\nc\rd"]), ["a", "b", "c", "d"]);
        assert_eq!(lines(&[b"a\n\nb\n"]), ["a", "", "b"]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced() {
        assert_eq!(lines(&[b"caf\xe9 \xff\n"]), ["caf\u{fffd} \u{fffd}"]);
    }

    #[test]
    fn colours_and_bells_are_dropped() {
        assert_eq!(
            lines(&[b"\x1b[1;31merror\x1b[0m:\t\x07bad\n"]),
            ["error:\tbad"]
        );
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let got = lines(&[&long, b"\nnext\n"]);
        assert_eq!(got.len(), 2);
        assert_eq!(got.first().unwrap().len(), LINE_BYTES_MAX + CUT.len());
        assert_eq!(got.last().unwrap(), "next");
    }

    #[test]
    fn who_follows_gets_each_line_once() {
        let shared = Arc::new(Shared {
            ring: Mutex::new(VecDeque::new()),
            news: broadcast::Sender::new(NEWS_LINES),
        });
        let (_, ended) = watch::channel(false);
        let log = LogRing {
            shared: Arc::clone(&shared),
            ended,
        };
        shared.add("early".to_owned());
        let (so_far, mut news) = log.follow();
        shared.add("late".to_owned());
        assert_eq!(so_far, ["early"]);
        assert_eq!(news.try_recv().unwrap(), "late");
        assert!(news.try_recv().is_err());
    }

    #[test]
    fn the_file_stops_at_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = CappedFile::create(&path).unwrap();
        file.left_bytes = 5;
        file.write(b"abc");
        file.write(b"defg");
        file.finish();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, "abcde\n… 2 more bytes were not kept\n");
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_into_chunks_changes_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0usize..200,
        ) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(lines(&[head, tail]), lines(&[&bytes]));
        }
    }
}
