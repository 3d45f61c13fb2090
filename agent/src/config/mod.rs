//! What an agent is told before it starts: where it listens, who may ask, what it may run.
//!
//! [`engines`] reads `engines.toml`, [`settings`] joins flags, environment and file. Neither opens
//! a socket or takes a lock: that is [`Agent`](crate::Agent)'s.

pub mod engines;
pub mod settings;

use std::path::PathBuf;

use crate::process::Program;

pub use engines::EngineEntry;

/// All that [`Agent::open`](crate::Agent::open) needs.
pub struct AgentConfig {
    /// Spool, agent id, lock, state of the run in progress. Made if it is missing.
    pub state_dir: PathBuf,
    /// What a caller must show; none is allowed on loopback only.
    pub token: Option<String>,
    /// Where models may lie.
    pub model_roots: ModelRoots,
    /// Engines that specs may name.
    pub engines: Vec<EngineEntry>,
    /// This executable: it is the engine, the offline worker and the keeper.
    pub program: Program,
    /// Certificate and key, if the agent speaks TLS.
    pub tls: Option<TlsFiles>,
}

/// Which paths a spec's model may have. Hub ids and `dummy:NAME` are always allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRoots {
    /// Any path: the caller is the same user as the agent (the built-in agent).
    Any,
    /// Paths under one of these folders, symbolic links resolved. None: no paths at all.
    Under(Vec<PathBuf>),
}

/// PEM files for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// A setting that cannot be used. Programs exit 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file that does not say what it should.
    #[error("{}: {message}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The key and what is wrong with it.
        message: String,
    },
    /// A flag, an environment variable or a combination of them.
    #[error("{0}")]
    Setting(String),
}
