//! The run in progress, in memory: its status and its events, for whoever asks or waits.
//!
//! It is the one source of event numbers. What it holds is bounded by what it takes: two progress
//! events a second, [`LOG_EVENTS_MAX`] lines, [`WARNINGS_MAX`] doubts, a handful of states.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contracts::run::{EventKind, RunEvent, RunState, RunStatus, Stage, Warning};
use tokio::sync::watch;

/// Between two progress events, at least: a reader of them must not disturb the measuring.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Lines of the child's output that become events; all of them are in `log.txt`, up to its cap.
const LOG_EVENTS_MAX: usize = 2_000;
/// Bytes of a line that becomes an event.
const LOG_LINE_BYTES_MAX: usize = 4_096;
/// Doubts of one run; the first ones say what is wrong.
const WARNINGS_MAX: usize = 64;

/// Status and events of one run. All methods are short and never wait for anything but each other.
pub struct Record {
    inner: Mutex<Inner>,
    last_seq: watch::Sender<u64>,
    accepted: Instant,
}

struct Inner {
    status: RunStatus,
    stage: Stage,
    events: Vec<RunEvent>,
    log_events: usize,
    last_progress: Option<Instant>,
}

impl Record {
    /// A run that was just accepted; `status.state` is its first event.
    pub fn new(status: RunStatus) -> Self {
        let state = status.state;
        let inner = Inner {
            status,
            stage: Stage::Preflight,
            events: Vec::new(),
            log_events: 0,
            last_progress: None,
        };
        let record = Self {
            inner: Mutex::new(inner),
            last_seq: watch::Sender::new(0),
            accepted: Instant::now(),
        };
        record.push(&mut record.lock(), EventKind::State { state });
        record
    }

    /// As it stands.
    pub fn status(&self) -> RunStatus {
        self.lock().status.clone()
    }

    /// As it stands, the state alone.
    pub fn state(&self) -> RunState {
        self.lock().status.state
    }

    /// What is under way.
    pub fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// When it was accepted.
    pub fn accepted(&self) -> Instant {
        self.accepted
    }

    /// Changes facts of the status that make no event.
    pub fn update(&self, change: impl FnOnce(&mut RunStatus)) {
        change(&mut self.lock().status);
    }

    /// The next stage, and the state that callers see of it.
    pub fn enter(&self, stage: Stage) {
        let state = match stage {
            Stage::Preflight | Stage::Spawn | Stage::Load => RunState::Starting,
            Stage::Warmup => RunState::Warming,
            Stage::Measure => RunState::Measuring,
            Stage::Stop => RunState::Stopping,
        };
        let mut inner = self.lock();
        inner.stage = stage;
        if inner.status.state != state {
            inner.status.state = state;
            self.push(&mut inner, EventKind::State { state });
        }
    }

    /// The end: nothing changes after it.
    pub fn end(&self, status: RunStatus) -> Option<RunEvent> {
        let mut inner = self.lock();
        let state = status.state;
        inner.status = status;
        self.push(&mut inner, EventKind::State { state });
        inner.events.last().cloned()
    }

    /// Requests ended in this phase. Most calls make no event.
    pub fn progress(&self, done: u64, total: u64) {
        let mut inner = self.lock();
        let now = Instant::now();
        if inner
            .last_progress
            .is_none_or(|last| now.duration_since(last) >= PROGRESS_INTERVAL)
        {
            inner.last_progress = Some(now);
            self.push(&mut inner, EventKind::Progress { done, total });
        }
    }

    /// A doubt: stored and told. One of each code is enough.
    pub fn warn(&self, code: &str, message: String) {
        let mut inner = self.lock();
        let warnings = &mut inner.status.warnings;
        if warnings.len() >= WARNINGS_MAX || warnings.iter().any(|warning| warning.code == code) {
            return;
        }
        let warning = Warning {
            code: code.to_owned(),
            message,
        };
        warnings.push(warning.clone());
        self.push(&mut inner, EventKind::Warning { warning });
    }

    /// A line of the child's output.
    pub fn log(&self, line: &str) {
        let mut inner = self.lock();
        inner.log_events += 1;
        let line = match inner.log_events {
            n if n <= LOG_EVENTS_MAX => truncated(line),
            n if n == LOG_EVENTS_MAX + 1 => {
                format!("({LOG_EVENTS_MAX} lines shown; the others are in the agent's log.txt)")
            }
            _ => return,
        };
        self.push(&mut inner, EventKind::Log { line });
    }

    /// Events with a seq above `after`.
    pub fn events_after(&self, after: u64) -> Vec<RunEvent> {
        let inner = self.lock();
        let first = usize::try_from(after).unwrap_or(usize::MAX);
        inner.events.get(first..).unwrap_or_default().to_vec()
    }

    /// Changes with each event.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last_seq.subscribe()
    }

    fn push(&self, inner: &mut Inner, what: EventKind) {
        let seq = inner.events.len() as u64 + 1;
        let at_ms = u64::try_from(self.accepted.elapsed().as_millis()).unwrap_or(u64::MAX);
        inner.events.push(RunEvent { seq, at_ms, what });
        self.last_seq.send_replace(seq);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No method can panic half way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn truncated(line: &str) -> String {
    let mut end = line.len().min(LOG_LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.get(..end).unwrap_or_default().to_owned()
}
