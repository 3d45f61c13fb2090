//! A run's sample lines on their way into the database: in a file, not in memory.
//!
//! The file lies beside the database, where there is room for them anyway, and has no name: it is
//! gone when it is closed, however this process ends.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Seek, SeekFrom, Write};
use std::path::Path;

use contracts::defaults::BODY_BYTES_MAX;
use contracts::sample::Sample;
use ulid::Ulid;

/// All lines of one run, at most: what an agent spools of one, and some.
const FILE_BYTES_MAX: u64 = 5 << 30;
/// One line: an answer of the largest size and its record.
const LINE_BYTES_MAX: u64 = 2 * BODY_BYTES_MAX as u64;

/// Lines that were fetched, in order.
pub struct Fetched {
    file: BufWriter<File>,
    bytes: u64,
}

impl Fetched {
    /// An empty one beside `database`.
    ///
    /// # Errors
    /// The file cannot be made; its folder is named.
    pub fn beside(database: &Path) -> io::Result<Self> {
        let folder = match database.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let path = folder.join(format!(".samples-{}", Ulid::generate()));
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(named)?;
        // Open files live on without their names.
        std::fs::remove_file(&path).map_err(named)?;
        Ok(Self {
            file: BufWriter::new(file),
            bytes: 0,
        })
    }

    /// Reads the lines from the first on, as often as it is called.
    ///
    /// # Errors
    /// The disk.
    pub fn samples(&mut self) -> io::Result<Samples<'_>> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        Ok(Samples {
            lines: BufReader::new(file),
            line: Vec::new(),
            read: 0,
        })
    }
}

impl Write for Fetched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes + bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "more than {} MiB of samples",
                FILE_BYTES_MAX >> 20
            )));
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The lines as samples, one at a time.
pub struct Samples<'a> {
    lines: BufReader<&'a mut File>,
    line: Vec<u8>,
    read: u64,
}

impl Iterator for Samples<'_> {
    type Item = Result<Sample, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line.clear();
        let mut line = self.lines.by_ref().take(LINE_BYTES_MAX);
        match line.read_until(b'\n', &mut self.line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(format!("sample {}: {error}", self.read))),
        }
        let sample = serde_json::from_slice(&self.line)
            .map_err(|error| format!("sample {} cannot be read: {error}", self.read));
        self.read += 1;
        Some(sample)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn line(index: u32) -> String {
        let sample = Sample {
            index,
            text: Some("two\nlines".to_owned()),
            ..Sample::default()
        };
        serde_json::to_string(&sample).unwrap() + "\n"
    }

    #[test]
    fn lines_come_back_in_order_as_often_as_asked_and_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut fetched = Fetched::beside(&folder.path().join("bench.db")).unwrap();
        assert_eq!(fetched.samples().unwrap().count(), 0);
        // Pages may end anywhere.
        let text: String = (0..300).map(line).collect();
        for page in text.as_bytes().chunks(1000) {
            fetched.write_all(page).unwrap();
        }
        for _ in 0..2 {
            let read: Vec<Sample> = fetched.samples().unwrap().map(Result::unwrap).collect();
            let indices: Vec<u32> = read.iter().map(|sample| sample.index).collect();
            assert_eq!(indices, (0..300).collect::<Vec<_>>());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_line_that_is_no_sample_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut fetched = Fetched::beside(&folder.path().join("bench.db")).unwrap();
        fetched.write_all((line(0) + "{}\n").as_bytes()).unwrap();
        let read: Vec<_> = fetched.samples().unwrap().collect();
        assert!(read[0].is_ok());
        assert!(read[1].as_ref().unwrap_err().contains("sample 1"));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Fetched::beside(Path::new("/no/such/bench.db"))
            .err()
            .unwrap();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
