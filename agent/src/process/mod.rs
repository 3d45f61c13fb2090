//! The life of one child process: start it, know when it is ready, end it and all it left behind.
//!
//! Each child runs under a *keeper*, our own executable started again. The keeper is a subreaper in
//! a session of its own; it alone is the parent of the child, so it can find and end every
//! descendant, those that called `setsid` included. The socket between agent and keeper is also the
//! death pipe: however the agent ends, the kernel closes it and the keeper ends everything.
//!
//! ```text
//! agent ── control socket (orders, reports) ──▶ keeper ── own session, PDEATHSIG ──▶ child ▶ …
//!   ▲──────────────── one pipe: stdout and stderr of the child (and of the keeper) ─────┘
//! ```
//!
//! [`spawn`] gives a [`Child`]; [`wait_ready`] polls its `/health`; [`Child::stop`] ends it.
//! [`kill_leftover`] is for an agent that starts after a crash. [`device_lock`] keeps two runs off
//! one device.
//!
//! What a child is asked to do, and what its output means, is left to [`crate`]'s runs. Linux only.

mod child;
pub mod device_lock;
mod exec;
mod handover;
mod identity;
mod keeper;
mod log;
pub mod port;
mod program;
mod protocol;
mod ready;
mod spawn;
mod sweep;
mod watch;

pub use child::{Child, ExitInfo, StopReport};
pub use identity::{Identities, Leftover, ProcessId, kill_leftover};
pub use keeper::keeper_main;
pub use log::LogRing;
pub use program::{Program, ProgramError};
pub(crate) use ready::reason;
pub use ready::{ReadyError, ReadyInfo, http_client, wait_ready};
pub use spawn::{ChildSpec, SpawnError, spawn};
