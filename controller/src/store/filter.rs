//! Which runs: conditions that SQLite checks, so that a list of a few does not read all.

use contracts::run::{Mode, RunState};
use sqlx::{QueryBuilder, Sqlite};

use super::rows::word;
use crate::selector::{Head, Selector};

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
    /// Those that any of these selectors may mean, as far as SQLite can tell; which of them each
    /// does mean is [`Selector::select`]'s.
    pub selectors: Vec<Selector>,
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
        if !self.selectors.is_empty() {
            query.push(" and (false");
            for selector in &self.selectors {
                query.push(" or (true");
                push_selector(query, selector);
                query.push(")");
            }
            query.push(")");
        }
    }

    /// Appends order and limit: the newest first.
    pub(super) fn push_order(&self, query: &mut QueryBuilder<Sqlite>) {
        query.push(" order by run.created_unix_ms desc, run.run_id desc");
        if let Some(limit) = self.limit {
            query.push(" limit ").push_bind(limit);
        }
    }
}

/// What a run must have for a selector to mean it. Builds are left to the caller.
fn push_selector(query: &mut QueryBuilder<Sqlite>, selector: &Selector) {
    match &selector.head {
        Head::Chapter(name) | Head::Engine(name) => equal(query, "run.engine", name),
        Head::Label(label) => equal(query, "session.label", label),
        Head::Url(_) => {
            equal(
                query,
                "json_extract(run.spec_json, '$.arm.engine.kind')",
                "url",
            );
        }
        Head::Run(prefix) => begins(query, "run.run_id", prefix),
        Head::Session(prefix) => begins(query, "run.session_id", prefix),
        // Not in the database.
        Head::File(_) => {
            query.push(" and false");
        }
    }
    if let Some(mode) = &selector.mode {
        equal(query, "run.mode", &word(mode));
    }
    if let Some(agent) = &selector.agent {
        equal(query, "run.agent_name", agent);
    }
    if let Some(arm) = &selector.arm {
        equal(query, "run.arm_letter", arm);
    }
}

fn equal(query: &mut QueryBuilder<Sqlite>, column: &'static str, word: &str) {
    query.push(" and ").push(column).push(" = ");
    query.push_bind(word.to_owned());
}

/// An id that begins with these letters, in upper or lower case.
fn begins(query: &mut QueryBuilder<Sqlite>, column: &'static str, prefix: &str) {
    let start = prefix.to_ascii_uppercase();
    // The upper end of the range: no ULID has a character above `Z`.
    let end = format!("{start}[");
    query
        .push(" and ")
        .push(column)
        .push(" >= ")
        .push_bind(start);
    query.push(" and ").push(column).push(" < ").push_bind(end);
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
