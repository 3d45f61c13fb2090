//! JSON export: `{"schema": 1, "hosts": […], "runs": [{"run": …, "events": […], "samples": […]}]}`,
//! written request by request. Read again by [`crate::import`].

use std::io::{self, Write};

use contracts::run::RunEvent;
use contracts::sample::Sample;

use crate::record::RunRecord;
use crate::store::HostDocument;

/// The hosts with their floors, then the runs in the order given, one a line, as
/// [`RunWithSamples`](crate::record::RunWithSamples) serialises, each with its story: figures that
/// this build shows can be computed again from it.
pub struct Json<W> {
    out: W,
    runs: u64,
    samples: u64,
}

impl<W: Write> Json<W> {
    /// Begins the document.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(mut out: W, hosts: &[HostDocument]) -> io::Result<Self> {
        write!(out, "{{\"schema\":{},\n\"hosts\":", contracts::SCHEMA)?;
        serde_json::to_writer(&mut out, hosts)?;
        out.write_all(b",\n\"runs\":[")?;
        Ok(Self {
            out,
            runs: 0,
            samples: 0,
        })
    }

    /// A run begins; its requests follow.
    ///
    /// # Errors
    /// What the sink says.
    pub fn run(&mut self, run: &RunRecord, events: &[RunEvent]) -> io::Result<()> {
        self.end_run()?;
        self.out
            .write_all(if self.runs == 0 { b"\n" } else { b",\n" })?;
        self.out.write_all(b"{\"run\":")?;
        serde_json::to_writer(&mut self.out, run)?;
        self.out.write_all(b",\"events\":")?;
        serde_json::to_writer(&mut self.out, events)?;
        self.out.write_all(b",\"samples\":[")?;
        self.runs += 1;
        self.samples = 0;
        Ok(())
    }

    /// A request of the run that began last.
    ///
    /// # Errors
    /// What the sink says.
    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        if self.samples > 0 {
            self.out.write_all(b",")?;
        }
        self.samples += 1;
        Ok(serde_json::to_writer(&mut self.out, sample)?)
    }

    /// No run follows.
    ///
    /// # Errors
    /// What the sink says.
    pub fn end(mut self) -> io::Result<()> {
        self.end_run()?;
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    fn end_run(&mut self) -> io::Result<()> {
        if self.runs > 0 {
            self.out.write_all(b"]}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;
    use contracts::sample::{ErrorClass, TimingSource};

    use super::*;
    use crate::fixtures;
    use crate::record::RunWithSamples;
    use crate::stats::bench::bench_stats;
    use crate::stats::window::Shape;

    #[derive(serde::Deserialize)]
    struct Export {
        schema: u32,
        runs: Vec<RunWithSamples>,
    }

    fn exported(runs: &[RunWithSamples]) -> Export {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out, &[]).unwrap();
        for run in runs {
            json.run(&run.run, &[]).unwrap();
            for sample in &run.samples {
                json.sample(sample).unwrap();
            }
        }
        json.end().unwrap();
        serde_json::from_slice(&out).unwrap()
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

        let export = exported(&runs);
        assert_eq!(export.schema, 1);
        assert_eq!(export.runs, runs);
        for run in &export.runs {
            let shape = Shape::of(&run.run.status);
            assert_eq!(bench_stats(&run.samples, shape), run.run.stats);
        }
    }

    #[test]
    fn no_runs_are_an_empty_list() {
        assert!(exported(&[]).runs.is_empty());
    }
}
