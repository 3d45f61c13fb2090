//! Runs with every raw record, for other programs: JSON with all there is, CSV with a row a request.

mod csv;
mod json;

pub use self::csv::csv;
pub use self::json::json;
