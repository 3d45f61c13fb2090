//! The agent's API by the real binary: real sockets, real children, real state folders.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calibrating;
mod crash;
mod doctor;
mod ending;
mod fixture;
mod following;
mod loads;
mod refusing;
mod runners;
mod running;
mod servers;
mod urls;
