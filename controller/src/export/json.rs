//! JSON export: `{"schema": 1, "runs": [{"run": …, "samples": […]}]}`, written run by run.

use std::io::{self, Write};

use crate::record::RunWithSamples;

/// Writes the runs in the order given, one a line, as [`RunWithSamples`] serialises: figures that
/// this build shows can be computed again from it.
pub fn json<'a>(
    runs: impl IntoIterator<Item = &'a RunWithSamples>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{{\"schema\":{},\"runs\":[", contracts::SCHEMA)?;
    for (i, run) in runs.into_iter().enumerate() {
        out.write_all(if i == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, run)?;
    }
    out.write_all(b"\n]}\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;
    use contracts::sample::{ErrorClass, TimingSource};

    use super::*;
    use crate::fixtures;
    use crate::stats::bench::bench_stats;
    use crate::stats::window::Shape;

    #[derive(serde::Deserialize)]
    struct Export {
        schema: u32,
        runs: Vec<RunWithSamples>,
    }

    #[test]
    fn figures_are_computed_again_from_the_export() {
        let run = fixtures::run("01AAA", "ch02", Mode::Online);
        let walls = [1224.001, 1190.5, 0.1 + 0.2, 1e-3, 1333.25];
        let mut first = fixtures::with_timing(run, &walls, TimingSource::Client);
        let failed = fixtures::failed_sample(5, ErrorClass::HttpStatus);
        first.samples.push(failed);
        let second = fixtures::run("01BBB", "ch01", Mode::Offline);
        let runs = [first, fixtures::finish(second, Vec::new())];

        let mut out = Vec::new();
        json(&runs, &mut out).unwrap();
        let export: Export = serde_json::from_slice(&out).unwrap();
        assert_eq!(export.schema, 1);
        assert_eq!(export.runs, runs);
        for run in &export.runs {
            let shape = Shape::of(&run.run.status);
            assert_eq!(bench_stats(&run.samples, shape), run.run.stats);
        }
    }

    #[test]
    fn no_runs_are_an_empty_list() {
        let mut out = Vec::new();
        json(&[], &mut out).unwrap();
        let export: Export = serde_json::from_slice(&out).unwrap();
        assert!(export.runs.is_empty());
    }
}
