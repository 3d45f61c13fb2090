//! What can go wrong between the controller and an agent, each in one line that names the agent.

use contracts::api::{ApiError, ErrorCode};

use crate::exit::Exit;

/// An agent that is unreachable, or that refused.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// No answer.
    #[error("agent {name} ({url}): unreachable: {why}")]
    Unreachable {
        /// Its name.
        name: String,
        /// Where it should be.
        url: String,
        /// What the connection said.
        why: String,
    },
    /// Something answered that is not an agent of ours.
    #[error("agent {name} ({url}): {why}; is this a chapterbench agent?")]
    BadAnswer {
        /// Its name.
        name: String,
        /// Where it is.
        url: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// Its own words, or the protocol's.
    #[error("{}{}", prefix(.name, .url, .error), words(.error))]
    Api {
        /// Its name.
        name: String,
        /// Where it is.
        url: String,
        /// The error.
        error: Box<ApiError>,
    },
    /// The samples are not those that the run's status promised.
    #[error("agent {name} ({url}): run {run_id}: {why}; `controller resume` tries again")]
    Samples {
        /// Its name.
        name: String,
        /// Where it is.
        url: String,
        /// The run.
        run_id: String,
        /// What does not fit.
        why: String,
    },
    /// The agent gave them and there is no room for them here.
    #[error("run {run_id}: its samples cannot be kept: {why}; `controller resume` tries again")]
    NotKept {
        /// The run.
        run_id: String,
        /// The system's word.
        why: std::io::Error,
    },
    /// An agent's settings that cannot be used: before any connection.
    #[error("agent {name}: {why}")]
    Settings {
        /// Its name.
        name: String,
        /// Which setting, and what is wrong with it.
        why: String,
    },
}

/// What the built-in agent refuses, or cannot reach, is the user's own: where it listens says nothing.
fn prefix(name: &str, url: &str, error: &ApiError) -> String {
    if name == super::LOCAL && matches!(error.code, ErrorCode::CannotRun | ErrorCode::Unreachable) {
        return String::new();
    }
    format!("agent {name} ({url}): ")
}

fn words(error: &ApiError) -> String {
    match (error.code, &error.field) {
        (ErrorCode::Unauthorized, _) => {
            "refused the token; set CHAPTERBENCH_TOKEN or `controller agents add NAME URL --token-file FILE`".to_owned()
        }
        (ErrorCode::Busy, _) => format!("{}; --wait TIME waits until it is free", error.message),
        (_, Some(field)) if !error.message.contains(field.as_str()) => {
            format!("{field}: {}", error.message)
        }
        _ => error.message.clone(),
    }
}

impl FleetError {
    /// The API's code, if the agent answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// A spec that cannot run is what the user wrote, and a full disk is this machine's; all else is
    /// the agent.
    pub fn exit(&self) -> Exit {
        match self.code() {
            Some(ErrorCode::CannotRun) => Exit::Usage,
            _ if matches!(self, Self::Settings { .. }) => Exit::Usage,
            _ if matches!(self, Self::NotKept { .. }) => Exit::Failed,
            _ => Exit::Agent,
        }
    }
}

/// What the TLS library says in words of its own, and what it means here.
const TLS_WORDS: &[(&str, &str)] = &[
    ("InvalidContentType", "it does not speak TLS; use http://"),
    (
        "invalid HTTP version",
        "it speaks no plain HTTP; use https://",
    ),
    (
        "UnknownIssuer",
        "its certificate is signed by an unknown authority; name that with --ca-file",
    ),
    (
        "CaUsedAsEndEntity",
        "its certificate is marked as an authority's own (CA:TRUE); make it with CA:FALSE",
    ),
];

/// The innermost cause: reqwest's own words repeat the URL and say nothing.
pub(super) fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let words = cause.to_string();
    let plain = TLS_WORDS.iter().find(|(word, _)| words.contains(word));
    plain.map_or(words, |(_, plain)| (*plain).to_owned())
}
