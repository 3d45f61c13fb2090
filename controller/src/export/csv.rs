//! CSV: a header and rows (RFC 4180, UTF-8, line feeds). What is not known is empty.

use std::io::{self, Write};

use super::columns::{Cell, Column, Rows};

/// A header, then a row a line.
pub struct Csv<W> {
    out: W,
}

impl<W: Write> Csv<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(mut out: W, columns: &[Column]) -> io::Result<Self> {
        write_row(&mut out, columns.iter().map(|column| column.name.into()))?;
        Ok(Self { out })
    }
}

impl<W: Write> Rows for Csv<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        write_row(&mut self.out, cells.into_iter())
    }

    fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_row(out: &mut impl Write, cells: impl Iterator<Item = Cell>) -> io::Result<()> {
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Null => {}
            Cell::Bool(value) => write!(out, "{value}")?,
            Cell::Int(value) => write!(out, "{value}")?,
            Cell::Real(value) => write!(out, "{value}")?,
            Cell::Text(text) => out.write_all(quoted(text).as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// A field in quotes where it has to be, with quotes doubled.
fn quoted(field: String) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;
    use contracts::sample::ErrorClass;

    use super::*;
    use crate::export::samples;
    use crate::fixtures;
    use crate::record::RunWithSamples;

    fn exported(runs: &[RunWithSamples]) -> String {
        let mut out = Vec::new();
        let mut csv = Csv::new(&mut out, &samples::columns()).unwrap();
        for run in runs {
            for sample in &run.samples {
                csv.row(samples::row(&run.run, sample)).unwrap();
            }
        }
        csv.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    /// A reader of its own, so that the writer is not checked by itself.
    fn read(text: &str) -> Vec<Vec<String>> {
        let mut rows = vec![vec![String::new()]];
        let mut in_quotes = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let row = rows.last_mut().unwrap();
            match c {
                '"' if in_quotes && chars.peek() == Some(&'"') => {
                    chars.next();
                    row.last_mut().unwrap().push('"');
                }
                '"' => in_quotes = !in_quotes,
                ',' if !in_quotes => row.push(String::new()),
                '\n' if !in_quotes => rows.push(vec![String::new()]),
                c => row.last_mut().unwrap().push(c),
            }
        }
        rows.pop();
        rows
    }

    #[test]
    fn a_row_for_each_request_under_fixed_columns() {
        let run = fixtures::run("01AAA", "ch01", Mode::Offline);
        let mut run = fixtures::with_walls(run, &[100.25, 99.5]);
        run.run.label = Some("a, b".to_owned());
        run.samples[1].released_ns = Some(7);
        run.samples[1].planned_input_tokens = Some(9);
        run.samples[2].reconnected = true;
        run.samples[1].text = Some("said \"hi\",\nthen left".to_owned());
        run.samples
            .push(fixtures::failed_sample(2, ErrorClass::BadJson));
        let text = exported(&[run]);
        assert!(text.starts_with("run_id,session_id,arm,block,position,agent,"));

        let rows = read(&text);
        assert_eq!(rows.len(), 1 + 4);
        assert!(rows.iter().all(|row| row.len() == samples::columns().len()));
        let cell = |row: usize, name: &str| {
            let column = rows[0].iter().position(|n| n == name).unwrap();
            rows[row][column].as_str()
        };
        assert_eq!(cell(1, "warmup"), "true");
        assert_eq!((cell(2, "wall_ms"), cell(3, "wall_ms")), ("100.25", "99.5"));
        assert_eq!(cell(2, "label"), "a, b");
        assert_eq!(cell(2, "text"), "said \"hi\",\nthen left");
        assert_eq!(cell(2, "ttft_ms"), "", "unmeasured is empty, never 0");
        assert_eq!(cell(4, "error_class"), "bad_json");
        assert_eq!((cell(2, "released_ns"), cell(3, "released_ns")), ("7", ""));
        assert_eq!(cell(2, "planned_input_tokens"), "9");
        assert_eq!(
            (cell(2, "reconnected"), cell(3, "reconnected")),
            ("false", "true")
        );
        assert_eq!(
            (cell(2, "wall_from_due_ms"), cell(2, "waiting_ms")),
            ("100.25", "0")
        );
        assert_eq!(cell(4, "wall_from_due_ms"), "", "it never ended");
        assert_eq!(cell(2, "validity"), "sound");
    }

    #[test]
    fn no_runs_are_a_header() {
        assert_eq!(read(&exported(&[])).len(), 1);
    }
}
