//! A run as the store gives it and as compare, show and export take it.

use std::collections::BTreeMap;

use contracts::doctor::ServerReport;
use contracts::run::{Load, Mode, RunState, RunStatus, Soundness};
use contracts::sample::Sample;
use contracts::stats::BenchStats;
use serde::{Deserialize, Serialize};

use crate::stats::gaps::GapCounts;

/// One run with all that is known of it but its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// ULID.
    pub run_id: String,
    /// The command that made it: all runs of one `controller run` share it.
    pub session_id: String,
    /// Letter of its arm within the session: `a`, `b`, …
    pub arm_letter: String,
    /// Which pass over the arms, from 0.
    pub block: u32,
    /// Place in the session's order, from 0.
    pub position: u32,
    /// The agent's name in the controller's list; `local` for the built-in one.
    pub agent_name: String,
    /// The agent's stable id.
    pub agent_id: String,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// For people.
    pub hostname: String,
    /// `ch01`, or the name of an engine.
    pub engine: String,
    /// Hash of what work was asked.
    pub workload_key: String,
    /// `--label`.
    pub label: Option<String>,
    /// `--tag k=v`.
    pub tags: BTreeMap<String, String>,
    /// Build of the controller.
    pub controller_build: String,
    /// 0: planned when the session began; 1, 2, …: added when it was extended.
    #[serde(default)]
    pub look: u32,
    /// How its session was planned.
    #[serde(default)]
    pub session: SessionFacts,
    /// When the controller made it, for people.
    pub created_unix_ms: i64,
    /// The agent's last word: spec, state, failure, provenance, validity, lifecycle.
    pub status: RunStatus,
    /// What it came to; none where no measured request succeeded.
    pub stats: Option<BenchStats>,
    /// What was known of its server when the run was made; none for engines of agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_report: Option<StoredReport>,
    /// The export that it was read from (`file:`); none for the database.
    #[serde(skip)]
    pub file: Option<String>,
}

impl RunRecord {
    /// What people call its arm: its name, else its engine's.
    pub fn called(&self) -> &str {
        let name = self.status.spec.arm.name.as_deref();
        name.unwrap_or(&self.engine)
    }
}

/// What a list says of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLine {
    /// ULID.
    pub run_id: String,
    /// When the controller made it.
    pub created_unix_ms: i64,
    /// The agent's name in the controller's list.
    pub agent_name: String,
    /// `ch01`, or the name of an engine.
    pub engine: String,
    /// How it was driven.
    pub mode: Mode,
    /// The model as it was asked for.
    pub model: String,
    /// How requests came.
    pub load: Load,
    /// Where it stands.
    pub state: RunState,
    /// Completed requests per second; this and the next two are none where nothing was measured.
    pub req_per_s: Option<f64>,
    /// Output tokens per second.
    pub tok_per_s: Option<f64>,
    /// Mean wall time.
    pub wall_ms: Option<f64>,
    /// Whether it can be believed.
    pub verdict: Soundness,
    /// `--label`.
    pub label: Option<String>,
}

impl RunLine {
    /// Of a run that is at hand.
    pub fn of(run: &RunRecord) -> Self {
        let spec = &run.status.spec;
        let stats = run.stats.as_ref();
        Self {
            run_id: run.run_id.clone(),
            created_unix_ms: run.created_unix_ms,
            agent_name: run.agent_name.clone(),
            engine: run.engine.clone(),
            mode: spec.arm.mode,
            model: spec.workload.model.clone(),
            load: spec.workload.load.clone(),
            state: run.status.state,
            req_per_s: stats.map(|stats| stats.req_per_s),
            tok_per_s: stats.map(|stats| stats.tok_per_s),
            wall_ms: stats.map(|stats| stats.wall_ms),
            verdict: run.status.validity.verdict,
            label: run.label.clone(),
        }
    }
}

/// How a session was planned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFacts {
    /// `abba` or `blocked`.
    pub run_order: String,
    /// Seed of the order of the arms; 0: as they were named.
    pub order_seed: u64,
    /// Passes over the arms that were planned at first.
    pub repeat_count: u32,
    /// How often it may be extended, as was said at its first run.
    pub max_extend: u32,
    /// How often it has been extended.
    pub extended_count: u32,
    /// Passes that were planned in all, by its extensions too.
    #[serde(default)]
    pub planned_count: u32,
    /// When it was made, for people.
    pub created_unix_ms: i64,
}

/// What `doctor` found of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredReport {
    /// ULID.
    pub report_id: String,
    /// From where it was looked at.
    pub agent_name: String,
    /// When, for people.
    pub created_unix_ms: i64,
    /// What was found.
    pub report: ServerReport,
}

/// A run with its raw records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunWithSamples {
    /// The run.
    pub run: RunRecord,
    /// Its requests in order, warm-up first. Where only figures are wanted they may lack texts,
    /// token ids and event times.
    pub samples: Vec<Sample>,
    /// Gaps between the events of each measured, successful answer, counted by whoever read the
    /// event times; empty where nobody did.
    #[serde(skip)]
    pub gaps: GapCounts,
}
