//! What keeps an agent busy beside runs: short work that a run would disturb, or that would disturb
//! a run. One at a time, and never together with a run.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use super::{Bench, StartError};

/// The agent is busy until this is dropped.
pub struct Errand {
    bench: Arc<Bench>,
    closing: CancellationToken,
}

impl Bench {
    /// Takes the agent for `what`, which those are told who find it busy.
    ///
    /// # Errors
    /// A run or another errand is in progress; the agent is about to end.
    pub async fn occupy(self: &Arc<Self>, what: &'static str) -> Result<Errand, StartError> {
        let _judged = self.admission.lock().await;
        if self.closing.is_cancelled() {
            return Err(StartError::Closing);
        }
        let holder = self.busy().map(|active| format!("run {}", active.id));
        if let Some(holder) = holder.or(self.errand().map(str::to_owned)) {
            return Err(StartError::Busy { holder });
        }
        *self.errand.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        Ok(Errand {
            bench: Arc::clone(self),
            closing: self.closing.clone(),
        })
    }

    /// The errand in progress.
    pub fn errand(&self) -> Option<&'static str> {
        *self.errand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Errand {
    /// Resolves when the agent is asked to end.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        let mut errand = self
            .bench
            .errand
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *errand = None;
    }
}
