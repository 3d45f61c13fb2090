//! The two ends of one request: the engine's, which holds a place for it, and the receiving one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use contracts::generate::GenerateResult;
use tokio::sync::{mpsc, watch};

use super::Event;
use crate::error::EngineError;

/// How far an order to stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// There is none.
    No,
    /// Answers that have begun go on.
    Drain,
    /// None does.
    Now,
}

/// Requests that are held.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// All.
    pub(super) held: AtomicUsize,
    /// Those without a token yet.
    pub(super) waiting: AtomicUsize,
}

/// The receiving end of one request; dropping it cancels the request.
#[derive(Debug)]
pub struct Answer {
    pub(super) events: mpsc::UnboundedReceiver<Event>,
    pub(super) stop: watch::Receiver<Stop>,
    pub(super) begun: Arc<AtomicBool>,
}

/// The engine's end of one request. It holds a place in the queue for as long as it lives.
#[derive(Debug)]
pub(super) struct Reply {
    /// Unbounded, so that a slow reader never holds up the engine; the ceiling limits what it can hold.
    pub(super) events: mpsc::UnboundedSender<Event>,
    counts: Arc<Counts>,
    /// Whether its first token has come.
    pub(super) begun: Arc<AtomicBool>,
}

impl Reply {
    /// A place among all that are held, waiting.
    pub(super) fn new(events: mpsc::UnboundedSender<Event>, counts: &Arc<Counts>) -> Self {
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        Self {
            events,
            counts: Arc::clone(counts),
            begun: Arc::default(),
        }
    }

    /// It waits no longer.
    pub(super) fn begin(&self) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Gives the place in the queue back before the client can know: its next request finds it free.
    pub(super) fn end(self, result: Result<GenerateResult, EngineError>) {
        let events = self.events.clone();
        drop(self);
        let _ = events.send(Event::Ended(result.map(Box::new)));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.begin();
        self.counts.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Answer {
    /// The next event. An engine that died counts as an `Ended` with an internal error, an order to
    /// stop as one with [`EngineError::Stopping`].
    pub async fn next(&mut self) -> Event {
        let begun = &self.begun;
        let reached = |stop: &Stop| match stop {
            Stop::No => false,
            Stop::Drain => !begun.load(Ordering::Relaxed),
            Stop::Now => true,
        };
        tokio::select! {
            // The order first: tokens may come without a pause.
            biased;
            Ok(_) = self.stop.wait_for(reached) => Event::Ended(Err(EngineError::Stopping)),
            event = self.events.recv() => event.unwrap_or_else(|| {
                Event::Ended(Err(EngineError::Internal(
                    "the engine ended before the answer did".to_owned(),
                )))
            }),
        }
    }
}
