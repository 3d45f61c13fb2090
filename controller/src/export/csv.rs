//! CSV export: a row for each request, its run named in the first columns (RFC 4180, UTF-8, line
//! feeds). Columns keep their names and order; new ones are added at the end.

use std::io::{self, Write};

use contracts::sample::Sample;

use super::Export;
use crate::record::RunRecord;
use crate::show::{self, words::snake};
use crate::stats::goodput::wall_from_due_ms;
use crate::stats::online::{connecting_ms, ttft_from_due_ms, waiting_ms};

/// A column: its name and how it is filled.
type Column = (&'static str, fn(&RunRecord, &Sample) -> String);

/// All columns in their order. Times are ns since the run's clock origin, or ms.
const COLUMNS: &[Column] = &[
    ("run_id", |r, _| r.run_id.clone()),
    ("session_id", |r, _| r.session_id.clone()),
    ("arm", |r, _| r.arm_letter.clone()),
    ("block", |r, _| r.block.to_string()),
    ("position", |r, _| r.position.to_string()),
    ("agent", |r, _| r.agent_name.clone()),
    ("hostname", |r, _| r.hostname.clone()),
    ("host_fingerprint", |r, _| r.host_fingerprint.clone()),
    ("engine", |r, _| r.engine.clone()),
    ("mode", |r, _| snake(&r.status.spec.arm.mode)),
    ("model", |r, _| r.status.spec.workload.model.clone()),
    ("workload_key", |r, _| r.workload_key.clone()),
    ("label", |r, _| r.label.clone().unwrap_or_default()),
    ("engine_build", |r, _| engine_build(r)),
    ("definition", |r, _| definition(r)),
    ("run_state", |r, _| snake(&r.status.state)),
    ("created_unix_ms", |r, _| r.created_unix_ms.to_string()),
    ("warmup", |_, s| s.warmup.to_string()),
    ("index", |_, s| s.index.to_string()),
    ("due_ns", |_, s| s.due_ns.to_string()),
    ("start_ns", |_, s| s.start_ns.to_string()),
    ("connected_ns", |_, s| some(&s.connected_ns)),
    ("sent_ns", |_, s| some(&s.sent_ns)),
    ("headers_ns", |_, s| some(&s.headers_ns)),
    ("first_content_ns", |_, s| some(&s.first_content_ns)),
    ("last_content_ns", |_, s| some(&s.last_content_ns)),
    ("done_ns", |_, s| some(&s.done_ns)),
    ("wall_ms", |_, s| some(&s.wall_ms)),
    ("ttft_ms", |_, s| some(&s.ttft_ms)),
    ("tpot_ms", |_, s| some(&s.tpot_ms)),
    ("timing_source", |_, s| some_word(&s.timing_source)),
    ("engine_wall_ms", |_, s| some(&s.engine_wall_ms)),
    ("input_tokens", |_, s| some(&s.input_tokens)),
    ("output_tokens", |_, s| some(&s.output_tokens)),
    ("token_source", |_, s| some_word(&s.token_source)),
    ("requested_tokens", |_, s| s.requested_tokens.to_string()),
    ("finish_reason", |_, s| some_word(&s.finish_reason)),
    ("status", |_, s| some(&s.status)),
    ("reused_connection", |_, s| s.reused_connection.to_string()),
    ("output_sha256", |_, s| some(&s.output_sha256)),
    ("error_class", |_, s| error_class(s)),
    ("error_message", |_, s| error_message(s)),
    ("text", |_, s| some(&s.text)),
    ("released_ns", |_, s| some(&s.released_ns)),
    ("first_event_ns", |_, s| some(&s.first_event_ns)),
    ("finish_ns", |_, s| some(&s.finish_ns)),
    ("first_event_tokens", |_, s| some(&s.first_event_tokens)),
    ("usage_tokens", |_, s| some(&s.usage_tokens)),
    ("local_tokens", |_, s| some(&s.local_tokens)),
    ("planned_input_tokens", |_, s| some(&s.planned_input_tokens)),
    ("done_seen", |_, s| s.done_seen.to_string()),
    ("reconnected", |_, s| s.reconnected.to_string()),
    ("unterminated", |_, s| s.unterminated.to_string()),
    ("bytes", |_, s| s.bytes.to_string()),
    ("wall_from_due_ms", |_, s| some(&wall_from_due_ms(s))),
    ("ttft_from_due_ms", |_, s| some(&ttft_from_due_ms(s))),
    ("waiting_ms", |_, s| some(&waiting_ms(s))),
    ("connecting_ms", |_, s| some(&connecting_ms(s))),
    ("validity", |r, _| validity(r)),
];

/// A header, then a row for each request of each run, in the order given.
pub struct Csv<W> {
    out: W,
    run: Option<RunRecord>,
}

impl<W: Write> Csv<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(mut out: W) -> io::Result<Self> {
        write_row(&mut out, COLUMNS.iter().map(|(name, _)| (*name).to_owned()))?;
        Ok(Self { out, run: None })
    }
}

impl<W: Write> Export for Csv<W> {
    fn run(&mut self, run: &RunRecord) -> io::Result<()> {
        self.run = Some(run.clone());
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        let Some(run) = &self.run else {
            return Err(io::Error::other("a request without its run"));
        };
        write_row(
            &mut self.out,
            COLUMNS.iter().map(|(_, fill)| fill(run, sample)),
        )
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_row(out: &mut impl Write, fields: impl Iterator<Item = String>) -> io::Result<()> {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(quoted(field).as_bytes())?;
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

fn some<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map(T::to_string).unwrap_or_default()
}

fn some_word<T: serde::Serialize>(value: &Option<T>) -> String {
    value.as_ref().map(snake).unwrap_or_default()
}

fn engine_build(run: &RunRecord) -> String {
    let provenance = run.status.provenance.as_ref();
    provenance
        .and_then(|p| p.engine_build.clone())
        .unwrap_or_default()
}

fn definition(run: &RunRecord) -> String {
    let provenance = run.status.provenance.as_ref();
    provenance.map(|p| p.definition.clone()).unwrap_or_default()
}

fn validity(run: &RunRecord) -> String {
    let judged = show::validity::is_judged(run);
    let verdict = run.status.validity.verdict;
    if judged {
        snake(&verdict)
    } else {
        String::new()
    }
}

fn error_class(sample: &Sample) -> String {
    sample
        .error
        .as_ref()
        .map(|e| snake(&e.class))
        .unwrap_or_default()
}

fn error_message(sample: &Sample) -> String {
    sample
        .error
        .as_ref()
        .map(|e| e.message.clone())
        .unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;
    use contracts::sample::ErrorClass;

    use super::*;
    use crate::export::all;
    use crate::fixtures;
    use crate::record::RunWithSamples;

    fn exported(runs: &[RunWithSamples]) -> String {
        let mut out = Vec::new();
        all(runs, Csv::new(&mut out)).unwrap();
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
        assert!(rows.iter().all(|row| row.len() == COLUMNS.len()));
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
