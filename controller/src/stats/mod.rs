//! Statistics: pure functions on numbers. No I/O, no store, no words for people.

pub mod autocorrelation;
pub mod batch_means;
pub mod bench;
pub mod counts;
pub mod difference;
pub mod drift;
pub mod error;
pub mod flight;
pub mod gaps;
pub mod goodput;
pub mod hodges_lehmann;
pub mod holm;
pub mod log_ratio;
pub mod mann_whitney;
pub mod online;
pub mod outliers;
pub mod permutation;
pub mod quantile;
pub mod runs_needed;
mod student;
pub mod summary;
pub mod window;

/// Arithmetic mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
