//! The built-in agent of a controller that was built without it: says what to do instead.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::exit::{Exit, Refusal, usage};
use crate::fleet::AgentAddress;

/// There is no engine to start: nothing is opened.
#[derive(Debug, Clone)]
pub struct Program;

impl Program {
    /// Always there.
    ///
    /// # Errors
    /// None; the type is that of the build with an agent.
    pub fn of_this_process() -> std::io::Result<Self> {
        Ok(Self)
    }
}

/// Refuses: this build has no engine.
pub fn engine_main(_args: impl Iterator<Item = OsString>) -> ExitCode {
    let _ = writeln!(
        std::io::stderr(),
        "error: this controller was built without the engine"
    );
    Exit::Usage.into()
}

/// Never made.
pub struct Local {
    /// Where it would be.
    pub address: AgentAddress,
}

impl Local {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn start(
        _program: &Program,
        _state_dir: &Path,
        _engines: Option<&Path>,
    ) -> anyhow::Result<Self> {
        Err(usage(
            "this controller was built without the built-in agent; name one with --agent \
             (`controller agents add NAME URL`)",
        ))
    }

    /// Nothing to stop.
    pub async fn stop(self) {}
}

/// Whether [`Local::start`] was refused because another process holds the built-in agent.
pub fn is_held(_error: &anyhow::Error) -> bool {
    false
}

/// A build without an engine has no table of chapters.
///
/// # Errors
/// Always.
pub fn chapters() -> anyhow::Result<Vec<contracts::host::ChapterFacts>> {
    Err(Refusal {
        exit: Exit::Usage,
        message: "this controller was built without the engine; ask an agent with --agent NAME"
            .to_owned(),
    }
    .into())
}

/// Without a built-in agent, nobody would start them.
///
/// # Errors
/// None.
pub fn engines(_file: Option<&Path>) -> anyhow::Result<Vec<contracts::host::EngineFacts>> {
    Ok(Vec::new())
}
