//! Pages of a finished run: its samples as the lines on disk, its events.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use contracts::run::{EventKind, RunEvent, RunStatus};

use super::{RunFolder, RunId, Spool};

/// Bytes of one page, at most (a page has at least one line): what a caller must hold at once.
pub const PAGE_BYTES_MAX: usize = 32 << 20;
/// Bytes of one line, at most: an answer of [`contracts::defaults::BODY_BYTES_MAX`] and its record.
const LINE_BYTES_MAX: u64 = 2 * contracts::defaults::BODY_BYTES_MAX as u64;

/// Where the last page ended: who reads page after page does not read the file from its start each time.
pub struct Bookmark {
    run: RunId,
    line: u64,
    offset: u64,
}

impl Spool {
    /// Lines `from` to at most `from + limit` of the run's samples, fewer where they are large.
    pub fn samples(&self, id: &RunId, from: u64, limit: usize) -> io::Result<Vec<u8>> {
        let mut file = match File::open(self.folder(id).samples_file()) {
            Ok(file) => BufReader::new(file),
            // A run that failed before its first sample.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let (mut line, mut offset) = self.start_of(id, from);
        file.seek(SeekFrom::Start(offset))?;
        let mut page = Vec::new();
        let mut lines = 0;
        while lines < limit && (lines == 0 || page.len() < PAGE_BYTES_MAX) {
            let before = page.len();
            let bytes = file
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut page)?;
            if bytes == 0 {
                break;
            }
            if line < from {
                page.truncate(before);
            } else {
                lines += 1;
            }
            line += 1;
            offset += bytes as u64;
        }
        if let Ok(mut bookmark) = self.bookmark.lock() {
            *bookmark = Some(Bookmark {
                run: id.clone(),
                line,
                offset,
            });
        }
        Ok(page)
    }

    /// Events with a seq above `after`. The last of a finished run is its final state, also where
    /// the agent died before writing it.
    pub fn events(&self, id: &RunId, status: &RunStatus, after: u64) -> io::Result<Vec<RunEvent>> {
        let mut events = Vec::new();
        let mut last = None;
        match File::open(self.folder(id).events_file()) {
            Ok(file) => {
                // As bytes: a line may be torn inside a character.
                for line in BufReader::new(file).split(b'\n') {
                    // A torn last line was never told to anyone.
                    let Ok(event) = serde_json::from_slice::<RunEvent>(&line?) else {
                        break;
                    };
                    if event.seq > after {
                        events.push(event.clone());
                    }
                    last = Some(event);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let ended = matches!(last, Some(RunEvent { what: EventKind::State { state }, .. }) if state.is_final());
        let (seq, at_ms) = last.map_or((0, 0), |event| (event.seq, event.at_ms));
        if !ended && status.state.is_final() && seq + 1 > after {
            events.push(RunEvent {
                seq: seq + 1,
                at_ms,
                what: EventKind::State {
                    state: status.state,
                },
            });
        }
        Ok(events)
    }

    fn start_of(&self, id: &RunId, from: u64) -> (u64, u64) {
        let bookmark = self.bookmark.lock();
        match bookmark.as_deref() {
            Ok(Some(mark)) if mark.run == *id && mark.line <= from => (mark.line, mark.offset),
            _ => (0, 0),
        }
    }
}

impl RunFolder {
    /// Adds one event to those on disk.
    pub fn append_event(&self, event: &RunEvent) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        File::options()
            .append(true)
            .create(true)
            .open(self.events_file())?
            .write_all(&line)
    }
}
