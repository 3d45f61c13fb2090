//! What a server of others does, as `controller doctor` found it: findings that decide how its
//! tokens are counted, stored with the runs against it.

use serde::{Deserialize, Serialize};

use crate::sample::TokenSource;

/// What a server does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Base URL without `/v1`.
    pub url: String,
    /// The name that was asked for.
    pub model: String,
    /// `server` header, if any.
    #[serde(default)]
    pub server: Option<String>,
    /// One line for each thing looked at, in a fixed order.
    pub findings: Vec<Finding>,
    /// How its tokens will be counted.
    pub counting: TokenSource,
    /// Why that way: one line.
    pub counting_reason: String,
    /// Whether each content event says how many tokens there are so far.
    #[serde(default)]
    pub usage_per_event: bool,
    /// Tokens in a content event, mean, where it can be told.
    #[serde(default)]
    pub tokens_per_event: Option<f64>,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `role_chunk`, `usage`, `line_ends`, `done`, `max_tokens`, …
    pub topic: String,
    /// What it means for a measurement.
    pub grade: Grade,
    /// What was seen: one line for people.
    pub seen: String,
}

/// What a finding means for a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As the API has it.
    Fine,
    /// Unusual, and handled.
    Odd,
    /// Could not be looked at.
    Unknown,
    /// Figures or workloads that depend on it cannot be had.
    Limits,
    /// Cannot be measured.
    Broken,
}
