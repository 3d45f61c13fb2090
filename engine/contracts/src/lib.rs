//! All that crosses a process boundary: serde types, constants, and nothing else.
//!
//! Three boundaries use these types:
//!
//! * **controller ↔ agent**, HTTP and JSON: [`run`] (what to do and how it stands), [`host`] (who
//!   answers), [`sample`] (what was measured), [`api`] (bodies and errors), [`doctor`] (what a
//!   server of others does), [`calibrate`] (the client's own floor).
//! * **agent ↔ engine**, a child process: [`worker`] (the offline worker's lines, the server's
//!   `/health`), [`openai`] (what the server speaks).
//! * **engine ↔ its caller**, in one process: [`generate`] (the contract that never changes from
//!   chapter to chapter).
//!
//! There is no logic here: no I/O, no arithmetic beyond a getter. Units stand last in names.
//! Unknown fields of what a person writes are refused; unknown fields of what a newer build sends
//! are ignored, since `protocol` is checked before any work.

pub mod api;
pub mod calibrate;
pub mod defaults;
pub mod doctor;
pub mod generate;
pub mod host;
pub mod openai;
pub mod run;
pub mod sample;
pub mod stats;
pub mod worker;

/// Version of the agent protocol. Both sides send it and refuse another before any work.
pub const PROTOCOL: u32 = 1;

/// Version of every JSON document printed or exported for users (`"schema": 1`).
pub const SCHEMA: u32 = 1;

/// Id of the metric definitions (clock, TTFT, TPOT, token source) that these builds measure by.
/// Stored with every run; comparisons do not mix two of them.
pub const DEFINITION: &str = "v1";
