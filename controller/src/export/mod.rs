//! Runs with every raw record, for other programs: JSON with all there is, CSV with a row a request.
//!
//! Written one request after the other: an export is as large as the database, and no memory is.

mod csv;
mod json;

use std::io;

use contracts::sample::Sample;

use crate::record::RunRecord;

pub use self::csv::Csv;
pub use self::json::Json;

/// A document that is being written.
pub trait Export {
    /// A run begins; its requests follow.
    ///
    /// # Errors
    /// What the sink says.
    fn run(&mut self, run: &RunRecord) -> io::Result<()>;

    /// A request of the run that began last.
    ///
    /// # Errors
    /// What the sink says.
    fn sample(&mut self, sample: &Sample) -> io::Result<()>;

    /// No run follows.
    ///
    /// # Errors
    /// What the sink says.
    fn end(&mut self) -> io::Result<()>;
}

/// Whole runs, as tests write them.
#[cfg(test)]
fn all(runs: &[crate::record::RunWithSamples], export: io::Result<impl Export>) -> io::Result<()> {
    let mut export = export?;
    for run in runs {
        export.run(&run.run)?;
        for sample in &run.samples {
            export.sample(sample)?;
        }
    }
    export.end()
}
