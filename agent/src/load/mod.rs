//! The load generator: what is asked of an engine, and the raw record of each answer.
//!
//! Online, from the outside in: `online` (what is asked) → `drive` (which request when, by slots or
//! by the times of `schedule`; `tally` counts) → `client` (one request within bounds, over a
//! connection that takes the instants). An answer's bytes go through `sse` and `wire`
//! to `answer`, which is pure and holds the definitions. `workload` makes the bodies.
//! Offline, `offline` turns the worker's lines into the same records. `gauges` sees the samples of
//! both and says what they are worth. Processes, storage and
//! statistics are elsewhere.

mod answer;
mod client;
mod clock;
mod drive;
pub mod event_times;
mod files;
mod gauges;
mod hidden;
mod offline;
mod online;
mod schedule;
pub mod sse;
mod tally;
mod wire;
mod workload;

pub use answer::{Answer, TokenCounter};
pub use client::{
    ANSWER_BYTES_MAX, Client, ClientConfig, ClientError, Ended, Shared, Target, TargetError,
    Timeouts, read_answer,
};
/// For `doctor`, which opens and reads connections its own way.
pub(crate) use client::{framing, tls};
pub use clock::Clock;
pub use drive::{DriveGauges, drive_online};
pub use files::ensure_open_files;
pub use gauges::{Basis, Gauges};
pub use offline::{Asked, OfflineEvent, OfflineWatch, read_offline};
pub use online::{JobError, OnlineJob, Server};
pub use tally::{DriveEnd, DriveOutcome, Phase, PhaseCount};
pub use workload::{Bodies, Body, BodyError, Route};
