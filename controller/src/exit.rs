//! The exit codes, once, and the error that knows which one it means.

use std::process::ExitCode;

/// What the process says when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done as asked.
    Done,
    /// Something failed: a run, the database.
    Failed,
    /// The command line, the environment or the configuration is wrong.
    Usage,
    /// An agent is unreachable or refused.
    Agent,
    /// Slower, under `--fail-on slower`.
    Slower,
    /// Two sides that cannot be compared.
    NotComparable,
    /// No verdict, under `--require-verdict`.
    Undecided,
    /// Interrupted, after the server was stopped.
    Interrupted,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Agent => 3,
            Self::Slower => 10,
            Self::NotComparable => 11,
            Self::Undecided => 12,
            Self::Interrupted => 130,
        }
    }

    /// The one to end with where two things ended: the one that says more is wrong.
    pub fn worse(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Done => 0,
            Self::Undecided => 1,
            Self::Slower => 2,
            Self::NotComparable => 3,
            Self::Failed => 4,
            Self::Agent => 5,
            Self::Usage => 6,
            Self::Interrupted => 7,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A refusal whose exit code is decided where it is made.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The code.
    pub exit: Exit,
    /// One line.
    pub message: String,
}

/// A wrong flag, variable or configuration: exit 2.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Refusal {
        exit: Exit::Usage,
        message: message.into(),
    }
    .into()
}

/// The exit code that an error means; [`Exit::Failed`] where nothing says otherwise.
pub fn of(error: &anyhow::Error) -> Exit {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return refusal.exit;
    }
    if let Some(fleet) = error.downcast_ref::<crate::fleet::FleetError>() {
        return fleet.exit();
    }
    if crate::local::is_held(error) {
        return Exit::Agent;
    }
    if let Some(
        crate::store::StoreError::NotFound { .. } | crate::store::StoreError::Ambiguous { .. },
    ) = error.downcast_ref()
    {
        return Exit::Usage;
    }
    Exit::Failed
}
