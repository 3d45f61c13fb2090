//! Runs with every raw record, for other programs: JSON with all there is, which
//! [`import`](crate::import) reads again; CSV and Parquet with a row a request or a row a run.
//!
//! Written one request after the other: an export is as large as the database, and no memory is.

mod columns;
mod csv;
mod file;
mod json;
mod parquet;
pub mod runs;
pub mod samples;

pub use self::columns::{Cell, Column, Kind, Rows};
pub use self::csv::Csv;
pub use self::file::OutputFile;
pub use self::json::Json;
pub use self::parquet::Parquet;
