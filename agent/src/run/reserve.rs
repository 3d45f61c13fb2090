//! The host taken for something that is not a run: while it is, no run starts, and the other way
//! round.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use contracts::run::Device;
use tokio_util::sync::CancellationToken;

use super::{Bench, StartError};
use crate::process::device_lock::{self, LockError};

/// The host, for as long as this lives.
pub struct Reserved {
    bench: Arc<Bench>,
    /// Fires when the agent is asked to end.
    pub closing: CancellationToken,
}

impl Bench {
    /// Takes an idle host for `what`, and its processor's lock, to be kept until nothing is left of
    /// what it was taken for.
    ///
    /// # Errors
    /// As a run that is not started.
    pub async fn reserve(
        self: &Arc<Self>,
        what: &'static str,
    ) -> Result<(Reserved, OwnedFd), StartError> {
        let _judged = self.admission.lock().await;
        self.free()?;
        let holder = format!("{what} of agent {}", self.state.agent_id());
        let lock = match device_lock::acquire(&Device::Cpu, &holder, Duration::ZERO).await {
            Ok(lock) => lock,
            Err(LockError::Held { holder, .. }) => return Err(StartError::Busy { holder }),
            Err(error @ LockError::File { .. }) => {
                return Err(StartError::Io(std::io::Error::other(error)));
            }
        };
        *self.reserved.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        let reserved = Reserved {
            bench: Arc::clone(self),
            closing: self.closing.clone(),
        };
        Ok((reserved, lock))
    }

    /// Whether something may start now. To be asked under admission.
    pub(super) fn free(&self) -> Result<(), StartError> {
        if self.closing.is_cancelled() {
            return Err(StartError::Closing);
        }
        if let Some(holder) = self.busy_with() {
            return Err(StartError::Busy { holder });
        }
        match self.state.quarantine() {
            Some(reason) => Err(StartError::Quarantined(reason)),
            None => Ok(()),
        }
    }

    /// The run in progress, or what the host was taken for.
    pub fn busy_with(&self) -> Option<String> {
        let reserved = *self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved
            .map(str::to_owned)
            .or_else(|| self.busy().map(|active| active.id.to_string()))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let reserved = self.bench.reserved.lock();
        *reserved.unwrap_or_else(PoisonError::into_inner) = None;
    }
}
