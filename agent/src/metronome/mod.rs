//! The metronome: an OpenAI-style server without a model that answers on a known schedule and
//! writes down what it really did. It is what the load generator is measured against, by
//! `POST /v1/calibrate`, by `benches/client.py` and by tests; it measures nothing itself.
//!
//! One thread, one epoll, no allocation per event: on a small host it shares the cores with the
//! client under test and must not be what that waits for.
//!
//! `GET /log` gives what was done since it was last asked, `/health` also the log's clock.
//!
//! | room | what it holds |
//! |---|---|
//! | `cli` | flags, the socket |
//! | `server` | the loop: who is due, who has something to say |
//! | `agenda` | places, who waits for one, what is due when; pure |
//! | `conn` | one connection's bytes, in and out |
//! | `request` | bytes to a request; pure |
//! | `answer` | the bytes of an answer, made beforehand; pure |
//! | `log` | what was done when, and its NDJSON |

mod agenda;
mod answer;
mod cli;
mod conn;
mod log;
mod request;
mod server;

use std::time::Duration;

pub use answer::MODEL;
pub use cli::main;
pub use log::{LogError, Served, read_log};

/// What `EXE engine` calls it.
pub const COMMAND: &str = "metronome";

/// When an answer's events leave: the first `ttft` after the request was received (or, where it
/// had to wait for a place, after it got one), each other `itl` after the one before was due.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// From receipt to the first content.
    pub ttft: Duration,
    /// Between contents.
    pub itl: Duration,
    /// Contents of an answer, one token each; a request may ask for fewer.
    pub tokens: u32,
    /// Answers at once; further requests wait inside. 0 is no bound.
    pub parallel: u32,
    /// Events leave at multiples of this: a batching engine sends a step's tokens together. Zero
    /// sends each on its own time.
    pub tick: Duration,
}
