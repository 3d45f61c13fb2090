//! Which runs: conditions that SQLite checks, so that a list of a few does not read all.

use contracts::run::{Mode, RunState};
use sqlx::{QueryBuilder, Sqlite};

use super::rows::word;

/// Which runs; the default is all of them. A list that is empty asks nothing; one with several
/// words takes runs that have any of them. All that is asked must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFilter {
    /// Only those whose end is not stored.
    pub unfinished: bool,
    /// Chapters of the agents' own builds, by id (`ch01`).
    pub chapters: Vec<String>,
    /// Engines by name, chapters among them.
    pub engines: Vec<String>,
    /// Offline or online.
    pub mode: Option<Mode>,
    /// A hostname, or the start of a host's fingerprint.
    pub host: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// The model as it was asked for.
    pub model: Option<String>,
    /// `--label` of the run's command.
    pub label: Option<String>,
    /// Only runs without a label.
    pub unlabelled: bool,
    /// `--tag` of the run's command; each of them.
    pub tags: Vec<(String, String)>,
    /// Where the run stands.
    pub states: Vec<RunState>,
    /// Made at this time or later.
    pub since_unix_ms: Option<i64>,
    /// Made before this time.
    pub before_unix_ms: Option<i64>,
    /// Start of the session's id, in upper or lower case.
    pub session: Option<String>,
    /// Only the newest so many.
    pub limit: Option<u32>,
}

impl RunFilter {
    /// Whether it lets every run through.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Appends its conditions to a query that has `run`, `session` and `host` and ends within its
    /// `where` clause. The limit is the caller's: it follows the order.
    pub(super) fn push(&self, query: &mut QueryBuilder<Sqlite>) {
        if self.unfinished {
            query.push(" and run.state not in ('done', 'failed', 'cancelled')");
        }
        any_of(query, "run.engine", self.chapters.iter().cloned());
        if !self.chapters.is_empty() {
            query.push(" and json_extract(run.spec_json, '$.arm.engine.kind') = 'chapter'");
        }
        any_of(query, "run.engine", self.engines.iter().cloned());
        any_of(query, "run.mode", self.mode.iter().map(word));
        any_of(query, "run.agent_name", self.agent.iter().cloned());
        any_of(query, "run.model", self.model.iter().cloned());
        any_of(query, "session.label", self.label.iter().cloned());
        any_of(query, "run.state", self.states.iter().map(word));
        if self.unlabelled {
            query.push(" and session.label is null");
        }
        if let Some(host) = &self.host {
            query.push(" and (host.hostname = ").push_bind(host.clone());
            query
                .push(" or substr(run.host_fingerprint, 1, length(")
                .push_bind(host.clone())
                .push(")) = ")
                .push_bind(host.clone())
                .push(")");
        }
        for (key, value) in &self.tags {
            query.push(" and exists (select 1 from json_each(session.tags_json) where key = ");
            query.push_bind(key.clone()).push(" and value = ");
            query.push_bind(value.clone()).push(")");
        }
        if let Some(since) = self.since_unix_ms {
            query.push(" and run.created_unix_ms >= ").push_bind(since);
        }
        if let Some(before) = self.before_unix_ms {
            query.push(" and run.created_unix_ms < ").push_bind(before);
        }
        if let Some(session) = &self.session {
            let start = session.to_ascii_uppercase();
            query
                .push(" and substr(run.session_id, 1, length(")
                .push_bind(start.clone())
                .push(")) = ")
                .push_bind(start);
        }
    }
}

/// The column is one of the words; nothing is asked where there are none.
fn any_of(
    query: &mut QueryBuilder<Sqlite>,
    column: &'static str,
    words: impl ExactSizeIterator<Item = String>,
) {
    if words.len() == 0 {
        return;
    }
    query.push(" and ").push(column).push(" in (");
    let mut list = query.separated(", ");
    for word in words {
        list.push_bind(word);
    }
    query.push(")");
}
