//! Statistics: pure functions on numbers. No I/O, no store, no words for people.

pub mod bench;
pub mod counts;
pub mod flight;
pub mod gaps;
pub mod goodput;
pub mod online;
pub mod quantile;
pub mod summary;
pub mod window;

/// Arithmetic mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
