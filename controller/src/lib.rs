//! Plans runs, dispatches them to agents, stores every raw number and compares.
//!
//! The way of a `controller run`: [`cli`] reads what is asked, [`plan`] multiplies it out, [`run`]
//! leads it through the agents of [`fleet`] (or the built-in one of [`local`]) into the [`store`].

pub mod cli;
pub mod columns;
pub mod compare;
pub mod config;
pub mod event_times;
pub mod exit;
pub mod export;
pub mod fleet;
pub mod history;
pub mod import;
pub mod light;
#[cfg(feature = "local")]
pub mod local;
#[cfg(not(feature = "local"))]
#[path = "no_local.rs"]
pub mod local;
pub mod out;
pub mod plan;
pub mod prompts;
pub mod record;
pub mod run;
pub mod selector;
pub mod show;
pub mod stats;
pub mod store;
pub mod suite;
pub mod values;
pub mod words;

#[cfg(test)]
mod fixtures;

use std::time::{SystemTime, UNIX_EPOCH};

/// This build: `0.1.0+3fa1c2d`, or the version alone where the commit is not known.
pub fn build() -> String {
    match option_env!("CHAPTERBENCH_COMMIT") {
        Some(commit) if !commit.is_empty() => format!("{}+{commit}", env!("CARGO_PKG_VERSION")),
        _ => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Clock time, for people: no duration is computed from two of them.
pub fn now_unix_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}
