//! The whole of it with real binaries, sockets, processes and databases.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod builds;
mod ci;
mod doctor;
mod foreign;
mod interrupts;
mod lab;
mod loads;
mod main_job;
mod options;
mod refusals;
mod sessions;
mod slowdown;
mod suites;
