//! The load generator: what is asked of an engine, and the raw record of each answer.
//!
//! Online, from the outside in: `online` (which request when) → `client` (one request within
//! bounds) → `connection` (hyper over `stamped`, which takes the instants). An answer's bytes go
//! through `sse` to `answer`, which is pure and holds the definitions. `workload` makes the bodies.
//! Offline, `offline` turns the worker's lines into the same records. Processes, storage and
//! statistics are elsewhere.

mod answer;
mod body;
mod client;
mod clock;
mod connection;
pub mod event_times;
mod offline;
mod online;
pub mod sse;
mod stamped;
mod tally;
mod target;
mod watchdog;
mod wire;
mod workload;

pub use answer::TokenCounter;
pub use client::{ANSWER_BYTES_MAX, Timeouts};
pub use clock::Clock;
pub use offline::{Asked, OfflineEvent, OfflineWatch, read_offline};
pub use online::{JobError, OnlineJob, Server, drive_online};
pub use tally::{DriveEnd, DriveOutcome, Phase, PhaseCount};
pub use target::{Target, TargetError};
pub use workload::{Bodies, Body, BodyError, Route};
