//! The load generator: what is asked of an engine, and the raw record of each answer.
//!
//! Online, from the outside in: `online` (which request when) → `client` (one request within
//! bounds, over a connection that takes the instants). An answer's bytes go through `sse` and `wire`
//! to `answer`, which is pure and holds the definitions. `workload` makes the bodies.
//! Offline, `offline` turns the worker's lines into the same records. Processes, storage and
//! statistics are elsewhere.

mod answer;
mod client;
mod clock;
pub mod event_times;
mod offline;
mod online;
pub mod sse;
mod tally;
mod wire;
mod workload;

pub use answer::{Answer, TokenCounter};
pub use client::{
    ANSWER_BYTES_MAX, Client, ClientConfig, ClientError, Ended, Shared, Target, TargetError,
    Timeouts,
};
/// For `doctor`, which opens and reads connections its own way.
pub(crate) use client::{framing, tls};
pub use clock::Clock;
pub use offline::{OfflineEvent, OfflineWatch, read_offline};
pub use online::{JobError, OnlineJob, Server, drive_online};
pub use tally::{DriveEnd, DriveOutcome, Phase, PhaseCount};
pub use workload::{Bodies, Body, BodyError, Route};
