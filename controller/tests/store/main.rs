//! The store on real SQLite files: what is written once, what is refused, and who may write when.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod columns;
mod deleting;
mod filtering;
mod fixtures;
mod floor;
mod merging;
mod noise;
mod opening;
mod reading;
mod reports;
mod storing;
