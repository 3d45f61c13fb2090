//! Agents as the controller sees them: where they are, their token, and the calls of their API.

mod client;
mod error;
mod events;

use std::path::{Path, PathBuf};

use crate::store::AgentRow;

pub use client::{AgentClient, EventStream};
pub use error::FleetError;

/// Name of the built-in agent; no other may take it.
pub const LOCAL: &str = "local";
/// The variable that holds a token for agents without a token file.
pub const TOKEN_VARIABLE: &str = "CHAPTERBENCH_TOKEN";
/// A token is a line.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Where an agent is and what opens it.
#[derive(Clone)]
pub struct AgentAddress {
    /// Its name in the list.
    pub name: String,
    /// `http://host:7070`, no slash at the end.
    pub url: String,
    /// The token, in memory only.
    pub token: Option<String>,
    /// PEM file of the authority that signed its certificate.
    pub ca_file: Option<PathBuf>,
}

impl AgentAddress {
    /// Reads the token of an agent of the list.
    ///
    /// # Errors
    /// A token file that cannot be read, by name.
    pub fn of(row: &AgentRow) -> Result<Self, FleetError> {
        let token = match &row.token_file {
            Some(file) => Some(read_token(&row.name, Path::new(file))?),
            None => std::env::var(TOKEN_VARIABLE)
                .ok()
                .filter(|token| !token.is_empty()),
        };
        Ok(Self {
            name: row.name.clone(),
            url: row.url.trim_end_matches('/').to_owned(),
            token,
            ca_file: row.ca_file.as_ref().map(PathBuf::from),
        })
    }
}

/// The first line of a token file.
fn read_token(name: &str, file: &Path) -> Result<String, FleetError> {
    let refuse = |why: String| FleetError::Settings {
        name: name.to_owned(),
        why: format!("token file {}: {why}", file.display()),
    };
    let meta = std::fs::metadata(file).map_err(|error| refuse(error.to_string()))?;
    if meta.len() > TOKEN_BYTES_MAX {
        return Err(refuse(format!("longer than {TOKEN_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(refuse("it is empty".to_owned()));
    }
    Ok(token.to_owned())
}
