//! The load generator against real sockets and pipes: small servers that send exact bytes, small
//! workers that write exact lines.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod bad_servers;
mod conformance;
mod conformance_failures;
mod conformance_http;
mod conformance_usage;
mod drive_closed;
mod drive_conversations;
mod drive_ends;
mod drive_memory;
mod drive_open;
mod faults;
mod measure;
mod offline;
mod queueing;
mod support;
mod tls;
